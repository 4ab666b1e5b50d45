"""Every backbone by its name."""

from __future__ import annotations

from condiff.bases.backbones.base import Backbone
from condiff.bases.backbones.conv4 import Conv4
from condiff.bases.backbones.efficientnet import EfficientNetLite0
from condiff.bases.backbones.resnet import ResNet18
from condiff.bases.backbones.wide_resnet import WideResNet
from condiff.errors import InvalidInputError, did_you_mean

BACKBONES: dict[str, type[Conv4 | ResNet18 | WideResNet | EfficientNetLite0]] = {
    kind.name: kind for kind in (Conv4, ResNet18, WideResNet, EfficientNetLite0)
}


def backbone(name: str, *, in_channels: int = 3, size: int | None = None) -> Backbone:
    """Make a backbone; only ``efficientnet_lite0`` is trained already, the others draw their weights.

    Parameters
    ----------
    name
        A key of :data:`BACKBONES`.
    in_channels
        1 for grey images, 3 for colour.
    size
        Side of the images in pixels; by default 160 for ``efficientnet_lite0`` and 84 for the others.
    """
    if name not in BACKBONES:
        known = ", ".join(BACKBONES)
        raise InvalidInputError(f"unknown backbone {name!r}{did_you_mean(name, BACKBONES)}: known are {known}")
    kind = BACKBONES[name]
    return kind(in_channels) if size is None else kind(in_channels, size)
