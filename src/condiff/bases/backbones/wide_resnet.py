"""The wide residual network WRN-28-10."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from condiff.bases.backbones.base import Backbone, initialise, stages


class WideResNet(Backbone):
    """WRN-28-10: three stages of four pre-activated blocks, ten times as wide as usual; 640 features.

    As in the paper: no dropout, convolutions with biases, and a last batch normalisation of momentum 0.9.

    Parameters
    ----------
    in_channels
        Channels of the images.
    size
        Their side; any size of at least 4 pixels runs.
    """

    name: ClassVar[str] = "wrn28_10"

    def __init__(self, in_channels: int = 3, size: int = 84) -> None:
        super().__init__(in_channels, size, 640)
        self.stem = nn.Conv2d(in_channels, 16, 3, padding=1)
        self.blocks = stages(PreActivatedBlock, (16, 160, 320, 640), depth=4)
        self.norm = nn.BatchNorm2d(640, momentum=0.9)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map images of shape (n, in_channels, h, w) to features (n, 640)."""
        return functional.relu(self.norm(self.blocks(self.stem(x)))).mean(dim=(2, 3))


class PreActivatedBlock(nn.Module):
    """Two 3 x 3 convolutions, each after normalisation and ReLU, beside a shortcut; the second one strides."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.first_norm, self.first = nn.BatchNorm2d(in_channels), nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.second_norm = nn.BatchNorm2d(out_channels)
        self.second = nn.Conv2d(out_channels, out_channels, 3, stride=stride, padding=1)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in_channels, h, w) to (n, out_channels, h / stride, w / stride)."""
        moved = self.first(functional.relu(self.first_norm(x)))
        out: Tensor = self.second(functional.relu(self.second_norm(moved))) + self.shortcut(x)
        return out
