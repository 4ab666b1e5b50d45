"""Rows of features as the loops want them: in blocks of as many numbers as a vector holds."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from condiff.kernels.vectors import WIDTH


def in_blocks(values: Tensor) -> NDArray[Any]:
    """(rows, features) as (blocks, rows, 64), filled up with zeros; torch lets memory begin with a cache line."""
    missing = -values.shape[-1] % WIDTH
    padded = torch.nn.functional.pad(values, (0, missing)) if missing else values
    blocks: NDArray[Any] = padded.unflatten(-1, (-1, WIDTH)).transpose(0, 1).contiguous().numpy()
    return blocks


def from_blocks(blocks: NDArray[Any]) -> Tensor:
    """The reverse of :func:`in_blocks`, with the zeros."""
    return torch.from_numpy(blocks).transpose(0, 1).flatten(1)
