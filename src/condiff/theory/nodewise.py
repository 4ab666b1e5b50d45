"""Operators on the nodes of a graph: the package's diffusion solvers, matrices, and networks that act node-wise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.linalg import expm

from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.theory.operators import Array, GraphOperator, layers_between


class _OnGraph(GraphOperator):
    """What all share: who is joined, and how far apart."""

    def _join(self, weights: Array, points: Any) -> None:
        self.n_nodes = len(weights)
        self.joined = (weights != 0) | (weights.T != 0) | np.eye(len(weights), dtype=bool)
        if points is None:
            self.distance = np.ones_like(weights)
            return
        places = np.asarray(points, dtype=np.float64)
        if len(places) != self.n_nodes:
            raise InvalidInputError(f"the graph has {self.n_nodes} nodes but there are {len(places)} points")
        self.distance = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))


class DiffusionOperator(_OnGraph):
    r"""The package's own diffusion, :math:`u' = -L u`, as its layers compute it; time is strength x layers.

    Parameters
    ----------
    graph
        The graph whose weights, as they are, make L.
    diffusion
        The layers, such as those of a trained COIN; 8 of the largest strength that keeps probabilities by default.
        The step is the strength of a layer, and the horizon that of all of them.
    points
        (n, d), where the nodes lie; distances are 1 without them.

    Examples
    --------
    >>> import torch
    >>> from condiff import Diffusion, Graph
    >>> from condiff.theory import DiffusionOperator, check_axioms
    >>> graph = Graph.of(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> check_axioms(DiffusionOperator(graph, Diffusion(4, 0.9))).broken
    ('comparison',)
    """

    def __init__(self, graph: Graph, diffusion: Diffusion | None = None, *, points: Any = None) -> None:
        self._join(graph.weights.toarray(), points)
        layer = Diffusion(8, "auto") if diffusion is None else diffusion
        if layer.layers < 1:
            raise InvalidInputError("a diffusion without layers has no flow: give it at least one")
        self.laplacian = graph.laplacian(torch.float64)
        self.solver = layer.solver
        self.strength = float(layer.strength_on(self.laplacian))
        self.horizon = layer.layers * self.strength
        self.step = self.strength

    def apply(self, u: Array, t: float, s: float) -> Array:
        state = torch.as_tensor(u, dtype=torch.float64)
        with torch.no_grad():
            for _, thickness in layers_between(s, t, self.strength):
                state = self.solver(self.laplacian, state, thickness, 1)
        return np.asarray(state.numpy())


class LinearOperator(_OnGraph):
    r"""The family of :math:`u' = A u` for a matrix A, exactly or by explicit Euler steps of ``step``."""

    def __init__(self, generator: Any, *, step: float | None = None, horizon: float = 1.0, points: Any = None) -> None:
        self.generator = np.asarray(generator, dtype=np.float64)
        self._join(self.generator, points)
        self.horizon, self.step = horizon, step

    def apply(self, u: Array, t: float, s: float) -> Array:
        if self.step is None:
            return np.asarray(expm((t - s) * self.generator) @ u)
        for _, thickness in layers_between(s, t, self.step):
            u = u + thickness * (self.generator @ u)
        return u


class NodeNetwork(_OnGraph):
    """A family given by what a layer does: ``layer(u, time, thickness)``, for u of shape (n, c)."""

    def __init__(
        self,
        layer: Callable[[Array, float, float], Array],
        weights: Any,
        *,
        step: float,
        horizon: float = 1.0,
        channels: int = 1,
        points: Any = None,
    ) -> None:
        self._join(np.asarray(weights, dtype=np.float64), points)
        self.layer, self.step, self.horizon, self.channels = layer, step, horizon, channels

    def apply(self, u: Array, t: float, s: float) -> Array:
        for time, thickness in layers_between(s, t, self.step):  # type: ignore[arg-type]
            u = self.layer(u, time, thickness)
        return u


class Headed(GraphOperator):
    """A family followed by a function of the values, such as a softmax over the classes."""

    def __init__(self, operator: GraphOperator, head: Callable[[Array], Array], *, channels: int = 1) -> None:
        self.operator, self.head, self.channels = operator, head, channels
        self.n_nodes, self.joined, self.distance = operator.n_nodes, operator.joined, operator.distance
        self.horizon, self.step = operator.horizon, operator.step

    def apply(self, u: Array, t: float, s: float) -> Array:
        return self.head(self.operator.apply(u, t, s))
