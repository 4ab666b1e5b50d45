"""Who is asked for a label next, and which given labels are doubted: our own ways, and those of other packages."""

from __future__ import annotations

from condiff.reproduce.baselines.labelling.method import LabellingMethod
from condiff.reproduce.baselines.registry import Registry

#: Name of a method: the module of this package and the class in it. A new method is a class and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "change": ("strategies", "Change"),
    "margin": ("strategies", "Margin"),
    "entropy": ("strategies", "Entropy"),
    "coverage": ("strategies", "Coverage"),
    "variance": ("strategies", "Variance"),
    "sigma": ("strategies", "Sigma"),
    "random": ("strategies", "Random"),
    "skactiveml-TypiClust": ("peers", "TypiClust"),
    "skactiveml-CoreSet": ("peers", "CoreSet"),
    "graphlearning-VOpt": ("peers", "VOpt"),
    "graphlearning-MCVOpt": ("peers", "MCVOpt"),
    "COIN-issues": ("errors", "Issues"),
    "cleanlab-COIN": ("errors", "CleanlabOnCOIN"),
    "cleanlab-LR": ("errors", "CleanlabOnRegression"),
}

REGISTRY: Registry[LabellingMethod] = Registry(__name__, METHODS)
