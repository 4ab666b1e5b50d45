"""Convection-diffusion networks for learning from few labels."""

from typing import TYPE_CHECKING

from condiff.lazy import names_from

__version__ = "0.1.0"

__all__ = [
    "COIN",
    "COINClassifier",
    "COINMultiLabelClassifier",
    "COINRegressor",
    "Certificate",
    "Diffusion",
    "Graph",
    "PanelForecaster",
    "certify",
    "diffusion_time",
    "kernel_graph",
    "load",
    "read_graph",
]

if TYPE_CHECKING:
    from condiff.diffusion import Certificate, Diffusion, certify, diffusion_time
    from condiff.estimators import COINClassifier, COINMultiLabelClassifier, COINRegressor, PanelForecaster, load
    from condiff.graph import Graph, kernel_graph
    from condiff.model import COIN
    from condiff.readers.graph_file import read_graph

__getattr__, __dir__ = names_from(
    __name__,
    {
        "model": ("COIN",),
        "estimators": ("COINClassifier", "COINMultiLabelClassifier", "COINRegressor", "PanelForecaster", "load"),
        "diffusion": ("Certificate", "Diffusion", "certify", "diffusion_time"),
        "graph": ("Graph", "kernel_graph"),
        "readers.graph_file": ("read_graph",),
    },
)
