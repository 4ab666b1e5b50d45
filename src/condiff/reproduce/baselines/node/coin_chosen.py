"""COIN on a graph of one's own: what the paper chose for each of its graphs, validation nodes weigh."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.diffusion import Diffusion
from condiff.diffusion.stability import max_diagonal
from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.field import PerPart
from condiff.reproduce.baselines.node.method import NodeMethod, NodeNetwork, Outcome, train, zero_bias
from condiff.reproduce.baselines.node.mixing import mixed
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training import Training
from condiff.training.readout import LARGEST_ROWS, diffusion_rows
from condiff.uncertainty.calibration import apply_temperature, fit_temperature

#: What is tried: total times of the diffusion, from the most usual one on, of an implicit step and of explicit ones.
TIMES, EXPLICIT_TIMES = (9.0, 4.0, 1.0, 19.0, 0.0), (4.0, 2.0, 8.0)
#: How often features are averaged over neighbours before the base sees them, and weight decays.
SMOOTHED, DECAYS = (0, 2), (5e-4, 5e-5, 5e-3)
# How often the nodes' own numbers are averaged, where the base reads edges: to whom a node's neighbours are joined.
_OF_EDGES = 2
# Standard errors by which edges must be better than features: validation nodes, as many of each class, are not quite
# like those that are to be answered.
_CLEARLY = 3.0
# As how much of a node a validation node counts where answers are mixed, for the same reason, and because training was
# stopped where they were answered best.
_TRUST = 0.1
# Hops that the series of an implicit step goes: what is left of its weights goes to the last.
_HOPS = 20
# A denser matrix of features is multiplied faster as such.
_SPARSE = 0.2
_TINY = 1e-9

Flow = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True)
class ChosenCOIN(NodeMethod):
    r"""A linear base on centred features of length one, diffused for a time that validation nodes choose.

    One implicit step, :math:`u = (I + t(I - W))^{-1} u^0` with :math:`W = D^{-1}(A + I)`, the mean over a node and its
    neighbours: it has no step-size limit, and probabilities stay such. With 20 labels per class a hidden layer earned
    nothing. Where a node's own features say little, they are averaged over its neighbours, and theirs, before the base
    sees them: the diffusion is then split around the base, as Strang's splitting has it, and not after it alone.
    Features may also know nothing of the classes: then the base may read the edges instead, a column for every node,
    averaged over neighbours and theirs.

    Features as they are, averaged features, and edges where they are clearly better, are each tried with every time,
    and with the best time with other weight decays; the time 0 is the base alone. Best is the least log loss of the
    validation nodes after calibration. All that was tried is mixed by :func:`mixed`, because validation nodes are too
    few to pick one setting safely; ``chosen`` is the one that counts most. What is given is not tried otherwise.
    ``layers`` and ``strength`` ask for explicit layers on the paper's operator instead; one of them alone leaves the
    other to the positivity limit of the graph and to the validation nodes.

    Parameters
    ----------
    layers, strength
        Explicit layers: K and sigma squared.
    time
        The total time of the diffusion; ``layers * strength`` of explicit ones.
    smoothed
        How often features are averaged over neighbours first.
    edges
        Whether the base reads edges instead of features.
    weight_decay
        Of all weights.
    training
        Optimiser and early stopping.
    """

    layers: int | None = None
    strength: float | None = None
    time: float | None = None
    smoothed: int | None = None
    edges: bool | None = None
    weight_decay: float | None = None
    training: Training = field(default=Training(learning_rate=0.3, patience=30))

    def __post_init__(self) -> None:
        check_counts(**({} if self.layers is None else {"layers": self.layers}))
        numbers = {"strength": self.strength, "weight_decay": self.weight_decay}
        for name, value in numbers.items():
            if value is not None and (not isinstance(value, int | float) or not 0 < value < math.inf):
                raise InvalidInputError(f"{name} must be a positive number, or null to be chosen, not {value!r}")
        if self.time is not None and (not isinstance(self.time, int | float) or not 0 <= self.time < math.inf):
            raise InvalidInputError(f"time must be a number of at least 0, or null to be chosen, not {self.time!r}")
        if self.smoothed is not None and (not isinstance(self.smoothed, int) or self.smoothed < 0):
            raise InvalidInputError(f"smoothed must be a whole number of at least 0, not {self.smoothed!r}")
        if self.edges is not None and not isinstance(self.edges, bool):
            raise InvalidInputError(f"edges must be true, false, or null to be chosen, not {self.edges!r}")
        if None not in (self.layers, self.strength, self.time):
            raise InvalidInputError("time must be left out where layers and strength are given: it is their product")

    @property
    def asked(self) -> float | None:
        """The strength of a layer that was asked for, by itself or by a time and a number of layers."""
        return self.time / self.layers if self.time is not None and self.layers is not None else self.strength

    @property
    def explicit(self) -> bool:
        """Whether explicit layers were asked for, which have a step-size limit."""
        return self.layers is not None or self.strength is not None

    def diffusions(self, problem: NodeProblem) -> list[Diffusion | float]:
        """What is tried on a graph: explicit layers, or times of an implicit step."""
        if not self.explicit:
            return list(TIMES if self.time is None else (self.time,))
        limit = 1.0 / (max_diagonal(problem.graph.normalised(self_loops="add").laplacian()) or 1.0)
        if self.layers is not None:
            return [Diffusion(self.layers, limit if self.asked is None else self.asked)]
        assert self.strength is not None
        times = EXPLICIT_TIMES if self.time is None else (self.time,)
        return [Diffusion(max(1, round(each / self.strength)), self.strength) for each in times]

    def inputs(self, problem: NodeProblem) -> list[_Inputs]:
        """What a base may read: features, or the edges."""
        averagings = SMOOTHED if self.smoothed is None else (self.smoothed,)
        found = [] if self.edges else [_Inputs.of(problem, problem.features, each) for each in averagings]
        if self.edges is not False:
            times = _OF_EDGES if self.smoothed is None else self.smoothed
            found.append(_Inputs.of(problem, None, times))
        return found

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StepSizeWarning)  # the protocol warns of a strength that was asked for
            flows = _flows(problem, self.diffusions(problem))
            decays = DECAYS if self.weight_decay is None else (self.weight_decay,)
            inputs = self.inputs(problem)

            def attempt(flow: _Flow, read: _Inputs, decay: float) -> _Trial:
                torch.manual_seed(seed)
                outcome = train(_Network(problem, read, flow), problem, replace(self.training, weight_decay=decay))
                chosen = {**flow.named, **read.named, "weight_decay": decay}
                return _Trial.of(outcome, problem, flow, chosen)

            def attempts(read: _Inputs, first: Sequence[_Trial] = ()) -> list[_Trial]:
                """Every time, and then every weight decay with the best of them."""
                found = [*first, *(attempt(flow, read, decays[0]) for flow in flows[len(first) :])]
                best = _best(found)
                return found + [attempt(best.flow, read, decay) for decay in decays[1:]]

            trials = [trial for read in inputs if not read.named["edges"] for trial in attempts(read)]
            for read in (read for read in inputs if read.named["edges"]):
                first = attempt(flows[0], read, decays[0])
                if not trials or first.clearly_better(_best(trials)):
                    trials += attempts(read, [first])
            scores = mixed([trial.scores for trial in trials], problem, _TRUST)
        epochs = sum(trial.epochs for trial in trials)
        return Outcome(scores, epochs, time.perf_counter() - started, _best(trials).chosen)


def _best(trials: Sequence[_Trial]) -> _Trial:
    return min(trials, key=lambda trial: trial.loss)


class _Trial(NamedTuple):
    """A fit with some settings: its losses at the validation nodes, what it answers, what it cost."""

    losses: NDArray[np.float64]
    scores: Tensor
    epochs: int
    flow: _Flow
    chosen: dict[str, float]

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    def clearly_better(self, other: _Trial) -> bool:
        """Whether the losses are lower than those of another trial by more than chance explains."""
        gains = other.losses - self.losses
        return bool(gains.mean() > _CLEARLY * gains.std() / math.sqrt(len(gains)))

    @classmethod
    def of(cls, outcome: Outcome, problem: NodeProblem, flow: _Flow, chosen: dict[str, float]) -> _Trial:
        """Judge answers by their log loss once they are calibrated: how flat a diffusion left them is no merit."""
        known = problem.validation
        answers, codes = outcome.scores[known].exp().double().numpy(), problem.labels[known].numpy()
        temperature = fit_temperature(answers, codes, np.ones(len(codes)))
        likely = apply_temperature(answers, temperature)[np.arange(len(codes)), codes]
        return cls(-np.log(np.maximum(likely, 1e-12)), outcome.scores, outcome.epochs, flow, chosen)


@dataclass(frozen=True, eq=False)
class _Flow:
    """A diffusion: of all nodes, and of its rows at the labelled ones where there is room for them."""

    named: dict[str, float]
    everywhere: Flow
    backward: Flow
    rows: Callable[[Tensor], Tensor] | None


def _flows(problem: NodeProblem, diffusions: Sequence[Diffusion | float]) -> list[_Flow]:
    parts = problem.train, problem.validation
    # Twice what one diffusion may take: without its rows every epoch diffuses all nodes, which takes much longer.
    has_room = 4 * problem.n_nodes * sum(map(len, parts)) * len(diffusions) <= 2 * LARGEST_ROWS
    if isinstance(diffusions[0], Diffusion):
        return [_explicit(problem, each, has_room) for each in diffusions if isinstance(each, Diffusion)]
    times = [each for each in diffusions if not isinstance(each, Diffusion)]
    walk = problem.graph.normalised("random_walk", self_loops="add").weights.astype(np.float32)
    back = sp.csr_array(walk.T)
    known: list[tuple[Tensor, list[Tensor]]] = []
    if has_room:
        for nodes in parts:
            unit = np.zeros((problem.n_nodes, len(nodes)), np.float32)
            unit[nodes.numpy(), np.arange(len(nodes))] = 1.0
            # A row of the diffusion is a column of its transpose; the times share the products.
            found = _series(back, unit, times)
            known.append((nodes, [torch.from_numpy(np.ascontiguousarray(each.T)) for each in found]))

    def flow(place: int) -> _Flow:
        here = times[place : place + 1]

        def rows(nodes: Tensor) -> Tensor:
            return next(found[place] for part, found in known if part is nodes)

        return _Flow(
            {"time": here[0]},
            lambda u: _series(walk, u, here)[0],
            lambda u: _series(back, u, here)[0],
            rows if has_room else None,
        )

    return [flow(place) for place in range(len(times))]


def _series(walk: sp.csr_array, u: NDArray[np.float32], times: Sequence[float]) -> list[NDArray[np.float32]]:
    r""":math:`\sum_k \alpha (1 - \alpha)^k W^k u` with :math:`\alpha = 1 / (1 + t)`, for several times at once."""
    left = [np.float32(time / (1 + time)) for time in times]
    found = [np.multiply(u, 1 - each) for each in left]
    power = u
    for hop in range(1, _HOPS + 1):
        power = walk @ power
        for total, each in zip(found, left, strict=True):
            # What is left of the series is given to its last hop, so that weights sum to one.
            weight = each**hop * (1 if hop == _HOPS else 1 - each)
            if weight:
                total += weight * power
    return found


def _explicit(problem: NodeProblem, diffusion: Diffusion, has_room: bool) -> _Flow:
    operator = problem.graph.normalised(self_loops="add").laplacian()

    def everywhere(u: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(diffusion(torch.from_numpy(u), operator).numpy())

    layers, strength = diffusion.layers, float(diffusion.strength)
    named = {"layers": layers, "strength": strength, "time": layers * strength}
    rows = (lambda nodes: diffusion_rows(diffusion, operator, nodes)) if has_room else None
    return _Flow(named, everywhere, everywhere, rows)  # the operator is symmetric, and so is the diffusion


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What a linear map makes of centred features of length one, averaged over neighbours some times.

    The map comes first and the means after it, on as many columns as there are classes: words stay sparse.
    """

    x: SparseMatrix | Tensor
    centre: Tensor
    scale: Tensor
    mean: SparseMatrix
    times: int
    named: dict[str, float]

    @classmethod
    def of(cls, problem: NodeProblem, columns: sp.csr_array | None, times: int) -> _Inputs:
        """Of some columns; of the numbers of the nodes, where there are none."""
        features = sp.eye_array(problem.n_nodes, format="csr") if columns is None else columns
        centre = np.asarray(features.mean(axis=0)).ravel()
        squares = np.asarray(features.multiply(features).sum(axis=1)).ravel() - 2 * (features @ centre)
        length = np.sqrt(np.maximum(squares + centre @ centre, _TINY**2))
        means = problem.graph.normalised("random_walk", self_loops="add").weights
        # Averages are shorter than what they average; at the labels they are of length one, on average, again.
        seen = sp.eye_array(problem.n_nodes, format="csr")[torch.cat([problem.train, problem.validation]).numpy()]
        for _ in range(times):
            seen = seen @ means
        seen = sp.csr_array(seen @ sp.diags_array(1 / length))
        rows, sums = sp.csr_array(seen @ features), np.asarray(seen.sum(axis=1)).ravel()
        total = float((rows.data**2).sum()) - 2 * float((rows @ centre) @ sums) + float(sums @ sums * (centre @ centre))
        typical = math.sqrt(max(total, 0.0) / len(sums)) or 1.0
        sparse = features.nnz <= _SPARSE * math.prod(features.shape)
        scale = torch.from_numpy(1 / (typical * length)).float()[:, None]
        x = SparseMatrix.of(features) if columns is None else problem.x if sparse else problem.x_dense
        named: dict[str, float] = {"smoothed": times, "edges": columns is None}
        return cls(x, torch.from_numpy(centre).float(), scale, SparseMatrix.of(means), times, named)

    def mapped(self, weight: Tensor) -> Tensor:
        """The features times a matrix of weights."""
        # Columns first: BLAS is several times slower on a result of few columns than on one of few rows.
        product = self.x @ weight if isinstance(self.x, SparseMatrix) else (weight.mT @ self.x.mT).mT
        found = self.scale * (product - self.centre @ weight)
        for _ in range(self.times):
            found = self.mean @ found
        return found


