"""Methods for tables of patients, by the names of the paper's table; each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

from condiff.baselines.tabular.method import TabularMethod
from condiff.errors import InvalidInputError, did_you_mean

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


def method_named(name: str) -> tuple[str, type[TabularMethod]]:
    """A method's name in :data:`METHODS` and its class; capitals do not matter."""
    known = {each.lower(): each for each in METHODS}
    if name.lower() not in known:
        raise InvalidInputError(
            f"unknown method {name!r}{did_you_mean(name, METHODS)}; the methods are {', '.join(METHODS)}"
        )
    proper = known[name.lower()]
    module, attribute = METHODS[proper]
    found: type[TabularMethod] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return proper, found


def method(name: str) -> type[TabularMethod]:
    """The class of a method by its name."""
    return method_named(name)[1]
