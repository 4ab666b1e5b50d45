"""From points or edges to weights, and from weights to the Laplacian that the diffusion runs on."""

from condiff.graph.graph import Graph
from condiff.graph.laplacian import DenseLaplacian, Laplacian, SparseLaplacian, laplacian
from condiff.graph.neighbours import Neighbours, nearest
from condiff.graph.weights import kernel_graph, kernel_rows

__all__ = [
    "DenseLaplacian",
    "Graph",
    "Laplacian",
    "Neighbours",
    "SparseLaplacian",
    "kernel_graph",
    "kernel_rows",
    "laplacian",
    "nearest",
]
