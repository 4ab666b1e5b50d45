"""Methods for tables of patients, by the names of the paper's table; loaded on first use."""

from __future__ import annotations

from condiff.reproduce.baselines.registry import Registry
from condiff.reproduce.baselines.tabular.method import TabularMethod

#: Name of a method: the module of this package and the class in it. A new method is one file and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "LR": ("logistic", "LogisticRegression"),
    "SVM": ("svm", "SVM"),
    "Random forest": ("random_forest", "RandomForest"),
    "AdaBoost": ("adaboost", "AdaBoost"),
    "MLP": ("mlp", "MLP"),
    "P-NET": ("pnet", "PNet"),
    "ResNet": ("resnet", "ResNet"),
    "COIN": ("coin", "COIN"),
    "COIN-averaged": ("coin", "AveragedCOIN"),
    "COIN-chosen": ("coin_chosen", "ChosenCOIN"),
    "GradientBoosting": ("gradient_boosting", "GradientBoosting"),
    "LabelSpreading": ("label_spreading", "LabelSpreading"),
}


REGISTRY: Registry[TabularMethod] = Registry(__name__, METHODS)
method, method_named = REGISTRY.get, REGISTRY.named
