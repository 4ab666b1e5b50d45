"""Random crops, flips and colours for whole batches of images, as tensor operations from one generator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from condiff.errors import InvalidInputError

# Luma of red, green and blue: how light a colour looks.
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Augmentation:
    """A random crop resized to ``size``, a flip, and a change of brightness, contrast and saturation, in that order.

    The defaults are those of the paper's backbones. A crop that would be wider or higher than the image is cut to its
    side.

    Attributes
    ----------
    size
        Side of what comes out, in pixels.
    scale
        Range of a crop's share of the image's area.
    ratio
        Range of its width over its height, drawn on a logarithmic scale.
    flip
        Whether half of the images are mirrored left to right.
    jitter
        Brightness, contrast and saturation are multiplied by factors from ``1 - jitter`` to ``1 + jitter``; saturation
        for images of three channels only.
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    jitter: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise InvalidInputError(f"scale must be an ascending range above 0 and up to 1, not {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise InvalidInputError(f"ratio must be an ascending range above 0, not {self.ratio}")
        if not 0 <= self.jitter <= 1:
            raise InvalidInputError(f"jitter must be from 0 to 1, not {self.jitter}")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Change images of the unit range, shape (n, channels, h, w), to shape (n, channels, size, size)."""
        return self._recolour(self._crop(images, generator), generator)

    def _crop(self, images: Tensor, generator: torch.Generator) -> Tensor:
        count = len(images)
        area = _uniform(count, self.scale, generator)
        low, high = (torch.tensor(end).log().item() for end in self.ratio)
        ratio = _uniform(count, (low, high), generator).exp() * images.shape[2] / images.shape[3]
        # Shares of the image's width and height.
        width, height = (area * ratio).sqrt().clamp(max=1.0), (area / ratio).sqrt().clamp(max=1.0)
        left, top = ((1 - side) * torch.rand(count, generator=generator) for side in (width, height))
        mirrored = torch.rand(count, generator=generator) < 0.5 if self.flip else torch.zeros(count, dtype=torch.bool)
        # In coordinates from -1 to 1, a crop is a scaling and a shift.
        maps = torch.zeros(count, 2, 3)
        maps[:, 0, 0], maps[:, 1, 1] = torch.where(mirrored, -width, width), height
        maps[:, 0, 2], maps[:, 1, 2] = 2 * left + width - 1, 2 * top + height - 1
        grid = functional.affine_grid(maps, [count, images.shape[1], self.size, self.size], align_corners=False)
        return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)

    def _recolour(self, images: Tensor, generator: torch.Generator) -> Tensor:
        if self.jitter == 0:
            return images
        span = (1 - self.jitter, 1 + self.jitter)
        brightness, contrast, saturation = (_uniform(len(images), span, generator).view(-1, 1, 1, 1) for _ in range(3))
        images = (images * brightness).clamp(0, 1)
        average = _grey(images).mean(dim=(2, 3), keepdim=True)
        images = (average + contrast * (images - average)).clamp(0, 1)
        if images.shape[1] == 3:
            grey = _grey(images)
            images = (grey + saturation * (images - grey)).clamp(0, 1)
        return images


def _uniform(count: int, span: tuple[float, float], generator: torch.Generator) -> Tensor:
    return span[0] + (span[1] - span[0]) * torch.rand(count, generator=generator)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        return images
    return (images * images.new_tensor(_LUMA).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)
