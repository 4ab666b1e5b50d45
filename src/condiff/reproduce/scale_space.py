"""Scale space: an image that the heat flow smooths, and a classifier that a network's layers sharpen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dctn, idctn
from sklearn.datasets import load_sample_image, make_moons
from torch import nn

from condiff.bases import Residual
from condiff.errors import InvalidInputError

Floats = NDArray[np.float64]

_BLOCKS, _WIDTH, _EPOCHS = 12, 16, 250
_SHRINK = 2  # pixels of the photograph that become one


def photograph() -> Floats:
    """scikit-learn's photograph of a temple (by danielbuechele, CC BY 2.0), smaller, colours from 0 to 1: (h, w, 3)."""
    image = np.asarray(load_sample_image("china.jpg"), dtype=np.float64) / 255.0
    h, w = (side // _SHRINK * _SHRINK for side in image.shape[:2])
    parts = image[:h, :w].reshape(h // _SHRINK, _SHRINK, w // _SHRINK, _SHRINK, 3)
    return np.asarray(parts.mean(axis=(1, 3)))


def heat_flow(image: Floats, times: Sequence[float]) -> Floats:
    r"""The image after each time of :math:`\partial_t u = \Delta u`, insulated at its border: (times, h, w, ...).

    The five-point Laplacian of the pixels is diagonal in the cosine basis, with the eigenvalues
    :math:`4 \sin^2(\pi i / 2h) + 4 \sin^2(\pi j / 2w)`, so that every time is exact in one step.
    """
    image = np.asarray(image, dtype=np.float64)
    if image.ndim < 2 or image.size == 0:
        raise InvalidInputError(f"an image has the shape (h, w) or (h, w, colours), not {image.shape}")
    if any(not 0 <= time < np.inf for time in times):
        raise InvalidInputError(f"times must be finite, 0 or more, not {list(times)}")
    along = [4 * np.sin(np.pi * np.arange(side) / (2 * side)) ** 2 for side in image.shape[:2]]
    rates = np.add.outer(*along).reshape(*image.shape[:2], *[1] * (image.ndim - 2))
    waves = dctn(image, axes=(0, 1), norm="ortho")
    return np.stack([idctn(np.exp(-time * rates) * waves, axes=(0, 1), norm="ortho") for time in times])


class DeepMoons:
    """A residual network of many blocks that separates two moons.

    Attributes
    ----------
    points, truth
        What it was fitted on.
    network
        The network.
    """

    def __init__(self, seed: int = 0) -> None:
        points, self.truth = make_moons(400, noise=0.1, random_state=seed)
        self.points: Floats = (points - points.mean(axis=0)) / points.std()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = Residual(2, 2, width=_WIDTH, blocks=_BLOCKS, activation="tanh").double()
            for block in self.network.blocks:  # small steps: the layers of a flow, not of a composition
                nn.init.normal_(block.get_parameter("weight"), std=0.3 / _WIDTH**0.5)
            self._fit()

    def _fit(self) -> None:
        x, target = torch.as_tensor(self.points), torch.as_tensor(self.truth)
        optimiser = torch.optim.Adam(self.network.parameters(), lr=0.01, weight_decay=1e-3)
        for _ in range(_EPOCHS):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(self.network(x), target)
            loss.backward()
            optimiser.step()

    def at(self, x: Floats, blocks: int) -> Floats:
        """The probability of class 1 of the linear classifier behind the last ``blocks`` blocks.

        This is u(x, t) at the share t = ``blocks`` / all of the time: the base classifier at 0, the network at the end.
        """
        total = len(self.network.blocks)
        if not 0 <= blocks <= total:
            raise InvalidInputError(
                f"the network has {total} blocks, so blocks must be from 0 to {total}, not {blocks}"
            )
        with torch.no_grad():
            h = self.network.lift(torch.as_tensor(x))
            for block in range(total - blocks, total):
                # The first block reads the plane alone; its shortcut is padded like ours.
                h = h + self.network.velocity(h[:, :2] if block == 0 else h, block)
            return torch.softmax(self.network.readout(h), dim=1)[:, 1].numpy()
