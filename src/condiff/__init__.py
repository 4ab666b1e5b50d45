"""Convection-diffusion networks for learning from few labels."""

from condiff.diffusion import Certificate, Diffusion, certify, diffusion_time
from condiff.estimators import COINClassifier, COINRegressor, load
from condiff.graph import Graph, kernel_graph
from condiff.model import COIN

__version__ = "0.1.0"

__all__ = [
    "COIN",
    "COINClassifier",
    "COINRegressor",
    "Certificate",
    "Diffusion",
    "Graph",
    "certify",
    "diffusion_time",
    "kernel_graph",
    "load",
]
