"""Linear bases on a given graph, trained through the diffusion: of columns, of their means over neighbours, of edges.

With few labels a hidden layer earns nothing on a graph, and what decides is what a base reads: the columns of a node,
those around it, or whom it is joined to. All are fitted, and count by how likely each makes the held-out labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from condiff.bases.averaged import Averaged, divided, scales
from condiff.diffusion import Diffusion
from condiff.estimators.domain import Domain, Scaling, is_filled
from condiff.estimators.inputs import Items
from condiff.graph import Laplacian
from condiff.training import ClassBalance, Training
from condiff.training.descent import Networks, descend
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Items as Targets
from condiff.training.readout import LARGEST_ROWS, OwnClasses, Products, Readout, Rows, diffusion_rows, rows_bytes

Array = NDArray[np.float64]
#: How often columns are averaged over neighbours before they are read, and edges.
HOPS, HOPS_OF_EDGES = (0, 2), 2
#: Total times of the diffusion that are compared with the longest.
TIMES = (8.0, 4.0, 2.0, 1.0, 0.0)
#: Weight decays that are compared with the one asked for, as multiples of it.
DECAYS = (0.1, 10.0)
# Weights begin at zero and the problem is nearly convex: large steps soon arrive.
_RATE, _EPOCHS = 0.3, 40
# As how much of a label a held-out one counts where bases are weighed: labels are few, and chose the diffusion already.
_TRUST = 0.1
# Shares below this are left out.
_LEAST = 0.01
# No class is taken to be rarer than this among the labels.
_RARE = 1e-6
# A sum this small beside its terms is none.
_ROUNDING = 1e-5
# Standard errors by which edges must be better than columns.
_CLEARLY = 3.0


@dataclass(frozen=True, eq=False)
class Reading:
    """What a base reads of the nodes, in single precision: a map of weights to values, and its adjoint.

    Attributes
    ----------
    columns, transposed
        Rows of all nodes, dense or CSR.
    centre, scale
        Rows are centred, then multiplied by ``scale``, (nodes, 1).
    unit
        The common number in it: rows are of length one at the labels, on average.
    walk, back
        The mean over a node and its neighbours, and its transpose.
    hops
        How often the mean is taken.
    of_edges
        Whether the columns are the nodes' own numbers.
    spread
        What columns were divided by before; None where they are read as they are.
    """

    columns: Any
    transposed: Any
    centre: NDArray[np.float32]
    scale: NDArray[np.float32]
    unit: float
    walk: sp.csr_array
    back: sp.csr_array
    hops: int
    of_edges: bool
    spread: Array | None

    @classmethod
    def of(
        cls, points: Any, walk: sp.csr_array, hops: int, labelled: NDArray[np.int64], spread: Array | None = None
    ) -> Reading:
        """Of the columns of all nodes; of their numbers, where ``points`` is None."""
        rows = sp.eye_array(walk.shape[0], format="csr") if points is None else points
        rows = rows if spread is None else divided(rows, spread)
        centre = np.asarray(rows.mean(axis=0), np.float64).ravel()
        scale = scales(rows, centre)
        # Means are shorter than what they are of; at the labels rows are of length one, on average, again.
        seen = sp.eye_array(walk.shape[0], format="csr")[labelled]
        for _ in range(hops):
            seen = seen @ walk
        seen = sp.csr_array(seen @ sp.diags_array(scale.ravel()))
        means, sums = seen @ rows, np.asarray(seen.sum(axis=1)).ravel()
        squares = float((means.data**2).sum() if sp.issparse(means) else (means**2).sum())
        squares += -2 * float((means @ centre) @ sums) + float(sums @ sums * (centre @ centre))
        unit = math.sqrt(max(squares, 0.0) / len(sums)) or 1.0
        if sp.issparse(rows) and is_filled(rows):
            rows = rows.toarray()
        rows = rows.astype(np.float32)
        transposed = sp.csr_array(rows.T) if sp.issparse(rows) else np.ascontiguousarray(rows.T)
        single = sp.csr_array(walk, dtype=np.float32)
        return cls(
            rows,
            transposed,
            centre.astype(np.float32),
            (scale / unit).astype(np.float32),
            unit,
            single,
            sp.csr_array(single.T),
            hops,
            points is None,
            spread,
        )

    def values(self, weight: NDArray[np.float32]) -> NDArray[np.float32]:
        """From (columns, any) to (nodes, any)."""
        found = self.scale * (self.columns @ weight - self.centre @ weight)
        for _ in range(self.hops):
            found = self.walk @ found
        return np.asarray(found)

    def adjoint(self, gradient: NDArray[np.float32]) -> NDArray[np.float32]:
        """From (nodes, any) to (columns, any)."""
        for _ in range(self.hops):
            gradient = self.back @ gradient
        gradient = self.scale * gradient
        return np.asarray(self.transposed @ gradient - np.outer(self.centre, gradient.sum(axis=0)))


class _Linear(Networks):
    """Linear maps of one reading side by side, whose gradients are written out; weights begin at zero.

    ``bias``, (networks, outputs), begins where it is.
    """

    def __init__(self, reading: Reading, bias: Tensor, settings: Training) -> None:
        self.reading, self.bias = reading, bias.clone()
        self.weight = torch.zeros(len(reading.centre), bias.numel())
        self.optimiser = Optimiser([self.weight, self.bias], settings)

    def outputs(self) -> Tensor:
        values = torch.from_numpy(np.ascontiguousarray(self.reading.values(self.weight.numpy()).T))
        # Nodes last: a softmax over a last axis of few classes and products with it take several times as long.
        self.u = torch.softmax(values.view(*self.bias.shape, -1) + self.bias[..., None], dim=1)
        return self.u.mT

    def backward(self, gradient: Tensor) -> None:
        by_u = gradient.mT
        by_values = self.u * (by_u - (self.u * by_u).sum(1, keepdim=True))
        self.weight.grad = torch.from_numpy(self.reading.adjoint(by_values.flatten(0, 1).mT.contiguous().numpy()))
        by_bias = by_values.sum(-1)
        # A step of Adam is as long whatever the gradient, and that of a bias which fits already is only rounding.
        self.bias.grad = by_bias.where(by_bias.abs() > _ROUNDING * by_values.abs().sum(-1), 0.0)

    def give_back(self) -> None:
        """Nothing: they are their own."""


@dataclass(frozen=True, eq=False)
class _Fit:
    """A base that was fitted without each fold and, last, with all labels.

    ``outputs``, (folds and all, nodes, outputs), is what each answers before the diffusion; ``losses`` are those of the
    held-out items after it.
    """

    base: Averaged
    outputs: Tensor
    losses: Array


@dataclass(frozen=True, eq=False)
class Mixture:
    """Bases that are diffused together, each counting by its share.

    Attributes
    ----------
    bases
        Those fitted with all labels.
    outputs
        What they answer together before the diffusion, without each fold and, last, with all labels.
    diffusion
        What they were trained through.
    answers, losses
        At the held-out items, after the diffusion.
    """

    bases: Sequence[Averaged]
    outputs: Tensor
    diffusion: Diffusion
    answers: Array
    losses: Array


@dataclass(frozen=True, eq=False)
class GivenGraph:
    """What bases learn from: a graph, its nodes' columns, and labels of which each fold holds some out.

    Attributes
    ----------
    domain, operator
        The nodes, and their Laplacian in single precision.
    items, held_out, n_outputs
        Labels, which of them each fold leaves out, (folds, items), and the number of classes.
    balance
        A penalty on outputs whose mean strays, one row of proportions for each fold and the last for all labels.
    item_losses
        From answers at the held-out items, and which items these are, to the loss of each.
    weight_decay
        The middle of those that are compared.
    scaling
        Whether columns that mix units are divided by their spread.
    diffusion_of
        The diffusion of a number of layers.
    """

    domain: Domain
    operator: Laplacian
    items: Items
    held_out: NDArray[np.bool_]
    n_outputs: int
    balance: ClassBalance | None
    item_losses: Callable[[Array, NDArray[np.int64]], Array]
    weight_decay: float
    scaling: Scaling
    diffusion_of: Callable[[int], Diffusion]
    _readouts: dict[int, Readout] = field(default_factory=dict)

    @cached_property
    def targets(self) -> Targets:
        """The items as each network weighs them: those without a fold, and the one of all labels."""
        used = np.concatenate([~self.held_out, np.ones((1, len(self.items.nodes)), bool)])
        weight = torch.as_tensor(used * self.items.weights, dtype=torch.float32)
        nodes, codes = (torch.as_tensor(each) for each in (self.items.nodes, self.items.targets))
        return Targets(nodes, codes, weight / weight.sum(1, keepdim=True), len(nodes))

    @cached_property
    def bias(self) -> Tensor:
        """Where the networks' biases begin: the logarithms of the classes' shares of the labels that each sees."""
        members = torch.nn.functional.one_hot(self.targets.target, self.n_outputs).float()
        return torch.log((self.targets.weight @ members).clamp_min(_RARE))

    @cached_property
    def spread(self) -> Array | None:
        """What columns that mix units are divided by."""
        return self.domain.spread_of_units(self.scaling)

    def reading(self, hops: int, *, of_edges: bool = False, raw: bool = False) -> Reading:
        """What a base may read; ``raw`` leaves columns that mix units as they are."""
        points, spread = (None, None) if of_edges else (self.domain.points, None if raw else self.spread)
        return Reading.of(points, self.domain.walk, hops, np.unique(self.items.nodes), spread)

    def choose(self, layers: Sequence[int], *, edges: bool, strangers: bool) -> Mixture:
        """Let held-out labels choose the diffusion and weigh the bases; edges are read where they are clearly better.

        Parameters
        ----------
        layers
            Numbers of layers that are compared.
        edges
            Whether edges may be read.
        strangers
            Whether the columns have nothing to do with the edges, which are then read beside them from the start.
        """
        columns = [self.reading(hops) for hops in HOPS]
        if self.spread is not None:
            # Large columns may be what tells: held-out labels weigh both.
            columns += [self.reading(hops, raw=True) for hops in HOPS]
        if not edges:
            return self._chosen(columns, layers)
        own = self.reading(HOPS_OF_EDGES, of_edges=True)
        if strangers:
            return self._chosen([*columns, own], layers)
        found = self._chosen(columns, layers)
        others = self._mixture(self._fits([own], found.diffusion), found.diffusion)
        gains = found.losses - others.losses
        clear = float(gains.mean()) > _CLEARLY * float(gains.std()) / math.sqrt(len(gains))
        return self._chosen([own], layers) if clear else found

    def take(self, readings: Sequence[Reading], diffusion: Diffusion) -> Mixture:
        """Fit without asking held-out labels: equal shares of what is read."""
        return self._mixture([replace(each, losses=np.zeros(1)) for each in self._fits(readings, diffusion)], diffusion)

    def _chosen(self, readings: Sequence[Reading], layers: Sequence[int]) -> Mixture:
        """The mean of several diffusions, weighed by their held-out labels, with every weight decay.

        Held-out labels are too few to pick one: of two that differ by chance alone, the shorter may lose ten points.
        """
        tried = [self.diffusion_of(each) for each in layers]
        losses = [self._mixture(self._fits(readings, each), each).losses for each in tried]
        chosen = self.diffusion_of(round(float(_shares(losses, 1.0) @ layers)))
        fits = [fit for factor in (1.0, *DECAYS) for fit in self._fits(readings, chosen, factor)]
        return self._mixture(fits, chosen)

    def _fits(self, readings: Sequence[Reading], diffusion: Diffusion, factor: float = 1.0) -> list[_Fit]:
        """A base for each reading, at a multiple of the weight decay."""
        settings = Training("adam", _RATE, weight_decay=factor * self.weight_decay, epochs=_EPOCHS)
        readout = self._readout(diffusion)
        return [self._fit(reading, readout, settings) for reading in readings]

    def _fit(self, reading: Reading, readout: Readout, settings: Training) -> _Fit:
        networks = _Linear(reading, self.bias, settings)
        learning, targets = readout, self.targets
        if isinstance(readout, Rows):
            learning = OwnClasses(readout.rows, targets.target, self.n_outputs)
            targets = targets._replace(target=torch.zeros_like(targets.target))
        descend(networks, learning, targets, "softmax", settings, balance=self.balance)
        outputs = networks.outputs()
        own = networks.weight.view(-1, *networks.bias.shape)[:, -1].double().numpy()
        bias, centre = networks.bias[-1].double().numpy(), reading.centre.astype(np.float64)
        base = Averaged(own, bias, centre, reading.unit, reading.hops, reading.of_edges, 1.0, reading.spread)
        return _Fit(base, outputs, self._held_out(outputs, readout)[1])

    def _readout(self, diffusion: Diffusion) -> Readout:
        """The diffusion at the items; the last one is kept."""
        layers, nodes = diffusion.layers, self.targets.nodes
        if layers not in self._readouts:
            self._readouts.clear()
            has_room = rows_bytes(self.operator, len(nodes)) <= LARGEST_ROWS
            rows = Rows(diffusion_rows(diffusion, self.operator, nodes)) if has_room else None
            self._readouts[layers] = rows or Products(diffusion, self.operator, nodes)
        return self._readouts[layers]

    def _held_out(self, outputs: Tensor, readout: Readout) -> tuple[Array, Array]:
        """Answers at the held-out items, and their losses."""
        fold, item = np.nonzero(self.held_out)
        answers = readout.forward(outputs).double().numpy()[fold, item]
        return answers, self.item_losses(answers, item) if len(item) else np.zeros(0)

    def _mixture(self, fits: Sequence[_Fit], diffusion: Diffusion) -> Mixture:
        shares = _shares([each.losses for each in fits], _TRUST)
        kept = [(each, float(share)) for each, share in zip(fits, shares, strict=True) if share >= _LEAST]
        total = sum(share for _, share in kept)
        outputs = torch.stack([share / total * each.outputs for each, share in kept]).sum(0)
        bases = [replace(each.base, share=share / total) for each, share in kept]
        return Mixture(bases, outputs, diffusion, *self._held_out(outputs, self._readout(diffusion)))


def _shares(losses: Sequence[Array], trust: float) -> Array:
    """How much each of several counts: with equal trust before, Bayes' rule has the likelihood of held-out labels.

    ``trust`` is the power of that: as how much of a label a held-out one counts.
    """
    likely = np.array([-trust * each.sum() for each in losses])
    found = np.exp(likely - likely.max())
    return np.asarray(found / found.sum())
