"""Methods for ordinary tables with few labels, as practitioners use them; loaded on first use."""

from __future__ import annotations

from condiff.reproduce.baselines.registry import Registry
from condiff.reproduce.baselines.tables.method import TableMethod

#: Name of a method: the module of this package and the class in it. A new method is a class and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "COIN": ("coin", "COIN"),
    "COIN-base": ("coin", "Base"),
    "COIN-residual": ("coin", "Residual"),
    "LDA": ("linear", "Discriminant"),
    "LR": ("linear", "Logistic"),
    "LR-balanced": ("linear", "BalancedLogistic"),
    "Ridge": ("linear", "Ridge"),
    "SVM": ("similarity", "SupportVectors"),
    "GP": ("similarity", "GaussianProcess"),
    "1NN": ("similarity", "NearestNeighbour"),
    "5NN": ("similarity", "NearestFive"),
    "RandomForest": ("trees", "RandomForest"),
    "ExtraTrees": ("trees", "ExtraTrees"),
    "HistBoosting": ("trees", "HistogramBoosting"),
    "CatBoost": ("trees", "CatBoost"),
    "SelfTraining": ("transductive", "SelfTraining"),
    "LabelSpreading-knn": ("transductive", "SpreadingNearest"),
    "LabelSpreading-rbf": ("transductive", "SpreadingGaussian"),
    "Laplace": ("transductive", "LaplaceLearning"),
    "Poisson": ("transductive", "PoissonLearning"),
    "TabPFN": ("tabpfn", "TabPFN"),
}


REGISTRY: Registry[TableMethod] = Registry(__name__, METHODS)
