"""From points or edges to weights, and from weights to the Laplacian that the diffusion runs on."""

from condiff.graph.graph import Graph
from condiff.graph.laplacian import DenseLaplacian, Laplacian, SparseLaplacian, laplacian
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
