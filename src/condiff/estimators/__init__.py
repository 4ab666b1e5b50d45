"""scikit-learn estimators: fit on a few labels, answer for everything."""

from condiff.estimators.classifier import COINClassifier
from condiff.estimators.forecaster import PanelForecaster
from condiff.estimators.loading import load
from condiff.estimators.regressor import COINRegressor

__all__ = ["COINClassifier", "COINRegressor", "PanelForecaster", "load"]
