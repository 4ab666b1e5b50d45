"""COIN on node tasks: with the paper's settings, with a certified step size, and with settings of its own choice."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff import kernels
from condiff.diffusion import Diffusion
from condiff.diffusion.stability import max_diagonal
from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.graph import Laplacian
from condiff.graph.sparse import SparseMatrix, dropout
from condiff.model import COIN as Network
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.method import NodeMethod, NodeNetwork, Outcome, train
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training import NODE, Problem, Training, fit
from condiff.training.readout import LARGEST_ROWS, diffusion_rows, rows_bytes
from condiff.uncertainty.calibration import apply_temperature, fit_temperature

# The paper's Materials and Methods: the strength of a layer, and the weight decay where it is not 5e-4.
_STRENGTH = {"cora": 0.35, "citeseer": 0.4, "pubmed": 0.3}
_WEIGHT_DECAY = {"citeseer": 0.01}
# What is tried on other graphs: the diffusion's total time, from the most usual one on, and the weight decay.
_TIMES, _DECAYS = (4.0, 2.0, 8.0), (5e-4, 0.01)
# A denser matrix of features is multiplied faster as such.
_SPARSE = 0.2


@dataclass(frozen=True)
class COIN(NodeMethod):
    """A residual network as wide as its input, then ``layers`` Euler steps of diffusion on its output.

    The paper's settings: 20 layers; strength 0.35 on Cora, 0.4 on Citeseer, 0.3 on Pubmed; Adam 0.01; weight decay
    5e-4, and 0.01 on Citeseer; no dropout. Cora's strength is past both limits of the explicit step.

    Parameters
    ----------
    layers, strength
        The diffusion: K and sigma squared.
    training
        Optimiser and early stopping.
    """

    layers: int = 20
    strength: float = 0.35
    training: Training = NODE

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Any:
        """The paper's settings on its three graphs; on any other, those that its validation nodes choose."""
        if dataset not in _STRENGTH:
            return ChosenCOIN()
        decay = _WEIGHT_DECAY.get(dataset, NODE.weight_decay)
        return cls(strength=_STRENGTH[dataset], training=replace(NODE, weight_decay=decay))

    def steps(self, problem: NodeProblem) -> tuple[int, float]:
        """Number and strength of the diffusion layers on this graph."""
        return self.layers, self.strength

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        torch.manual_seed(seed)
        layers, strength = self.steps(problem)
        network = Network.build(problem.n_features, problem.n_classes, layers=layers, strength=strength)
        operator = problem.graph.normalised(self_loops="add").laplacian()
        with warnings.catch_warnings():
            # The paper's own strength is past a limit on Cora; `condiff certify cora` reports it.
            warnings.simplefilter("ignore", StepSizeWarning)
            kernels.warm_up(["blocks"])
            started = time.perf_counter()
            fitted = fit(
                Problem(
                    network,
                    problem.x,
                    operator,
                    problem.labels,
                    problem.train,
                    validation=problem.validation,
                    settings=self.training,
                )
            )
            seconds = time.perf_counter() - started
            with torch.no_grad():
                base = network.base(problem.x_csr)
                scores = network.diffusion(base, operator)
        return Outcome(scores, len(fitted.losses), seconds)


@dataclass(frozen=True)
class CertifiedCOIN(COIN):
    """The same total diffusion ``layers * strength``, in as many layers as keep each within the positivity limit."""

    def steps(self, problem: NodeProblem) -> tuple[int, float]:
        operator = problem.graph.normalised(self_loops="add").laplacian(torch.float64)
        total = self.layers * self.strength
        layers = max(1, math.ceil(total * max_diagonal(operator)))
        return layers, total / layers


class _Trial(NamedTuple):
    """A fit with some settings: loss at the validation nodes and which are right, what it answers, what it cost."""

    loss: float
    right: NDArray[np.bool_]
    scores: Tensor
    epochs: int
    chosen: dict[str, float]

    @classmethod
    def of(cls, outcome: Outcome, problem: NodeProblem, chosen: dict[str, float]) -> _Trial:
        """Judge answers by their log loss once they are calibrated: how flat a diffusion left them is no merit."""
        known = problem.validation
        answers, codes = outcome.scores[known].exp().double().numpy(), problem.labels[known].numpy()
        temperature = fit_temperature(answers, codes, np.ones(len(codes)))
        likely = apply_temperature(answers, temperature)[np.arange(len(codes)), codes]
        loss = float(-np.log(np.maximum(likely, 1e-12)).mean())
        return cls(loss, answers.argmax(axis=1) == codes, outcome.scores, outcome.epochs, chosen)

    def beats(self, other: _Trial) -> bool:
        """Whether the loss is lower and more nodes are right, by more than a standard error of their difference."""
        gained, lost = int((self.right & ~other.right).sum()), int((other.right & ~self.right).sum())
        return self.loss < other.loss and gained - lost > math.sqrt(gained + lost)


