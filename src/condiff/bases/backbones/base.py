"""What every backbone is: a network from images to features, which knows how its pixels are to be prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

# Of ImageNet's photographs, in the unit range: what published backbones for photographs are trained with.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Backbone(nn.Module):
    """A network from images to features.

    Attributes
    ----------
    name
        As in the registry.
    in_channels
        1 for grey images, 3 for colour.
    size
        Side of the images that it was made for, in pixels.
    out_features
        Width of the features.
    """

    name: ClassVar[str]

    def __init__(self, in_channels: int, size: int, out_features: int) -> None:
        super().__init__()
        self.in_channels, self.size, self.out_features = in_channels, size, out_features

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation of each channel, in the unit range, that inputs are normalised with."""
        return (IMAGENET_MEAN, IMAGENET_STD) if self.in_channels == 3 else ((0.0,), (1.0,))

    def normalise(self, pixels: Tensor) -> Tensor:
        """Images in the unit range, shape (n, channels, h, w), as the network reads them."""
        mean, std = (pixels.new_tensor(values).view(1, -1, 1, 1) for values in self.normalisation)
        return (pixels - mean) / std

    def prepare(self, images: Tensor) -> Tensor:
        """Bytes as images are stored, shape (n, h, w, channels), as the network reads them."""
        return self.normalise(unit_range(images))


def unit_range(images: Tensor) -> Tensor:
    """Bytes of shape (n, h, w, channels) as floats from 0 to 1 of shape (n, channels, h, w)."""
    return images.permute(0, 3, 1, 2).to(torch.float32).div(255.0)


def stages(block: Callable[[int, int, int], nn.Module], widths: Sequence[int], depth: int) -> nn.Sequential:
    """Blocks in stages of ``depth``: from one width to the next, and from the second stage on, half the side.

    Parameters
    ----------
    block
        Makes one from its input's channels, its output's, and the stride.
    widths
        Channels before the first stage and after each.
    depth
        Blocks of a stage.
    """
    blocks = []
    for stage, (before, after) in enumerate(pairwise(widths)):
        blocks.append(block(before, after, 1 if stage == 0 else 2))
        blocks += [block(after, after, 1) for _ in range(depth - 1)]
    return nn.Sequential(*blocks)


def initialise(module: nn.Module) -> None:
    """Kaiming's normal law by the fan-out for convolutions, as the published backbones start."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
