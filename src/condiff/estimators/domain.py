"""The domain that ``u`` lives on: the data as nodes, what the base reads of them, and the graph that joins them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.diffusion.flow import Flow
from condiff.errors import InvalidInputError
from condiff.estimators.inputs import Nodes, find_rows, fingerprints, is_networkx, moments, slices
from condiff.estimators.links import Links, Mix
from condiff.graph import Graph, Metric, PointGraph
from condiff.kernels.threads import one_thread

Array = NDArray[np.float64]
Scaling = Literal["auto", "standard", "none"]

# Below this share of alike columns the data mix units, and a few columns would decide every distance.
_DOMINATED = 0.2
#: Dense columns up to which a classical base sees them all.
MOST_COLUMNS = 512
# Standard errors by which the columns of neighbours must be alike, or unlike.
_TELLING = 3.0
#: Points beyond which all of them are only answered: networks learn on merged ones, and bases are compared on few.
MANY = 20_000
# Sparse columns with a larger share of numbers than this are measurements, not words, and are multiplied faster dense.
_FILLED = 0.2
# Above this width the covariance matrix costs more than a randomised decomposition.
_WIDE = 2000
# Up to so many values, counted as 64 per point at least, a fit is as fast on one thread, and many times as fast where
# other work has the cores.
_FEW_VALUES = 1_000_000


@dataclass(frozen=True)
class FeatureMap:
    """Centre and scale the columns, then reduce them for the network.

    Attributes
    ----------
    mean, scale
        Per column; None for sparse data, which stay as they are.
    components
        (columns, width) directions of the network's input, or None where all columns are kept.
    offset, unit
        The network's input is centred and divided by one common number, so that its mean variance is one.
    """

    mean: NDArray[np.float64] | None
    scale: NDArray[np.float64] | None
    components: NDArray[np.float64] | None
    offset: NDArray[np.float64]
    unit: float

    @classmethod
    def fit(cls, rows: Any, *, scaling: Scaling, width: int) -> FeatureMap:
        """Learn the map from distinct rows, dense or CSR."""
        n = rows.shape[0]
        mean = scale = None
        if not sp.issparse(rows):
            mean, variance = moments(n, lambda here: rows[here])
            standardise = scaling == "standard" or (scaling == "auto" and _is_dominated(variance))
            scale = _spread(mean, variance) if standardise else np.ones_like(variance)
        start = cls(mean, scale, None, np.zeros(1), 1.0)
        components = _components(start, rows, width)
        reduced = cls(mean, scale, components, np.zeros(1), 1.0)
        offset, variance = moments(n, lambda here: reduced.inputs(rows[here]))
        unit = float(np.sqrt(variance.mean())) if variance.mean() > 0 else 1.0
        return cls(mean, scale, components, offset, unit)

    def scaled(self, rows: Any) -> Any:
        """The features to measure distances on, in the precision of the rows."""
        if self.mean is None:
            return rows
        out = np.empty(rows.shape, rows.dtype if rows.dtype == np.float32 else np.float64)
        for here in slices(len(rows)):
            out[here] = self._scaled(rows[here])
        return out

    def inputs(self, rows: Any, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """The base network's inputs, always dense."""
        width = rows.shape[1] if self.components is None else self.components.shape[1]
        out = np.empty((rows.shape[0], width), dtype)
        for here in slices(rows.shape[0]):
            scaled = self._scaled(rows[here])
            out[here] = (
                _dense(scaled if self.components is None else scaled @ self.components) - self.offset
            ) / self.unit
        return out

    def columns(self, rows: Any, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """What a classical base sees: every scaled column, or the network's inputs where those are many or sparse."""
        if self.mean is None or rows.shape[1] > MOST_COLUMNS:
            return self.inputs(rows, dtype)
        return np.asarray(self.scaled(rows), dtype)

    def _scaled(self, block: Any) -> Any:
        """A block of rows in double precision."""
        return block if self.mean is None else (block - self.mean) / self.scale


def _spread(mean: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviations of columns to divide by."""
    spread = np.sqrt(variance)
    # A column whose spread is rounding noise carries nothing; dividing by it would make it loud.
    constant = spread <= 1e-10 * np.maximum(np.abs(mean), 1e-300)
    return np.asarray(np.where(constant, 1.0, spread))


def is_filled(rows: sp.csr_array) -> bool:
    """Whether sparse rows are so only by how they are kept."""
    return bool(rows.nnz > _FILLED * math.prod(rows.shape))


def _is_dominated(variance: NDArray[np.float64]) -> bool:
    """Whether a few columns carry nearly all the variance: a participation ratio, 0 for one column, 1 for all alike."""
    if len(variance) < 2 or not (variance > 0).any():
        return False
    relative = variance / variance.max()
    participation = relative.sum() ** 2 / (relative**2).sum()
    return bool((participation - 1) / (len(variance) - 1) < _DOMINATED)


def _components(features: FeatureMap, rows: Any, width: int) -> NDArray[np.float64] | None:
    n, columns = rows.shape
    if columns <= width:
        return None
    if not sp.issparse(rows) and columns <= _WIDE:
        covariance = np.zeros((columns, columns))
        for here in slices(n):
            block = features._scaled(rows[here])
            covariance += block.T @ block
        return np.ascontiguousarray(np.linalg.eigh(covariance)[1][:, ::-1][:, :width])
    from sklearn.utils.extmath import randomized_svd

    directions = randomized_svd(features.scaled(rows), min(width, n), random_state=0)[2]
    return np.ascontiguousarray(directions.T, dtype=np.float64)


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Domain:
    """Nodes, features and graph.

    Attributes
    ----------
    points, fingerprints
        The nodes' rows of data and their digests.
    features
        From rows to what distances and network see.
    graph
        Normalised and symmetric.
    bandwidth, degree
        What a new point needs to be hung on the graph; bandwidth is None for a given graph, both for a graph function.
    cut, rank, metric
        ``n_neighbors``, ``bandwidth_rank`` and metric of a graph of nearest neighbours.
    recall
        Share of the true nearest neighbours that was found; below 1 for an approximate search.
    links
        What was mixed into the graph after it was built, in this order, and joins new points to it.
    of_edges
        From the edges of nodes to what the network sees, where it reads these instead of columns.
    """

    points: Any
    fingerprints: NDArray[Any]
    features: FeatureMap
    graph: Graph
    bandwidth: NDArray[np.float64] | None = None
    degree: NDArray[np.float64] | None = None
    cut: int = 0
    rank: int = 0
    metric: Metric = "euclidean"
    recall: float = 1.0
    links: tuple[Links, ...] = ()
    of_edges: FeatureMap | None = None

    def threads(self) -> AbstractContextManager[None]:
        """The threads that a fit is worth: one where there is little to compute, otherwise all."""
        values = self.points.nnz if sp.issparse(self.points) else self.points.size
        return one_thread() if max(values, 64 * self.graph.n_nodes) <= _FEW_VALUES else nullcontext()

    @classmethod
    def of_points(
        cls, nodes: Nodes, *, scaling: Scaling, width: int, n_neighbors: int, bandwidth_rank: int, metric: str
    ) -> Domain:
        """Join every node to its nearest ones."""
        features = FeatureMap.fit(nodes.points, scaling=scaling, width=width)
        n = nodes.points.shape[0]
        if n < 2:
            return cls(nodes.points, nodes.fingerprints, features, Graph.of(np.zeros((n, n))))
        # Sparse rows are mostly counts of words or events, of which the mix matters and not the number.
        chosen: Any = ("cosine" if sp.issparse(nodes.points) else "euclidean") if metric == "auto" else metric
        cut = min(n_neighbors, n)
        found = PointGraph.build(
            features.scaled(nodes.points), cut, min(bandwidth_rank, cut), tuning="pair", metric=chosen
        )
        return cls(
            nodes.points,
            nodes.fingerprints,
            features,
            found.graph,
            found.bandwidth,
            found.degree,
            cut,
            found.bandwidth_rank,
            chosen,
            found.recall,
        )

    @classmethod
    def of_graph(
        cls, nodes: Nodes, source: Any, *, scaling: Scaling, width: int, purpose: str, extensible: bool
    ) -> Domain:
        """Take a graph that was given, normalised as the paper does for nodes: self-loops, then symmetrically."""
        given = Graph.of(source).require_symmetric(purpose)
        if given.n_nodes != nodes.points.shape[0]:
            raise InvalidInputError(
                f"the graph has {given.n_nodes} nodes, but there are {nodes.points.shape[0]} points"
            )
        return cls(
            nodes.points,
            nodes.fingerprints,
            FeatureMap.fit(nodes.points, scaling=scaling, width=width),
            given.normalised("symmetric", self_loops="add"),
            degree=given.degree + 1.0 if extensible else None,
        )

    @classmethod
    def of_function(
        cls, nodes: Nodes, function: Callable[[Any], Any], *, scaling: Scaling, width: int, purpose: str
    ) -> Domain:
        """Call a function of the distinct rows for their graph."""
        source = function(nodes.points)
        return cls.of_graph(nodes, source, scaling=scaling, width=width, purpose=purpose, extensible=False)

    def to_dict(self) -> dict[str, Any]:
        """Arrays and plain values; the fingerprints follow from the points."""
        left_out = ("fingerprints", "features", "graph", "links", "of_edges")
        plain = {name: value for name, value in vars(self).items() if name not in left_out}
        links = [each.to_dict() for each in self.links]
        edges = {} if self.of_edges is None else {"of_edges": vars(self.of_edges)}
        return plain | {"features": vars(self.features), "weights": self.graph.weights, "links": links} | edges

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Domain:
        """The inverse of :meth:`to_dict`."""
        state = dict(state)
        features, graph = FeatureMap(**state.pop("features")), Graph.of(state.pop("weights"))
        links = tuple(Links.from_dict(each, graph) for each in state.pop("links"))
        known, edges = fingerprints(state["points"]), state.pop("of_edges", None)
        of_edges = None if edges is None else FeatureMap(**edges)
        return cls(fingerprints=known, features=features, graph=graph, links=links, of_edges=of_edges, **state)

    def graph_of(self, nodes: NDArray[np.int64]) -> Graph:
        """The graph of some of the nodes: of their own nearest neighbours, or what a given graph says of them."""
        if self.bandwidth is None:
            return Graph.of(self.graph.weights[nodes][:, nodes])
        points = self.features.scaled(self.points[nodes])
        return PointGraph.build(points, self.cut, self.rank, tuning="pair", metric=self.metric).graph

    def in_order(self, order: NDArray[np.int64]) -> Domain:
        """The same with the nodes of a graph of neighbours numbered anew: ``order[i]`` comes in place i."""
        assert self.bandwidth is not None and self.degree is not None
        return replace(
            self,
            points=self.points[order],
            fingerprints=self.fingerprints[order],
            graph=self.graph.permuted(order),
            bandwidth=self.bandwidth[order],
            degree=self.degree[order],
        )

    def over(self, links: Links) -> Domain:
        """The same points on a graph that was made of this one."""
        return replace(self, graph=links.graph, links=(*self.links, links))

    def with_neighbours(self, mix: Mapping[str, float], n_neighbors: int, bandwidth_rank: int) -> Domain:
        """A given graph and nearest neighbours beside it, by their weights."""
        both = mix["precomputed"] + mix["knn"]
        weights: Mix = {"own": mix["precomputed"] / both, "near": mix["knn"] / both}
        inputs = self.features.columns(self.points)
        return self.over(Links.with_neighbours(self.graph, inputs, weights, n_neighbors, bandwidth_rank))

    def edges(self) -> sp.csr_array:
        """The weights of a given graph as they were given, without its loops."""
        assert self.degree is not None
        root = sp.diags_array(np.sqrt(self.degree))
        found = sp.coo_array(root @ self.graph.weights @ root)
        apart = found.row != found.col
        return sp.csr_array((found.data[apart], (found.row[apart], found.col[apart])), shape=found.shape)

    @property
    def walk(self) -> sp.csr_array:
        """The mean over a node and its neighbours in a given graph, whose rows add up to one."""
        assert self.degree is not None
        root = np.sqrt(self.degree)
        return sp.csr_array(sp.diags_array(1 / root) @ self.graph.weights @ sp.diags_array(root))

    def walk_of(self, n_rows: int, adjacency: Any) -> sp.csr_array:
        """The same of new rows, towards the nodes; what is missing to one is a row's own share."""
        if adjacency is None:
            return sp.csr_array((n_rows, self.graph.n_nodes))
        edges = sp.csr_array(adjacency, dtype=np.float64)
        return sp.csr_array(sp.diags_array(1 / (np.asarray(edges.sum(axis=1)).ravel() + 1.0)) @ edges)

    @property
    def is_given(self) -> bool:
        """Whether the graph is just one that was given, with edges that new rows may have too."""
        return self.degree is not None and self.bandwidth is None and not self.links

    @property
    def edges_are_new(self) -> bool:
        """Whether the edges of a given graph say anything that is not in the columns already."""
        edges = self.edges() if self.is_given else None
        return edges is not None and edges.nnz > 0 and not self._are_columns(edges)

    def reading_edges(self, width: int) -> Domain:
        """The same, with a network that reads which nodes a node is joined to."""
        return replace(self, of_edges=FeatureMap.fit(self.edges(), scaling="none", width=width))

    def _are_columns(self, edges: sp.csr_array) -> bool:
        """Whether the columns are the edges already."""
        if self.points.shape != edges.shape:
            return False
        apart = sp.csr_array(self.points) - edges
        apart.setdiag(0)
        return bool(abs(apart).max() <= 1e-6 * edges.max())

    def read(self, rows: Any, adjacency: Any = None) -> tuple[Any, FeatureMap]:
        """What the network reads of rows, and how it becomes its inputs: their columns, or their edges to the nodes."""
        if self.of_edges is None:
            return rows, self.features
        if rows is self.points:
            return self.edges(), self.of_edges
        none = sp.csr_array((rows.shape[0], self.graph.n_nodes))
        return none if adjacency is None else sp.csr_array(adjacency, dtype=np.float64), self.of_edges

    def columns_follow_edges(self) -> int:
        """1 where columns of neighbours are more alike than those of any two nodes, -1 where less, 0 where neither.

        The sum of the products of neighbours' inputs is compared with what it would be, give or take three standard
        errors, if the rows were dealt to the nodes at random.
        """
        inputs = self.features.inputs(self.points)
        weights = self.graph.weights - sp.diags_array(self.graph.weights.diagonal())
        n, total = len(inputs), float((inputs**2).sum())
        by_chance = -float(weights.sum()) * total / (n * max(n - 1, 1))
        error = math.sqrt(2 * float((weights.data**2).sum())) * float(np.linalg.norm(inputs.T @ inputs)) / n
        apart = float((inputs * (weights @ inputs)).sum()) - by_chance
        return int(np.sign(apart)) if abs(apart) > _TELLING * error else 0

    def spread_of_units(self, scaling: Scaling) -> Array | None:
        """What to divide columns by that mix units, so that a few large ones do not decide; None where none do."""
        rows = self.points
        if scaling == "none":
            return None
        if sp.issparse(rows):
            if not is_filled(rows):
                return None
            rows = rows.toarray()
        mean, variance = moments(len(rows), lambda here: rows[here])
        return _spread(mean, variance) if scaling == "standard" or _is_dominated(variance) else None

    def in_own_form(self, rows: Any) -> Any:
        """Rows as dense or CSR, whichever the nodes are."""
        if sp.issparse(self.points):
            return sp.csr_array(rows)
        return rows.toarray() if sp.issparse(rows) else rows

    def find(self, rows: Any) -> NDArray[np.int64]:
        """The node of every row, -1 where it is new."""
        return find_rows(rows, self.fingerprints)

    def weights_of(self, rows: Any, adjacency: Any = None) -> sp.csr_array:
        """Normalised weights of new rows towards the nodes; empty where nothing says how they hang on the graph."""
        found = partial(self._own_weights, rows, adjacency)
        for links in self.links:
            found = partial(links.rows_of, self.features.columns(rows), found)
        return found()

    def _own_weights(self, rows: Any, adjacency: Any) -> sp.csr_array:
        n = self.graph.n_nodes
        if adjacency is not None:
            return self._weights_of_edges(adjacency, rows.shape[0])
        if self.bandwidth is None or self.degree is None:
            return sp.csr_array((rows.shape[0], n))
        extended = PointGraph(self.graph, self.bandwidth, self.degree, self.cut, self.rank, "pair", self.metric)
        return extended.rows_of(self.features.scaled(self.points), self.features.scaled(rows))

    def _weights_of_edges(self, adjacency: Any, n_rows: int) -> sp.csr_array:
        if is_networkx(adjacency):
            raise InvalidInputError("the adjacency of new points must be a matrix (new points x training points)")
        edges = sp.csr_array(adjacency, dtype=np.float64)
        n = self.graph.n_nodes
        if self.degree is None or self.bandwidth is not None:
            raise InvalidInputError("an adjacency of new points goes with graph='precomputed' only")
        if edges.shape != (n_rows, n):
            raise InvalidInputError(
                f"the adjacency of new points must be {n_rows} x {n} (new points x training points), not "
                f"{edges.shape[0]} x {edges.shape[1]}"
            )
        if not np.isfinite(edges.data).all() or (edges.data < 0).any():
            raise InvalidInputError("the adjacency of new points must be finite and not negative")
        own = np.asarray(edges.sum(axis=1)).ravel() + 1.0
        return sp.csr_array(sp.diags_array(own**-0.5) @ edges @ sp.diags_array(self.degree**-0.5))


def means_of(weights: Any) -> sp.csr_array:
    """Weights of new points towards the nodes, each row adding up to one; a row of zeros stays."""
    pull = np.asarray(weights.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(np.divide(1.0, pull, out=np.zeros_like(pull), where=pull > 0)) @ weights)


def follow(flow: Flow, at_nodes: Array, at_new: Array, weights: Any) -> Array:
    """Diffuse the base output of new points along with that of the nodes.

    Each layer moves a new point towards the weighted mean of its neighbours, as it would if it were a node: for
    explicit layers by the step ``strength * sum of weights`` from the neighbours' values before the layer; for the
    other solvers by the exact relaxation towards the mean of their values before and after it.

    Parameters
    ----------
    flow
        The diffusion of the nodes.
    at_nodes, at_new
        Base outputs, (nodes, outputs) and (new points, outputs).
    weights
        Normalised weights of new points towards the nodes, (new points, nodes).
    """
    pull, mean = np.asarray(weights.sum(axis=1)).ravel(), means_of(weights)
    # Past a full step the point would overshoot its neighbours.
    move = np.minimum(flow.strength * pull, 1.0) if flow.is_explicit else -np.expm1(-flow.strength * pull)
    new = at_new
    # Many nodes were diffused in single precision, which is enough for their neighbours too.
    start = at_nodes.astype(np.float32) if flow.is_explicit and flow.graph.n_nodes > MANY else at_nodes
    for before, after in flow.steps(start):
        around = before if flow.is_explicit else (before + after) / 2
        new = new + move[:, None] * (mean @ around - new)
    return new
