"""ResNet-18 for small images."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from condiff.bases.backbones.base import Backbone, initialise, stages


class ResNet18(Backbone):
    """Eight basic residual blocks and the mean over the last maps: 512 features.

    For 84 x 84 images the stem is a single 3 x 3 convolution with stride 1 and without pooling, as in SimpleShot and
    the works after it, the paper included; the second, third and fourth pair of blocks halve the maps.

    Parameters
    ----------
    in_channels
        Channels of the images.
    size
        Their side; any size of at least 8 pixels runs.
    """

    name: ClassVar[str] = "resnet18"

    def __init__(self, in_channels: int = 3, size: int = 84) -> None:
        super().__init__(in_channels, size, 512)
        self.stem = _convolution(in_channels, 64, 1)
        self.stem_norm = nn.BatchNorm2d(64)
        self.blocks = stages(BasicBlock, (64, 64, 128, 256, 512), depth=2)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map images of shape (n, in_channels, h, w) to features (n, 512)."""
        maps: Tensor = self.blocks(functional.relu(self.stem_norm(self.stem(x))))
        return maps.mean(dim=(2, 3))


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, which is a 1 x 1 convolution where shapes differ."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = _convolution(in_channels, out_channels, stride), nn.BatchNorm2d(out_channels)
        self.second, self.second_norm = _convolution(out_channels, out_channels, 1), nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in_channels, h, w) to (n, out_channels, h / stride, w / stride)."""
        moved = self.second_norm(self.second(functional.relu(self.first_norm(self.first(x)))))
        return functional.relu(moved + self.shortcut(x))


def _convolution(in_channels: int, out_channels: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
