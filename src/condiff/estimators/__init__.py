"""scikit-learn estimators: fit on a few labels, answer for everything."""

from typing import TYPE_CHECKING

from condiff.lazy import names_from

if TYPE_CHECKING:
    from condiff.estimators.classifier import COINClassifier
    from condiff.estimators.forecasting import PanelForecaster
    from condiff.estimators.multilabel import COINMultiLabelClassifier
    from condiff.estimators.prepared import Prepared
    from condiff.estimators.regressor import COINRegressor
    from condiff.estimators.saving import load

__all__ = ["COINClassifier", "COINMultiLabelClassifier", "COINRegressor", "PanelForecaster", "Prepared", "load"]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "classifier": ("COINClassifier",),
        "forecasting": ("PanelForecaster",),
        "multilabel": ("COINMultiLabelClassifier",),
        "prepared": ("Prepared",),
        "regressor": ("COINRegressor",),
        "saving": ("load",),
    },
)
