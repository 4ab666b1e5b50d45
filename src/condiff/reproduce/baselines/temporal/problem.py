"""The input of methods for series on a graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian
from condiff.graph.batch import directed_laplacians

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SnapshotGraphs:
    """The graph of every snapshot, and the matrices that methods make of it, each computed once for all masks.

    Matrices are (snapshots, n, n) in float32 and dense: for some hundred regions a dense product is many times faster
    than a sparse one.

    Parameters
    ----------
    weights
        One directed (n, n) graph a snapshot, as measured: not normalised, self-loops kept.
    """

    weights: tuple[sp.csr_array, ...]

    @property
    def n_regions(self) -> int:
        """The number of regions."""
        return int(self.weights[0].shape[0])

    @cached_property
    def propagation(self) -> Tensor:
        """``D^-1/2 W^T D^-1/2`` with D the column sums: GCN's matrix, where a region hears from those that move to it.

        A region without a self-loop gets one of weight 1.
        """
        weights = self._dense()
        loops = weights.diagonal(dim1=1, dim2=2)
        loops[loops == 0] = 1.0
        scale = weights.sum(1).rsqrt()
        return (scale[:, :, None] * weights.mT * scale[:, None, :]).float()

    @cached_property
    def walks(self) -> tuple[Tensor, Tensor]:
        """``D_O^-1 W`` and ``D_I^-1 W^T``: a step of the random walk along the edges, and one against them."""
        weights = self._dense()
        return _walk(weights), _walk(weights.mT)

    @cached_property
    def laplacian(self) -> DenseLaplacian:
        """COIN's Laplacians, of weights with an empty diagonal and row-sum degrees on both sides."""
        return directed_laplacians(self.weights)

    def _dense(self) -> Tensor:
        return torch.from_numpy(np.stack([graph.toarray() for graph in self.weights])).double()


def _walk(weights: Tensor) -> Tensor:
    """Rows divided by their sums; rows without any weight stay zero."""
    return (weights / weights.sum(2, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)).float()


@dataclass(frozen=True, eq=False)
class TemporalProblem:
    """One panel under one mask, as a method sees it: no target of a test snapshot is in it.

    Snapshot s looks back on the days s, ..., s + lags - 1 and asks for the day s + lags.

    Parameters
    ----------
    dataset
        Its name, for hyper-parameters that a method's authors recommend for it.
    history
        (days, regions), standardised, NaN where a value is hidden. The last day is the last that any snapshot looks
        back on. A forecast for a day may use the days before it, and nothing else.
    targets
        (snapshots, regions); NaN where hidden, and in every snapshot that is not for training or validation.
    graphs
        One a snapshot.
    lags
        Days that a snapshot looks back on.
    train, validation, test
        Which snapshots are for what, in their order.
    """

    dataset: str
    history: NDArray[np.float64]
    targets: NDArray[np.float64]
    graphs: SnapshotGraphs
    lags: int
    train: slice
    validation: slice
    test: slice

    def __post_init__(self) -> None:
        snapshots, regions = self.targets.shape
        expected = (snapshots + self.lags - 1, regions)
        if self.history.shape != expected or len(self.graphs.weights) != snapshots:
            raise InvalidInputError(
                f"{snapshots} snapshots of {self.lags} lags need a history of {expected} and {snapshots} graphs, not "
                f"{self.history.shape} and {len(self.graphs.weights)}"
            )
        if not np.isnan(self.targets[self.test]).all():
            raise InvalidInputError("the targets of test snapshots are not for methods to see: make them NaN")

    @property
    def n_regions(self) -> int:
        """The number of regions."""
        return int(self.targets.shape[1])

    @cached_property
    def lagged(self) -> NDArray[np.float64]:
        """The inputs of each snapshot, (snapshots, regions, lags), the oldest day first, NaN where hidden."""
        return np.lib.stride_tricks.sliding_window_view(self.history, self.lags, axis=0)

    @cached_property
    def inputs(self) -> Tensor:
        """The same in float32 with 0, a region's mean, where a value is hidden."""
        return torch.from_numpy(np.nan_to_num(self.lagged, nan=0.0)).float()

    @property
    def past_of_tests(self) -> list[NDArray[np.float64]]:
        """For each test snapshot, all days before the one that it asks for, (days, regions)."""
        snapshots = range(len(self.targets))[self.test]
        return [self.history[: snapshot + self.lags] for snapshot in snapshots]

    @cached_property
    def training(self) -> Part:
        """The training snapshots that have a known target: the others have no error to learn from."""
        everything = range(len(self.targets))
        chosen = [snapshot for snapshot in everything[self.train] if not np.isnan(self.targets[snapshot]).all()]
        if not chosen:
            raise InvalidInputError("no training snapshot has a known target, so there is nothing to learn from")
        return Part(self, chosen)

    @property
    def training_rows(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The inputs of the training snapshots where their target is known, (rows, lags), and the targets."""
        chosen = self.training.snapshots
        known = ~np.isnan(self.targets[chosen])
        return self.lagged[chosen][known], self.targets[chosen][known]

    @cached_property
    def testing(self) -> Part:
        """The test snapshots."""
        return Part(self, list(range(len(self.targets))[self.test]))


@dataclass(frozen=True, eq=False)
class Part:
    """Some snapshots of a problem, as a network takes them; what is cut out is kept for the next epoch."""

    problem: TemporalProblem
    snapshots: list[int]

    @cached_property
    def x(self) -> Tensor:
        """Inputs, (snapshots, regions, lags)."""
        return self.problem.inputs[self.snapshots]

    @cached_property
    def propagation(self) -> Tensor:
        """See :class:`SnapshotGraphs`."""
        return self.problem.graphs.propagation[self.snapshots]

    @cached_property
    def walks(self) -> tuple[Tensor, Tensor]:
        """See :class:`SnapshotGraphs`."""
        forwards, backwards = self.problem.graphs.walks
        return forwards[self.snapshots], backwards[self.snapshots]

    @cached_property
    def laplacian(self) -> DenseLaplacian:
        """See :class:`SnapshotGraphs`."""
        whole = self.problem.graphs.laplacian
        return DenseLaplacian(whole.weights[self.snapshots], symmetric=whole.symmetric)

    @cached_property
    def targets(self) -> Tensor:
        """(snapshots, regions) in float32, NaN where hidden."""
        return torch.from_numpy(self.problem.targets[self.snapshots]).float()
