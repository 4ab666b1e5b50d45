"""From points or edges to weights, and from weights to the Laplacian that the diffusion runs on."""

from typing import TYPE_CHECKING

from condiff.lazy import names_from

if TYPE_CHECKING:
    from condiff.graph.graph import Graph
    from condiff.graph.laplacians import DenseLaplacian, Laplacian, SparseLaplacian, laplacian
    from condiff.graph.neighbours import Metric, Neighbours, nearest
    from condiff.graph.weights import PointGraph, kernel_graph

__all__ = [
    "DenseLaplacian",
    "Graph",
    "Laplacian",
    "Metric",
    "Neighbours",
    "PointGraph",
    "SparseLaplacian",
    "kernel_graph",
    "laplacian",
    "nearest",
]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "graph": ("Graph",),
        "laplacians": ("DenseLaplacian", "Laplacian", "SparseLaplacian", "laplacian"),
        "neighbours": ("Metric", "Neighbours", "nearest"),
        "weights": ("PointGraph", "kernel_graph"),
    },
)
