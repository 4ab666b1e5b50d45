"""The domain that ``u`` lives on: the data as nodes, what the network reads of them, and the graph that joins them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.estimators.features import FeatureMap, Scaling
from condiff.estimators.nodes import Nodes, find_rows, fingerprints
from condiff.graph import Graph, Metric, PointGraph


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
        plain = {name: value for name, value in vars(self).items() if name not in ("fingerprints", "features", "graph")}
        return plain | {"features": vars(self.features), "weights": self.graph.weights}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Domain:
        """The inverse of :meth:`to_dict`."""
        state = dict(state)
        features, graph = FeatureMap(**state.pop("features")), Graph.of(state.pop("weights"))
        return cls(fingerprints=fingerprints(state["points"]), features=features, graph=graph, **state)

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
        n = self.graph.n_nodes
        if adjacency is not None:
            return self._weights_of_edges(adjacency, rows.shape[0])
        if self.bandwidth is None or self.degree is None:
            return sp.csr_array((rows.shape[0], n))
        extended = PointGraph(self.graph, self.bandwidth, self.degree, self.cut, self.rank, "pair", self.metric)
        return extended.rows_of(self.features.scaled(self.points), self.features.scaled(rows))

    def _weights_of_edges(self, adjacency: Any, n_rows: int) -> sp.csr_array:
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
