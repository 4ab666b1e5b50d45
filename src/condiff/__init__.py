"""Convection-diffusion networks for learning from few labels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

# torch and scikit-learn take seconds to import: a name brings its package only when it is used.
_HOMES = {
    "condiff.model": ("COIN",),
    "condiff.estimators": ("COINClassifier", "COINMultiLabelClassifier", "COINRegressor", "PanelForecaster", "load"),
    "condiff.diffusion": ("Certificate", "Diffusion", "certify", "diffusion_time"),
    "condiff.graph": ("Graph", "kernel_graph"),
    "condiff.readers.graph_file": ("read_graph",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'condiff' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
