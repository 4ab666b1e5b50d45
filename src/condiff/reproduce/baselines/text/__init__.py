"""Methods for texts with few labels: classifiers on embeddings, and on the words that texts use."""

from __future__ import annotations

from condiff.reproduce.baselines.registry import Registry
from condiff.reproduce.baselines.tables.method import TableMethod

#: Name of a method: the module of this package and the class in it. A new method is a class and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "COIN": ("embedded", "COIN"),
    "COIN-balanced": ("embedded", "BalancedCOIN"),
    "LR": ("embedded", "Logistic"),
    "LR-10": ("embedded", "LooseLogistic"),
    "LR-balanced": ("embedded", "BalancedLogistic"),
    "SVM": ("embedded", "LinearVectors"),
    "Centroid": ("embedded", "NearestCentroid"),
    "1NN": ("embedded", "NearestNeighbour"),
    "5NN": ("embedded", "NearestFive"),
    "SelfTraining": ("embedded", "SelfTraining"),
    "LabelSpreading-knn": ("embedded", "SpreadingNearest"),
    "LabelSpreading-rbf": ("embedded", "SpreadingGaussian"),
    "Laplace": ("embedded", "LaplaceLearning"),
    "Poisson": ("embedded", "PoissonLearning"),
    "SetFit": ("setfit", "SetFit"),
    "COIN-TF-IDF": ("words", "COINOnWords"),
    "LR-TF-IDF": ("words", "LogisticOnWords"),
    "SVM-TF-IDF": ("words", "VectorsOnWords"),
    "NB-TF-IDF": ("words", "BayesOnWords"),
}
#: Those that take minutes for each draw of the labels.
SLOW = frozenset({"SetFit"})

REGISTRY: Registry[TableMethod] = Registry(__name__, METHODS)
