"""Methods for very few labels on one large graph, as the graph-learning literature compares them."""

from __future__ import annotations

from condiff.reproduce.baselines.lowlabels.method import LowLabelMethod
from condiff.reproduce.baselines.registry import Registry

#: Name of a method: the module of this package and the class in it. A new method is a class and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "COIN": ("coin", "COIN"),
    "COIN-sizes": ("coin", "WithSizes"),
    "Laplace": ("graphs", "Laplace"),
    "WNLL": ("graphs", "WeightedNonlocal"),
    "ProperlyWeighted": ("graphs", "ProperlyWeighted"),
    "p-Laplace": ("plaplace", "PLaplace"),
    "LabelSpreading": ("graphs", "LabelSpreading"),
    "Poisson": ("graphs", "Poisson"),
    "Poisson-sizes": ("sizes", "PoissonWithSizes"),
    "PoissonMBO": ("sizes", "PoissonMBO"),
    "VolumeMBO": ("sizes", "VolumeMBO"),
    "CutSSL": ("sizes", "CutSSL"),
}


REGISTRY: Registry[LowLabelMethod] = Registry(__name__, METHODS)
