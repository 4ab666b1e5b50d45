"""Methods for node classification, by the names of the paper's table; loaded on first use."""

from __future__ import annotations

from condiff.reproduce.baselines.node.method import NodeMethod
from condiff.reproduce.baselines.registry import Registry

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


REGISTRY: Registry[NodeMethod] = Registry(__name__, METHODS)
method, method_named = REGISTRY.get, REGISTRY.named
