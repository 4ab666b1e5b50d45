"""Backbones of few-shot learning: networks from images to features."""

from condiff.convection.backbones.base import Backbone, unit_range
from condiff.convection.backbones.efficientnet import PretrainedWarning
from condiff.convection.backbones.registry import BACKBONES, backbone

__all__ = ["BACKBONES", "Backbone", "PretrainedWarning", "backbone", "unit_range"]
