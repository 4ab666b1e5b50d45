"""Methods for node classification, by the names of the paper's table; each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

from condiff.baselines.node.method import NodeMethod
from condiff.errors import InvalidInputError, did_you_mean

#: Name of a method: the module of this package and the class in it. A new method is one file and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "MLP": ("mlp", "MLP"),
    "GCN": ("gcn", "GCN"),
    "GraphSAGE": ("sage", "GraphSAGE"),
    "GAT": ("gat", "GAT"),
    "SGC": ("sgc", "SGC"),
    "APPNP": ("appnp", "APPNP"),
    "CGNN": ("cgnn", "CGNN"),
    "GCDE": ("gcde", "GCDE"),
    "GDC": ("gdc", "GDC"),
    "GraphHeat": ("graphheat", "GraphHeat"),
    "DGC": ("dgc", "DGC"),
    "Difformer": ("difformer", "Difformer"),
    "GRAND": ("grand", "GRAND"),
    "Diff-ResNet": ("diff_resnet", "DiffResNet"),
    "COIN": ("coin", "COIN"),
    "COIN-certified": ("coin", "CertifiedCOIN"),
    "LabelPropagation": ("label_propagation", "LabelPropagation"),
    "LabelSpreading": ("label_spreading", "LabelSpreading"),
    "CorrectAndSmooth": ("correct_and_smooth", "CorrectAndSmooth"),
}


def method_named(name: str) -> tuple[str, type[NodeMethod]]:
    """A method's name in :data:`METHODS` and its class; capitals do not matter."""
    known = {each.lower(): each for each in METHODS}
    if name.lower() not in known:
        raise InvalidInputError(
            f"unknown method {name!r}{did_you_mean(name, METHODS)}; the methods are {', '.join(METHODS)}"
        )
    proper = known[name.lower()]
    module, attribute = METHODS[proper]
    found: type[NodeMethod] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return proper, found


def method(name: str) -> type[NodeMethod]:
    """The class of a method by its name."""
    return method_named(name)[1]
