"""A variational autoencoder, whose features MNIST's images are compared by."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.reproduce.datasets.mnist import BATCH, EPOCHS, N_FEATURES, RATE, WIDTH


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


def learn_features(pixels: NDArray[np.uint8], epochs: int = EPOCHS, seed: int = 0) -> NDArray[np.float32]:
    """Train the autoencoder on images, without their labels; the features are its means."""
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
    with torch.no_grad():
        return np.asarray(torch.cat([model.encode(part)[0] for part in x.split(4096)]).numpy())
