"""What a family of operators T_{t,s} is: on functions over R^d, and on functions over the nodes of a graph."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import expm

from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Graph

Array = NDArray[np.float64]
#: A function over R^d, vectorised: points of shape (n, d) to values of shape (n,) or (n, c), one function a column.
Function = Callable[[Array], Array]

# Times that differ from a multiple of the step by less than this fraction of it are taken to be that multiple.
_ON_GRID = 1e-9


class FunctionOperator(ABC):
    r"""A family :math:`T_{t,s}`, :math:`0 \le s \le t \le` ``horizon``, on functions over R^d.

    A subclass gives :meth:`apply`. What it gets may have columns, each of them a function; it treats them alike.
    """

    #: Dimension of the space, from 1 to 3.
    dimension: int
    #: The latest time.
    horizon: float = 1.0
    #: Thickness of a layer where time goes in layers; axioms that compare different times keep to whole layers.
    step: float | None = None

    @abstractmethod
    def apply(self, f: Function, x: Array, t: float, s: float) -> Array:
        """The values of ``T_{t,s} f`` at the points ``x`` of shape (n, d)."""

    def __call__(self, f: Function, x: Any, t: float, s: float = 0.0) -> Array:
        """``(T_{t,s} f)(x)``, with everything checked that a caller may get wrong.

        Parameters
        ----------
        f
            A vectorised function: (n, d) to (n,) or (n, c).
        x
            Points, (n, d).
        t, s
            Times, ``0 <= s <= t <= horizon``.
        """
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise InvalidInputError(f"x must have the shape (n, {self.dimension}), not {points.shape}")
        check_times(t, s, self.horizon)
        values = np.asarray(self.apply(f, points, t, s), dtype=np.float64)
        if values.shape[:1] != (len(points),):
            raise InvalidInputError(
                f"the operator gave values of shape {values.shape} for {len(points)} points; the first axis must be "
                "the points'"
            )
        return values

    @staticmethod
    def of(
        action: Callable[[Function, Array, float, float], Array],
        dimension: int,
        *,
        horizon: float = 1.0,
        step: float | None = None,
    ) -> FunctionOperator:
        """Make an operator of a function ``action(f, x, t, s)``.

        Examples
        --------
        >>> import numpy as np
        >>> shift = FunctionOperator.of(lambda f, x, t, s: f(x + (t - s)), dimension=1)
        >>> shift(lambda y: y[:, 0] ** 2, [[1.0]], t=0.5)
        array([2.25])
        """
        return _Given(action, dimension, horizon, step)


class GraphOperator(ABC):
    r"""A family :math:`T_{t,s}` on functions over the nodes of a graph.

    A subclass gives :meth:`apply` and sets the attributes.
    """

    n_nodes: int
    #: (n, n), true where two nodes are joined, and on the diagonal: what "near" means for locality.
    joined: NDArray[np.bool_]
    #: (n, n), the distance between joined nodes.
    distance: Array
    horizon: float = 1.0
    step: float | None = None
    #: Columns that belong together, as the classes do under a softmax; with 1, every column is a function by itself.
    channels: int = 1

    @abstractmethod
    def apply(self, u: Array, t: float, s: float) -> Array:
        """``T_{t,s} u`` for node functions ``u`` of shape (n, c)."""

    def __call__(self, u: Any, t: float, s: float = 0.0) -> Array:
        """``T_{t,s} u`` for ``u`` of shape (n,) or (n, c)."""
        values = np.asarray(u, dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != self.n_nodes:
            raise InvalidInputError(f"u must have {self.n_nodes} rows, one per node, but has the shape {values.shape}")
        check_times(t, s, self.horizon)
        if values.ndim == 1:
            return np.asarray(self.apply(values[:, None], t, s))[:, 0]
        return np.asarray(self.apply(values, t, s), dtype=np.float64)

    def matrix(self, t: float, s: float = 0.0) -> Array:
        """The matrix of ``T_{t,s}``, of size n x channels; it says everything if the operator is linear."""
        size = self.n_nodes * self.channels
        if self.channels == 1:
            return self(np.eye(size), t, s)
        units = np.eye(size).reshape(size, self.n_nodes, self.channels)
        return np.stack([self(unit, t, s).ravel() for unit in units], axis=1)


Operator = FunctionOperator | GraphOperator


class Reversed(FunctionOperator):
    r"""The family that runs through the layers of another from the last to the first: :math:`T_{D - s, D - t}`.

    A network applies its first layer to the data and its last one to the result, so as an operator on classifiers the
    last layer acts first. This puts it in the order of the equation's time.
    """

    def __init__(self, operator: FunctionOperator, duration: float | None = None) -> None:
        self.operator = operator
        self.duration = operator.horizon if duration is None else duration
        self.dimension, self.horizon, self.step = operator.dimension, self.duration, operator.step

    def apply(self, f: Function, x: Array, t: float, s: float) -> Array:
        return self.operator.apply(f, x, self.duration - s, self.duration - t)


class Phases(FunctionOperator):
    """One family after the other: each runs for its horizon, and the later acts on what the earlier has made."""

    def __init__(self, operators: Sequence[FunctionOperator]) -> None:
        if not operators or len({operator.dimension for operator in operators}) > 1:
            raise InvalidInputError("phases need at least one operator, all of the same dimension")
        self.operators = tuple(operators)
        self.dimension = operators[0].dimension
        self.horizon = sum(operator.horizon for operator in operators)
        steps = [operator.step for operator in operators if operator.step is not None]
        self.step = max(steps) if steps else None

    def apply(self, f: Function, x: Array, t: float, s: float) -> Array:
        start, made = 0.0, f
        for operator in self.operators:
            first, last = max(s - start, 0.0), min(t - start, operator.horizon)
            if last > first:
                made = _image(operator, made, last, first)
            start += operator.horizon
        return made(x)


def layers_between(s: float, t: float, step: float) -> list[tuple[float, float]]:
    """The layers from ``s`` to ``t`` as (start, thickness); the last one may be thinner than ``step``."""
    count = (t - s) / step
    whole = round(count) if abs(count - round(count)) < _ON_GRID * max(1.0, count) else math.floor(count)
    layers = [(s + k * step, step) for k in range(whole)]
    rest = t - s - whole * step
    if rest > _ON_GRID * step:
        layers.append((s + whole * step, rest))
    return layers


def check_times(t: float, s: float, horizon: float) -> None:
    """Refuse times out of order or past the horizon."""
    if not (0 <= s <= t <= horizon * (1 + 1e-12)):
        raise InvalidInputError(f"times must obey 0 <= s <= t <= {horizon:g}, but s is {s:g} and t is {t:g}")


class _Given(FunctionOperator):
    def __init__(
        self,
        action: Callable[[Function, Array, float, float], Array],
        dimension: int,
        horizon: float,
        step: float | None,
    ) -> None:
        if dimension not in (1, 2, 3):
            raise InvalidInputError(f"dimension must be 1, 2 or 3, not {dimension!r}")
        if not 0 < horizon < math.inf or (step is not None and not 0 < step <= horizon):
            raise InvalidInputError(f"horizon must be positive and step at most that, not {horizon:g} and {step}")
        self.action, self.dimension, self.horizon, self.step = action, dimension, horizon, step

    def apply(self, f: Function, x: Array, t: float, s: float) -> Array:
        return self.action(f, x, t, s)


def _image(operator: FunctionOperator, f: Function, t: float, s: float) -> Function:
    return lambda y: operator.apply(f, y, t, s)


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
