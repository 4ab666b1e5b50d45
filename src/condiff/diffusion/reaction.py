r"""Flows beside the diffusion: reactions, steps of any field such as a residual block, and anisotropic diffusion.

Each is called as ``flow(u, time)`` and can be put together with any other by :func:`condiff.diffusion.split`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix

# The log of no probability at all.
_TINY = 1e-30


class Reaction:
    r"""Probabilities that sharpen, or blur, at every node by itself: the replicator equation of their logs.

    .. math:: u_k' = r \, u_k \Bigl( \log u_k - \sum_j u_j \log u_j \Bigr)

    Its solution is known, :math:`u_k(t) \propto u_k(0)^{e^{r t}}`, and is what is computed: there is no step-size
    limit, and rows go on to sum to one. A likely class becomes likelier for a positive rate; a negative one draws all
    towards equal chances.

    Parameters
    ----------
    rate
        The rate r.

    Examples
    --------
    >>> import torch
    >>> sharper = Reaction(1.0)(torch.tensor([[0.6, 0.4]]), 0.6931471805599453)  # squares, scaled to sum to one
    >>> [round(float(value), 4) for value in sharper[0]]
    [0.6923, 0.3077]
    """

    def __init__(self, rate: float) -> None:
        if not np.isfinite(rate):
            raise InvalidInputError(f"rate must be a finite number, not {rate!r}")
        self.rate = float(rate)

    def __call__(self, u: Tensor, time: float) -> Tensor:
        """``u``, (n, c) probabilities, after some time."""
        return torch.softmax(np.exp(self.rate * time) * u.clamp_min(_TINY).log(), dim=-1)


class Steps:
    r"""Explicit steps of :math:`u' = f(u)`: a residual block is one of them.

    Parameters
    ----------
    field
        :math:`f`: a network on ``u``, or any function that keeps the shape.
    order
        1 is Euler's step :math:`u + h f(u)`, the block itself; 2 is Heun's.
    steps
        How many for each time that is asked for.
    """

    def __init__(self, field: Callable[[Tensor], Tensor], *, order: Literal[1, 2] = 1, steps: int = 1) -> None:
        if order not in (1, 2):
            raise InvalidInputError(f"order must be 1 or 2, not {order!r}")
        if not isinstance(steps, int) or steps < 1:
            raise InvalidInputError(f"steps must be a whole number of at least 1, not {steps!r}")
        self.field, self.order, self.steps = field, order, steps

    def __call__(self, u: Tensor, time: float) -> Tensor:
        """``u`` after some time."""
        step = time / self.steps
        for _ in range(self.steps):
            moved = u + step * self.field(u)
            u = moved if self.order == 1 else (u + moved + step * self.field(moved)) / 2
        return u


class Anisotropic:
    r"""Diffusion whose strength differs from class to class and from edge to edge.

    .. math:: u_{ik}' = s_k \sum_j a_{ij} w_{ij} (u_{jk} - u_{ik})

    Values stay in the range of their class up to :attr:`limit`. Rows of probabilities keep their sum only where all
    classes have one strength. First order in the step; second with ``order=2`` (Heun's method), under the same limit.

    Parameters
    ----------
    graph
        Whose weights are :math:`w_{ij}`.
    per_class
        A strength :math:`s_k` of every class, none below zero; or one for all.
    per_edge
        (n, n) factors :math:`a_{ij}`, none below zero, read where the graph has an edge; or None for ones.
    order
        1 or 2.
    """

    def __init__(
        self, graph: Graph, per_class: ArrayLike = 1.0, per_edge: Any = None, *, order: Literal[1, 2] = 1
    ) -> None:
        if order not in (1, 2):
            raise InvalidInputError(f"order must be 1 or 2, not {order!r}")
        strengths = np.atleast_1d(np.asarray(per_class, np.float64))
        weights = sp.csr_array(graph.weights, dtype=np.float64)
        if per_edge is not None:
            factors = sp.csr_array(per_edge, dtype=np.float64)
            if factors.shape != weights.shape:
                raise InvalidInputError(f"per_edge has the shape {factors.shape}, but the graph has {weights.shape}")
            weights = sp.csr_array(weights.multiply(factors))
        for name, values in (("per_class", strengths), ("per_edge", weights.data)):
            if strengths.ndim != 1 or not np.isfinite(values).all() or values.min(initial=0.0) < 0:
                raise InvalidInputError(f"{name} must be finite numbers, none below zero")
        leaving = np.asarray(weights.sum(axis=1)).ravel() - weights.diagonal()
        largest = float(leaving.max(initial=0.0) * strengths.max())
        self.order, self.strengths = order, torch.from_numpy(strengths)
        self.generator = SparseMatrix.of(
            sp.csr_array(weights - sp.diags_array(np.asarray(weights.sum(axis=1)).ravel())), torch.float64
        )
        #: The longest explicit step that keeps values in their range.
        self.limit = 1.0 / largest if largest > 0 else float("inf")

    def __call__(self, u: Tensor, time: float, steps: int | None = None) -> Tensor:
        """``u``, (n, c), after some time; by default in as many steps as keep it in its range."""
        if self.strengths.numel() not in (1, u.shape[-1]):
            raise InvalidInputError(f"there are {self.strengths.numel()} strengths for {u.shape[-1]} classes")
        count = max(1, int(np.ceil(time / self.limit))) if steps is None else steps
        generator, strengths = self.generator.with_values(self.generator.values.to(u)), self.strengths.to(u)
        return Steps(lambda values: strengths * (generator @ values), order=self.order, steps=count)(u, time)
