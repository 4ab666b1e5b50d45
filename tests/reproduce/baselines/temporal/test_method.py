"""The common trainer: all snapshots in one batch do what one after another does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.method import TemporalNetwork, train
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem
from condiff.training.settings import COVID, Training


class Linear(TemporalNetwork):
    def __init__(self, lags: int) -> None:
        super().__init__()
        self.linear = nn.Linear(lags, 1)
        self.modes: list[bool] = []

    def forward(self, part: Part) -> Tensor:
        self.modes.append(self.training)
        out: Tensor = self.linear(part.x)
        return out[..., 0]


def pair() -> tuple[Linear, Linear]:
    made = []
    for _ in range(2):
        torch.manual_seed(1)
        made.append(Linear(4))
    return made[0], made[1]


def test_an_epoch_is_one_step_on_the_mean_over_snapshots_of_their_errors(waves: TemporalProblem) -> None:
    ours, plain = pair()
    settings = Training("adam", 0.05, weight_decay=0.02, epochs=7, patience=None)
    outcome = train(ours, waves, settings)
    optimiser = torch.optim.Adam(plain.parameters(), lr=0.05, weight_decay=0.02)
    for _ in range(7):
        optimiser.zero_grad()
        losses = []
        for snapshot in (0, 1, 3, 4):
            target = torch.from_numpy(waves.targets[snapshot]).float()
            known = ~target.isnan()
            output = plain.linear(waves.inputs[snapshot])[:, 0]
            losses.append(nn.functional.mse_loss(output[known], target[known]))
        torch.stack(losses).mean().backward()
        optimiser.step()
    for mine, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
    with torch.no_grad():
        torch.testing.assert_close(outcome.predictions, plain.linear(waves.inputs[waves.test])[..., 0])
    assert outcome.epochs == 7
    assert outcome.seconds > 0


def test_training_is_in_training_mode_and_forecasts_are_not(waves: TemporalProblem) -> None:
    network = pair()[0]
    train(network, waves, Training("adam", 0.05, epochs=3, patience=None))
    assert network.modes == [True, True, True, False]


def test_it_learns_what_a_line_can(waves: TemporalProblem) -> None:
    values = np.cos(np.arange(20)[:, None] / 2 + np.arange(12))
    full = TemporalProblem(
        "waves", values[:-1], np.where(np.arange(16)[:, None] < 8, values[4:], np.nan), waves.graphs, 4, *waves_parts()
    )
    outcome = train(pair()[0], full, Training("adam", 0.05, weight_decay=0.0, epochs=400, patience=None))
    np.testing.assert_allclose(outcome.predictions, values[4:][full.test], atol=0.02)


def waves_parts() -> tuple[slice, slice, slice]:
    return slice(0, 5), slice(5, 8), slice(8, 16)


def test_the_papers_settings() -> None:
    assert (COVID.optimiser, COVID.learning_rate, COVID.weight_decay) == ("adam", 0.01, 5e-4)
    assert (COVID.epochs, COVID.patience) == (100, None)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides(waves: TemporalProblem, seed: int) -> None:
    from condiff.reproduce.baselines.temporal.mlp import MLP

    short = MLP(training=Training("adam", 0.01, epochs=3, patience=None))
    one, again, other = (short.solve(waves, each).predictions.numpy().tobytes() for each in (seed, seed, seed + 1))
    assert one == again != other
