"""Conv-4: the light backbone of the few-shot literature."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from condiff.bases.backbones.base import Backbone
from condiff.errors import InvalidInputError


class Conv4(Backbone):
    """Four times: 64 filters of 3 x 3, batch normalisation, ReLU, the maximum over 2 x 2.

    The features are the last maps, flattened: 64 for Omniglot's 28 x 28, 1,600 for 84 x 84.

    Parameters
    ----------
    in_channels
        Channels of the images.
    size
        Their side, at least 16 pixels.
    """

    name: ClassVar[str] = "conv4"

    def __init__(self, in_channels: int = 3, size: int = 84) -> None:
        if size < 16:
            raise InvalidInputError(f"conv4 halves images four times and needs at least 16 pixels, not {size}")
        super().__init__(in_channels, size, 64 * (size // 16) ** 2)
        widths = [in_channels, 64, 64, 64, 64]
        self.blocks = nn.Sequential(*(_block(*pair) for pair in pairwise(widths)))

    def forward(self, x: Tensor) -> Tensor:
        """Map images of shape (n, in_channels, size, size) to features (n, out_features)."""
        maps: Tensor = self.blocks(x)
        return maps.flatten(1)


def _block(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, padding=1), nn.BatchNorm2d(out_channels), nn.ReLU(), nn.MaxPool2d(2)
    )
