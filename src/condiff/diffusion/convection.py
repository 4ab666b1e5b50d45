"""Convection along the edges of a graph, and its splitting from a diffusion after Lie and Strang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix

#: Carries a state along for some time.
Flow = Callable[[Tensor, float], Tensor]


class Convection:
    r"""Transport along the edges of a graph, upwind: what leaves a node arrives at its neighbours.

    .. math:: u_i' = \sum_j \left( f_{ji}^+ u_j - f_{ij}^+ u_i \right), \qquad f_{ij} = -f_{ji}

    Each edge takes its value from the node that the flow comes from. The sum of ``u`` over the nodes is kept, and
    explicit steps keep positive values positive up to :attr:`limit`. First order in the step; second with ``order=2``
    (Heun's method), under the same limit, being an average of explicit steps.

    Parameters
    ----------
    flow
        (n, n) rates :math:`f_{ij}` from i to j, sparse or dense; only ``flow - flow^T`` counts, halved.
    order
        1 or 2.

    Examples
    --------
    A ring on which everything moves one way keeps its mass:

    >>> import numpy as np, torch
    >>> ring = Convection(np.roll(np.eye(4), 1, axis=1) - np.roll(np.eye(4), -1, axis=1))
    >>> u = torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> round(float(ring(u, 0.5).sum()), 6)
    1.0
    """

    def __init__(self, flow: Any, *, order: Literal[1, 2] = 1) -> None:
        if order not in (1, 2):
            raise InvalidInputError(f"order must be 1 or 2, not {order!r}")
        rates = sp.csr_array(flow, dtype=np.float64)
        if rates.ndim != 2 or rates.shape[0] != rates.shape[1] or not np.isfinite(rates.data).all():
            raise InvalidInputError(f"a flow is a square matrix of finite rates, not of shape {rates.shape}")
        outward = sp.csr_array((rates - rates.T) / 2).maximum(0)
        leaving = np.asarray(outward.sum(axis=1)).ravel()
        self.order = order
        self.generator = SparseMatrix.of(sp.csr_array(outward.T - sp.diags_array(leaving)), torch.float64)
        #: The longest explicit step that keeps positive values positive.
        self.limit = 1.0 / float(leaving.max()) if leaving.max(initial=0.0) > 0 else float("inf")

    @classmethod
    def down(cls, potential: Any, graph: Graph, *, order: Literal[1, 2] = 1) -> Convection:
        """The flow from high to low values of a potential, in proportion to their difference and the edge's weight."""
        heights = np.asarray(potential, np.float64)
        edges = graph.weights.tocoo()
        rows, columns = edges.coords
        rates = edges.data * (heights[rows] - heights[columns])
        return cls(sp.csr_array((rates, (rows, columns)), shape=edges.shape), order=order)

    def __call__(self, u: Tensor, time: float, steps: int | None = None) -> Tensor:
        """``u``, (n,) or (n, c), after some time; by default in as many steps as keep it positive."""
        if u.ndim == 1:
            return self(u[:, None], time, steps)[:, 0]
        count = max(1, int(np.ceil(time / self.limit))) if steps is None else steps
        generator, step = self.generator.with_values(self.generator.values.to(u)), time / count
        for _ in range(count):
            moved = u + step * (generator @ u)
            u = moved if self.order == 1 else (u + moved + step * (generator @ moved)) / 2
        return u


def split(first: Flow, second: Flow, *, strang: bool = True) -> Callable[[Tensor, float, int], Tensor]:
    r"""Two flows in turn, for an equation :math:`u' = A(u) + B(u)` of which each flow solves one part.

    Lie: A for a step, then B for a step; first order. Strang: A for half a step, B for a step, A for half a step;
    second order, if both flows are. A is a residual block or a convection, say, and B a diffusion: COIN itself is one
    step of Lie's.

    Parameters
    ----------
    first, second
        ``flow(u, time)``.
    strang
        Strang's order of things, or Lie's.

    Returns
    -------
    Callable
        ``solve(u, time, steps)``.
    """

    def solve(u: Tensor, time: float, steps: int) -> Tensor:
        step = time / steps
        for _ in range(steps):
            u = first(u, step / 2 if strang else step)
            u = second(u, step)
            if strang:
                u = first(u, step / 2)
        return u

    return solve
