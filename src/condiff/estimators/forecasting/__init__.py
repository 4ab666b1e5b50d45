"""Forecasts of many series with holes: structure, diffusion over a graph, and a back-test that mixes them."""

from __future__ import annotations

from condiff.estimators.forecasting.forecaster import PanelForecaster
from condiff.estimators.forecasting.imputing import Imputed
from condiff.estimators.forecasting.rolling import CrossValidation
from condiff.estimators.forecasting.shares import Backtest

__all__ = ["Backtest", "CrossValidation", "Imputed", "PanelForecaster"]
