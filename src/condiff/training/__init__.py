"""Fitting a COIN: settings as data, the paper's early stopping, the plain reference and the exact fast engines."""

from condiff.training.engines import Choice, Request, choose, fit
from condiff.training.losses import pointwise_loss, score
from condiff.training.projected import fit_projected, projected_rows, projection
from condiff.training.reference import History
from condiff.training.settings import COVID, FEW_SHOT, NODE, PROSTATE, Training
from condiff.training.stopping import EarlyStopping, Snapshot

__all__ = [
    "COVID",
    "FEW_SHOT",
    "NODE",
    "PROSTATE",
    "Choice",
    "EarlyStopping",
    "History",
    "Request",
    "Snapshot",
    "Training",
    "choose",
    "fit",
    "fit_projected",
    "pointwise_loss",
    "projected_rows",
    "projection",
    "score",
]
