"""Methods for series on a graph, by the names of the paper's table; loaded on first use."""

from __future__ import annotations

from condiff.reproduce.baselines.registry import Registry
from condiff.reproduce.baselines.temporal.method import TemporalMethod

#: Name of a method: the module of this package and the class in it. A new method is one file and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "All-Zero": ("all_zero", "AllZero"),
    "LR": ("linear", "LinearRegression"),
    "MLP": ("mlp", "MLP"),
    "GCN": ("gcn", "GCN"),
    "DCRNN": ("dcrnn", "DCRNN"),
    "MPNN-LSTM": ("mpnn_lstm", "MPNNLSTM"),
    "GConvGRU": ("gconv_gru", "GConvGRU"),
    "A3TGCN": ("a3tgcn", "A3TGCN"),
    "EvolveGCN": ("evolve_gcn", "EvolveGCN"),
    "COIN": ("coin", "COIN"),
    "LastValue": ("last_value", "LastValue"),
    "SeasonalNaive": ("seasonal_naive", "SeasonalNaive"),
    "RegionMean": ("region_mean", "RegionMean"),
    "GradientBoosting": ("gradient_boosting", "GradientBoosting"),
}


REGISTRY: Registry[TemporalMethod] = Registry(__name__, METHODS)
method, method_named = REGISTRY.get, REGISTRY.named