@dataclass(frozen=True)
class ChosenCOIN(NodeMethod):
    """COIN on a graph of one's own: validation nodes choose what the paper chose for each of its graphs.

    First the weight decay, heavy only where it is clearly better; then the total time of the diffusion, by the log loss
    of the validation nodes after calibration. The strength of a layer is at most the positivity limit of the graph, in
    as many layers as the time takes. What is given is not chosen.

    Parameters
    ----------
    layers, strength
        The diffusion: K and sigma squared.
    weight_decay
        Of all weights.
    hidden
        Width of the hidden layer, whatever the number of features.
    dropout
        Probability with which the inputs of a layer are dropped in training; the paper's networks do without.
    training
        Optimiser and early stopping.
    """

    layers: int | None = None
    strength: float | None = None
    weight_decay: float | None = None
    hidden: int = 64
    dropout: float = 0.5
    training: Training = NODE

    def __post_init__(self) -> None:
        check_probabilities(dropout=self.dropout)
        check_counts(hidden=self.hidden, **({} if self.layers is None else {"layers": self.layers}))
        for name, value in (("strength", self.strength), ("weight_decay", self.weight_decay)):
            if value is not None and (not isinstance(value, int | float) or not 0 < value < math.inf):
                raise InvalidInputError(f"{name} must be a positive number, or null to be chosen, not {value!r}")

    def diffusions(self, operator: Laplacian) -> list[tuple[int, float]]:
        """Numbers of layers and their strength that are tried on a graph."""
        limit = 1.0 / (max_diagonal(operator) or 1.0)
        if self.layers is not None:
            return [(self.layers, limit if self.strength is None else self.strength)]
        if self.strength is not None:
            return [(max(1, round(time / self.strength)), self.strength) for time in _TIMES]
        numbers = [max(1, math.ceil(time / limit)) for time in _TIMES]
        return [(number, time / number) for number, time in zip(numbers, _TIMES, strict=True)]

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        operator = problem.graph.normalised(self_loops="add").laplacian()
        first, *others = self.diffusions(operator)
        decays = _DECAYS if self.weight_decay is None else (self.weight_decay,)
        started = time.perf_counter()
        trials = [self._try(problem, operator, seed, first, decay) for decay in decays]
        # A heavy decay makes networks nearly linear: what some graphs need costs accuracy on others.
        usual = next((trial for trial in trials if trial.beats(trials[0])), trials[0])
        decay = usual.chosen["weight_decay"]
        longer_or_shorter = [self._try(problem, operator, seed, each, decay) for each in others]
        best = min([usual, *longer_or_shorter], key=lambda trial: trial.loss)
        epochs = sum(each.epochs for each in trials + longer_or_shorter)
        return Outcome(best.scores, epochs, time.perf_counter() - started, best.chosen)

    def _try(
        self, problem: NodeProblem, operator: Laplacian, seed: int, diffusion: tuple[int, float], decay: float
    ) -> _Trial:
        torch.manual_seed(seed)
        layers, strength = diffusion
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StepSizeWarning)  # the protocol warns of a strength that was asked for
            network = _Network(problem, operator, Diffusion(layers, strength), self.hidden, self.dropout)
            outcome = train(network, problem, replace(self.training, weight_decay=decay))
        chosen = {"layers": layers, "strength": strength, "weight_decay": decay}
        return _Trial.of(outcome, problem, chosen)


class _Network(NodeNetwork):
    r"""A narrow residual network with dropout, diffused: only its rows at the labelled nodes are needed in training.

    :math:`u_0 = \mathrm{softmax}(S x + W_2\,\mathrm{relu}(W_1 x + b_1) + b_2)`.
    """

    def __init__(
        self, problem: NodeProblem, operator: Laplacian, diffusion: Diffusion, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        sparse = problem.features.nnz <= _SPARSE * problem.n_nodes * problem.n_features
        self.x = problem.x if sparse else problem.x_dense
        self.operator, self.diffusion, self.dropout = operator, diffusion, dropout
        self.inner = nn.Linear(problem.n_features, hidden + problem.n_classes)
        self.outer = nn.Linear(hidden, problem.n_classes)
        parts = {"train": problem.train, "validation": problem.validation}
        few = rows_bytes(operator, sum(map(len, parts.values()))) <= LARGEST_ROWS
        self.rows = [(nodes, diffusion_rows(diffusion, operator, nodes)) for nodes in parts.values()] if few else []

    def base(self) -> Tensor:
        """Probabilities of every node before the diffusion."""
        x = self.x
        x = x.dropped(self.dropout, self.training) if isinstance(x, SparseMatrix) else self._dropped(x)
        both = x @ self.inner.weight.mT.contiguous() + self.inner.bias
        hidden, shortcut = both.split([self.outer.in_features, self.outer.out_features], dim=-1)
        return torch.softmax(shortcut + self.outer(self._dropped(torch.relu(hidden))), dim=-1)

    def _dropped(self, values: Tensor) -> Tensor:
        return dropout(values, self.dropout, self.training)

    def at(self, nodes: Tensor) -> Tensor:
        rows = next((rows for known, rows in self.rows if known is nodes), None)
        return self()[nodes] if rows is None else _log(rows @ self.base())

    def forward(self) -> Tensor:
        return _log(self.diffusion(self.base(), self.operator))


def _log(u: Tensor) -> Tensor:
    return u.clamp_min(1e-12).log()