class _Network(NodeNetwork):
    r""":math:`u^0 = \mathrm{softmax}(c\,W^k X \Theta + b)`, diffused; weights begin at zero, whatever the seed."""

    def __init__(self, problem: NodeProblem, inputs: _Inputs, flow: _Flow) -> None:
        super().__init__()
        self.inputs, self.flow = inputs, flow
        self.rows = PerPart(flow.rows) if flow.rows is not None else None
        self.weight = nn.Parameter(torch.zeros(len(inputs.centre), problem.n_classes))
        self.bias = zero_bias(problem.n_classes)
        self._validated: Tensor | None = None

    def base(self) -> Tensor:
        """Probabilities of every node before the diffusion."""
        return torch.softmax(self.inputs.mapped(self.weight) + self.bias, dim=-1)

    def at(self, nodes: Tensor) -> Tensor:
        if self.rows is None:
            return self()[nodes]  # type: ignore[no-any-return]
        # There is no dropout: what an epoch is validated with, the next is trained with, and it is made once.
        if self.training:
            u, self._validated = self.base() if self._validated is None else self._validated, None
        else:
            with torch.enable_grad():
                u = self._validated = self.base()
        return _log((u.mT @ self.rows.of(nodes).mT).mT)

    def forward(self) -> Tensor:
        found: Tensor = _Flowing.apply(self.base(), self.flow)  # type: ignore[no-untyped-call]
        return _log(found)


class _Flowing(torch.autograd.Function):
    """A linear map of all nodes, and its adjoint."""

    @staticmethod
    def forward(context: Any, u: Tensor, flow: _Flow) -> Tensor:
        context.flow = flow
        return torch.from_numpy(flow.everywhere(u.detach().numpy()))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return torch.from_numpy(context.flow.backward(gradients[0].contiguous().numpy())), None


def _log(u: Tensor) -> Tensor:
    """The log of rows scaled to sum to one, which explicit layers past a limit may leave."""
    u = u.clamp_min(_TINY)
    return torch.log(u / u.sum(-1, keepdim=True))
