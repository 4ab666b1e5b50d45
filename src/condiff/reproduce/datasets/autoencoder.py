"""The variational autoencoder that MNIST's features come from: how ``mnist_encoder.npz`` was learned.

A training on another processor ends at other weights, and so at other neighbours; the weights are therefore kept in
the package, and features are the same everywhere. ``python -m condiff.reproduce.datasets.autoencoder FILE`` learns
some anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.files import atomic_path
from condiff.reproduce.datasets import mnist

#: Hidden width, features, epochs, images in a batch, learning rate.
WIDTH, N_FEATURES, EPOCHS, BATCH, RATE = 400, 20, 30, 128, 1e-3


class Autoencoder(nn.Module):
    """A variational autoencoder (Kingma and Welling, 2014) of one hidden layer on either side."""

    def __init__(self, n_pixels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_pixels, WIDTH)
        self.mean, self.log_variance = nn.Linear(WIDTH, N_FEATURES), nn.Linear(WIDTH, N_FEATURES)
        self.back = nn.Sequential(nn.Linear(N_FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, n_pixels))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance of the features."""
        hidden = torch.relu(self.hidden(x))
        return self.mean(hidden), self.log_variance(hidden)

    def loss(self, x: Tensor, noise: Tensor) -> Tensor:
        """The negative lower bound on the likelihood, summed over the images."""
        mean, log_variance = self.encode(x)
        z = mean + noise * torch.exp(log_variance / 2)
        lost = nn.functional.binary_cross_entropy_with_logits(self.back(z), x, reduction="sum")
        return lost - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()


def learn_encoder(pixels: NDArray[np.uint8], epochs: int = EPOCHS, seed: int = 0) -> dict[str, NDArray[np.float16]]:
    """Train the autoencoder on images, without their labels; returns the weights of its encoder."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Autoencoder(pixels.shape[1])
    x = torch.as_tensor(pixels, dtype=torch.float32) / 255
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            noise = torch.randn(len(rows), N_FEATURES, generator=generator)
            optimiser.zero_grad()
            model.loss(x[rows], noise).backward()
            optimiser.step()
    kept = {"hidden": model.hidden, "mean": model.mean}
    return {
        f"{name}_{part}": value.detach().numpy().astype(np.float16)
        for name, layer in kept.items()
        for part, value in layer.named_parameters()
    }


if __name__ == "__main__":
    with atomic_path(Path(sys.argv[1])) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **learn_encoder(mnist.images()[0]))
