"""A graph whose nodes have features and labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class NodeDataset:
    """Nodes with features and labels, joined by undirected edges.

    Parameters
    ----------
    name
        The name of the graph.
    adjacency
        (n, n) symmetric and non-negative, zero on the diagonal; 0/1 for the citation graphs.
    features
        (n, p) as published: 0/1 or TF-IDF.
    labels
        (n,) classes counted from 0; -1 where a node has no label.
    class_names
        The names of the classes, in their order; empty where they have only numbers.
    node_names
        The names of the nodes, in their order; empty where they have only numbers.
    """

    name: str
    adjacency: sp.csr_array
    features: sp.csr_array
    labels: NDArray[np.int64]
    class_names: tuple[str, ...] = ()
    node_names: tuple[str, ...] = ()

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return int(self.labels.size)

    @property
    def n_edges(self) -> int:
        """The number of undirected edges."""
        return int(self.adjacency.nnz) // 2

    @property
    def n_features(self) -> int:
        """The number of features of a node."""
        return int(self.features.shape[1])

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.labels.max(initial=-1)) + 1

    @property
    def labelled(self) -> NDArray[np.int64]:
        """The nodes whose class is known; only these can train, validate or test."""
        return np.flatnonzero(self.labels >= 0)


def undirected(adjacency: sp.csr_array) -> sp.csr_array:
    """The larger of both directions' weights, without self-loops and stored zeros, in canonical order."""
    import scipy.sparse as sp

    both = sp.csr_array(adjacency.maximum(adjacency.T)).tocoo()
    rows, columns = both.coords
    keep = (rows != columns) & (both.data != 0)
    result = sp.csr_array((both.data[keep], (rows[keep], columns[keep])), shape=both.shape, dtype=np.float64)
    result.sort_indices()
    return result


def subgraph(dataset: NodeDataset, nodes: NDArray[np.int64]) -> NodeDataset:
    """The dataset restricted to some nodes, in the given order."""
    return replace(
        dataset,
        adjacency=dataset.adjacency[nodes][:, nodes],
        features=dataset.features[nodes],
        labels=dataset.labels[nodes],
        node_names=tuple(dataset.node_names[node] for node in nodes) if dataset.node_names else (),
    )


def largest_component(dataset: NodeDataset) -> NodeDataset:
    """The dataset restricted to its largest connected component, in the order of its nodes."""
    from condiff.graph import Graph  # imports torch, which reading does not need

    return subgraph(dataset, Graph.of(dataset.adjacency).largest_component()[1])
