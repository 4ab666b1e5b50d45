"""COIN on node tasks: with the paper's settings, with a certified step size, and with settings of its own choice."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from condiff import kernels
from condiff.diffusion.stability import max_diagonal
from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.graph import Laplacian
from condiff.model import COIN as Network
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.method import NodeMethod, Outcome
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training import NODE, Fitted, Problem, Training, fit
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
    """A fit with some settings: its loss at the validation nodes, what it answers, and what it cost."""

    loss: float
    scores: Tensor
    epochs: int
    chosen: dict[str, float]

    @classmethod
    def of(cls, fitted: Fitted, known: Tensor, labels: Tensor, **chosen: float) -> _Trial:
        """Judge a fit by its log loss once its probabilities are calibrated: how flat it left them is no merit."""
        answers, codes = fitted.diffused[known].double().numpy(), labels.numpy()
        temperature = fit_temperature(answers, codes, np.ones(len(codes)))
        likely = apply_temperature(answers, temperature)[np.arange(len(codes)), codes]
        return cls(float(-np.log(np.maximum(likely, 1e-12)).mean()), fitted.diffused, len(fitted.losses), chosen)


@dataclass(frozen=True)
class ChosenCOIN(NodeMethod):
    """COIN on a graph of one's own: validation nodes choose what the paper chose for each of its graphs.

    First the weight decay, then the total time of the diffusion, by the log loss of the validation nodes after
    calibration. The strength of a layer is at most the positivity limit of the graph, in as many layers as the time
    takes. What is given is not chosen.

    Parameters
    ----------
    layers, strength
        The diffusion: K and sigma squared.
    weight_decay
        Of all weights.
    hidden
        Width of the hidden layer, whatever the number of features.
    training
        Optimiser and early stopping.
    """

    layers: int | None = None
    strength: float | None = None
    weight_decay: float | None = None
    hidden: int = 64
    training: Training = NODE

    def __post_init__(self) -> None:
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
        decay = min(trials, key=_loss).chosen["weight_decay"]
        trials += [self._try(problem, operator, seed, each, decay) for each in others]
        best = min(trials, key=_loss)
        return Outcome(best.scores, sum(each.epochs for each in trials), time.perf_counter() - started, best.chosen)

    def _try(
        self, problem: NodeProblem, operator: Laplacian, seed: int, diffusion: tuple[int, float], decay: float
    ) -> _Trial:
        torch.manual_seed(seed)
        layers, strength = diffusion
        sparse = problem.features.nnz <= _SPARSE * problem.n_nodes * problem.n_features
        known = problem.validation
        network = Network.build(
            problem.n_features, problem.n_classes, hidden_features=self.hidden, layers=layers, strength=strength
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StepSizeWarning)  # the protocol warns of a strength that was asked for
            fitted = fit(
                Problem(
                    network,
                    problem.x if sparse else problem.x_dense,
                    operator,
                    problem.labels,
                    problem.train,
                    validation=known,
                    settings=replace(self.training, weight_decay=decay),
                )
            )
            return _Trial.of(fitted, known, problem.labels[known], layers=layers, strength=strength, weight_decay=decay)


def _loss(trial: _Trial) -> float:
    return trial.loss
