"""Ways to forecast panels with holes, and to fill the holes."""

from __future__ import annotations

from condiff.reproduce.baselines.forecast.methods import SeriesMethod
from condiff.reproduce.baselines.registry import Registry

#: Name of a method: the module of this package and the class in it.
METHODS: dict[str, tuple[str, str]] = {
    "COIN": ("methods", "Own"),
    "last value": ("methods", "LastValue"),
    "seasonal naive": ("methods", "SeasonalNaive"),
    "drift": ("methods", "Drift"),
    "AutoETS": ("methods", "AutoETS"),
    "AutoARIMA": ("methods", "AutoARIMA"),
    "Theta": ("methods", "Theta"),
    "boosting": ("methods", "Boosting"),
    "DCRNN": ("temporal", "DCRNN"),
    "MPNN-LSTM": ("temporal", "MPNNLSTM"),
    "GConvGRU": ("temporal", "GConvGRU"),
    "A3TGCN": ("temporal", "A3TGCN"),
    "EvolveGCN": ("temporal", "EvolveGCN"),
    "fill": ("imputers", "Own"),
    "mean": ("imputers", "Mean"),
    "last": ("imputers", "Last"),
    "linear": ("imputers", "Linear"),
    "kNN": ("imputers", "Nearest"),
    "iterative": ("imputers", "Iterative"),
    "SAITS": ("imputers", "SAITS"),
    "BRITS": ("imputers", "BRITS"),
}


REGISTRY: Registry[SeriesMethod] = Registry(__name__, METHODS)
