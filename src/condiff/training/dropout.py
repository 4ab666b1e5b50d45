"""Dropout before every diffusion layer, of several networks at once, each from a generator of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Values that a quarter of a random number takes.
_LEVELS = 1 << 16


class DropoutMasks:
    """Which entries each diffusion layer keeps.

    A network's masks depend on its seed alone, not on the other networks. Four entries share a random number of 64
    bits, which is ten times as fast as torch's one Bernoulli variable per entry; the probability is rounded to 16 bits.

    Parameters
    ----------
    probability
        That an entry is dropped.
    layers
        Number of diffusion layers.
    shape
        Of the output: (graphs, nodes, outputs).
    seeds
        One for each network.
    like
        A tensor of the type that the masks should have, and where they should be.
    """

    def __init__(
        self, probability: float, layers: int, shape: tuple[int, int, int], seeds: Sequence[int], like: Tensor
    ) -> None:
        dropped = min(round(probability * _LEVELS), _LEVELS - 1)
        #: What a kept entry is multiplied with, so that the mean stays.
        self.scale = _LEVELS / (_LEVELS - dropped)
        self._threshold = dropped - _LEVELS // 2
        self._generators = [torch.Generator(like.device).manual_seed(seed) for seed in seeds]
        graphs, nodes, outputs = shape
        self._shape = (layers, graphs, outputs, nodes)
        count = layers * graphs * nodes * outputs
        self._numbers = torch.empty(len(seeds), -(-count // 4), dtype=torch.int64, device=like.device)
        self._kept = like.new_empty(layers, graphs, len(seeds), outputs, nodes)

    def draw(self) -> Tensor:
        """The coming epoch's masks, ones and zeros, in memory that the next draw uses again.

        Their shape is (layers, graphs, networks, outputs, nodes).
        """
        for numbers, generator in zip(self._numbers, self._generators, strict=True):
            numbers.random_(-(2**63), None, generator=generator)
        count = self._kept.numel() // len(self._generators)
        lanes = self._numbers.view(torch.int16)[:, :count].unflatten(1, self._shape)
        # Written as numbers at once: to convert truth values costs several times the comparison.
        torch.ge(lanes, self._threshold, out=self._kept.movedim(2, 0))
        return self._kept
