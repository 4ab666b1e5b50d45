"""Fitted parts as plain values and arrays, to be saved, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from condiff.errors import InvalidInputError
from condiff.estimators.forecasting.diffused import Correlation, Diffused
from condiff.estimators.forecasting.network import Network, NetworkSettings
from condiff.estimators.forecasting.parts import Parts
from condiff.estimators.forecasting.regression import COLUMNS, Autoregression
from condiff.estimators.forecasting.structure import Effects, Structure, Trend, harmonics


def saved_parts(parts: Parts) -> dict[str, Any]:
    """What :func:`restored_parts` reads."""
    network = parts.network
    return {
        "structures": [
            {
                "logs": each.logs,
                "trend": vars(each.trend),
                "periods": list(each.effects.periods),
                "coefficients": each.effects.coefficients,
            }
            for each in parts.structures
        ],
        "correlations": [vars(each.correlation) for each in parts.diffused],
        "regression": None if parts.regression is None else vars(parts.regression),
        "network": None
        if network is None
        else {
            "mean": network.mean,
            "scale": network.scale,
            "losses": network.losses,
            "models": [{k: v.numpy() for k, v in m.convection.state_dict().items()} for m in network.models],
        },
    }


def restored_parts(
    state: dict[str, Any], wanted: tuple[str, ...], periods: tuple[int, ...], settings: NetworkSettings
) -> Parts:
    """Parts from their checked state."""
    structures = []
    for each in state["structures"]:
        effects = Effects(tuple(each["periods"]), each["coefficients"])
        if harmonics(np.zeros(1, np.int64), effects.periods).shape[1] > len(effects.coefficients):
            raise InvalidInputError("there are fewer coefficients than waves of the seasons")
        structures.append(Structure(Trend(**each["trend"]), effects, each["logs"]))
    correlations = state["correlations"]
    if len(correlations) not in (0, len(structures)):
        raise InvalidInputError(f"there are {len(correlations)} correlations for {len(structures)} structures")
    diffused = [
        Diffused(structure, Correlation(**correlation))
        for structure, correlation in zip(structures, correlations, strict=False)
    ]
    regression = None if state["regression"] is None else Autoregression(**state["regression"])
    if regression is not None and regression.coefficients.shape != (settings.horizon, COLUMNS):
        raise InvalidInputError(f"a regression has coefficients of shape {regression.coefficients.shape}")
    network, saved = None, state["network"]
    if saved is not None:
        models = [settings.build(0) for _ in saved["models"]]
        for model, arrays in zip(models, saved["models"], strict=True):
            model.convection.load_state_dict({name: torch.as_tensor(value) for name, value in arrays.items()})
            model.eval()
        network = Network(settings, saved["mean"], saved["scale"], models, saved["losses"])
    return Parts(wanted, periods, structures, diffused, regression, network)
