"""The paper's temporal networks as forecasters: they learn the next step, and go on from their own forecasts.

Values are standardised by the known past of each series, which does not look ahead. A network learns from all snapshots
of eight lags before the origin, with the paper's settings; the graph of the last step is that of the coming ones.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from condiff.estimators.forecasting import structure
from condiff.graph import Graph
from condiff.reproduce.baselines.forecast.methods import Array, SeriesMethod, SeriesProblem
from condiff.reproduce.baselines.temporal import a3tgcn, dcrnn, evolve_gcn, gconv_gru, mpnn_lstm
from condiff.reproduce.baselines.temporal.method import NetworkMethod, train
from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs, TemporalProblem


@dataclass(frozen=True)
class OverGraphs(SeriesMethod):
    """A network of the paper's table."""

    needs_graph: ClassVar[bool] = True
    lags: int = 8

    @abstractmethod
    def method(self) -> NetworkMethod:
        """The network with the paper's settings."""

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        mean, scale = structure.standards(problem.values)
        z = structure.standardised(problem.values, mean, scale)
        # One of the networks needs as many series as lags.
        lags = min(self.lags, len(z) // 2, z.shape[1])
        graphs = [_matrix(graph) for graph in problem.graphs or []]
        torch.manual_seed(seed)
        first = _problem(z, graphs, lags)
        network = self.method().network(first)
        train(network, first, self.method().training)
        for _ in range(problem.horizon):
            now = _problem(z[-lags:], graphs[-1:], lags)
            with torch.no_grad():
                z = np.vstack([z, network(now.testing).double().numpy()])
        return z[-problem.horizon :] * scale + mean, None


def _problem(z: Array, graphs: list[sp.csr_array], lags: int) -> TemporalProblem:
    """All snapshots, of which the last, without a target, is asked for."""
    snapshots = len(z) - lags + 1
    targets = np.vstack([z[lags:], np.full((1, z.shape[1]), np.nan)])
    # The graph of the last step that a snapshot looks back on.
    days = [min(day, len(graphs) - 1) for day in range(lags - 1, len(z))]
    own = SnapshotGraphs(tuple(graphs[day] for day in days))
    return TemporalProblem("", z, targets, own, lags, slice(0, snapshots - 1), slice(0, 0), slice(snapshots - 1, None))


def _matrix(graph: object) -> sp.csr_array:
    return sp.csr_array(Graph.of(graph).weights)


@dataclass(frozen=True)
class DCRNN(OverGraphs):
    """Diffusion convolutional recurrent network."""

    def method(self) -> NetworkMethod:
        return dcrnn.DCRNN()


@dataclass(frozen=True)
class MPNNLSTM(OverGraphs):
    """Message passing, then an LSTM."""

    def method(self) -> NetworkMethod:
        return mpnn_lstm.MPNNLSTM()


@dataclass(frozen=True)
class GConvGRU(OverGraphs):
    """A gated unit with Chebyshev convolutions."""

    def method(self) -> NetworkMethod:
        return gconv_gru.GConvGRU()


@dataclass(frozen=True)
class A3TGCN(OverGraphs):
    """Attention over the lags of a temporal GCN."""

    def method(self) -> NetworkMethod:
        return a3tgcn.A3TGCN()


@dataclass(frozen=True)
class EvolveGCN(OverGraphs):
    """A GCN whose weights evolve."""

    def method(self) -> NetworkMethod:
        return evolve_gcn.EvolveGCN()
