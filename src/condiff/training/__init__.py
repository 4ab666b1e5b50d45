"""Fitting a COIN: a problem, the engines that can fit it, and the settings of the descent."""

from condiff.training.engine import Engine, Fitted
from condiff.training.engines import ENGINES
from condiff.training.fitting import fit
from condiff.training.losses import ClassBalance, pointwise_loss
from condiff.training.problem import Problem
from condiff.training.settings import COVID, FEW_SHOT, NODE, PROSTATE, Training
from condiff.training.stopping import EarlyStopping

__all__ = [
    "COVID",
    "ENGINES",
    "FEW_SHOT",
    "NODE",
    "PROSTATE",
    "ClassBalance",
    "EarlyStopping",
    "Engine",
    "Fitted",
    "Problem",
    "Training",
    "fit",
    "pointwise_loss",
]
