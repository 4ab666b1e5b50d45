"""scikit-learn estimators: fit on a few labels, answer for everything."""

from condiff.estimators.classifier import COINClassifier
from condiff.estimators.forecasting import PanelForecaster
from condiff.estimators.multilabel import COINMultiLabelClassifier
from condiff.estimators.prepared import Prepared
from condiff.estimators.regressor import COINRegressor
from condiff.estimators.saving import load

__all__ = ["COINClassifier", "COINMultiLabelClassifier", "COINRegressor", "PanelForecaster", "Prepared", "load"]
