"""COIN on series: a small residual network of the lags, then diffusion over the graph of the day."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import torch

from condiff.errors import StepSizeWarning
from condiff.model import COIN as Network
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import TemporalProblem
from condiff.training import COVID, Problem, Training, fit


@dataclass(frozen=True)
class COIN(TemporalMethod):
    """A residual network with ELU, then ``layers`` Euler steps of diffusion on its output, dropout before each.

    The paper's settings: 16 hidden units, 10 layers of strength 0.5, dropout 0.25, Adam 0.01, weight decay 5e-4, 100
    epochs. The strength is past the step-size limit of some days' graphs.

    Parameters
    ----------
    hidden
        Hidden units.
    layers, strength
        The diffusion: K and sigma squared.
    dropout
        Probability with which outputs are dropped before each layer in training.
    training
        Optimiser and number of epochs.
    """

    hidden: int = 16
    layers: int = 10
    strength: float = 0.5
    dropout: float = 0.25
    training: Training = COVID

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden)
        check_probabilities(dropout=self.dropout)

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        torch.manual_seed(seed)
        network = Network.build(
            problem.lags,
            1,
            hidden_features=self.hidden,
            activation="elu",
            head="identity",
            layers=self.layers,
            strength=self.strength,
            dropout=self.dropout,
        )
        part, tested = problem.training, problem.testing
        x, operator, target = part.x, part.laplacian, part.targets
        with warnings.catch_warnings():
            # The paper's own strength is past a limit; the page on this benchmark says so.
            warnings.simplefilter("ignore", StepSizeWarning)
            started = time.perf_counter()
            fit(Problem(network, x, operator, target, settings=self.training, seed=seed))
            seconds = time.perf_counter() - started
            with torch.no_grad():
                predictions = network(tested.x, tested.laplacian)[..., 0]
        return Outcome(predictions, self.training.epochs, seconds)
