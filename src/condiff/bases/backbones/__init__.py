"""Backbones of few-shot learning: networks from images to features."""

from condiff.bases.backbones.base import Backbone, unit_range
from condiff.bases.backbones.efficientnet import PretrainedWarning
from condiff.bases.backbones.registry import BACKBONES, backbone

__all__ = ["BACKBONES", "Backbone", "PretrainedWarning", "backbone", "unit_range"]
