"""The interface of methods for series on a graph: a frozen dataclass of settings that can solve a problem."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.method import HiddenLayer, Method
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem
from condiff.training.optimiser import Optimiser
from condiff.training.settings import COVID, Training


@dataclass(frozen=True, eq=False)
class Outcome:
    """A method's forecasts for the test snapshots, and what they cost.

    Parameters
    ----------
    predictions
        (test snapshots, regions), standardised as the problem's history is.
    epochs
        Epochs that were run; 0 where a method has none.
    seconds
        The time that training took, without set-up such as a graph's normalisation.
    """

    predictions: Tensor
    epochs: int
    seconds: float


@dataclass(frozen=True)
class TemporalMethod(Method):
    """A method for series on a graph."""

    @abstractmethod
    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        """Learn from the training snapshots and forecast the test snapshots; the same seed gives the same bytes."""


@dataclass(frozen=True)
class NetworkMethod(TemporalMethod):
    """A method that trains a network, all snapshots in one batch, for a fixed number of epochs.

    Parameters
    ----------
    training
        Optimiser, learning rate, weight decay and epochs, the same for every method.
    """

    training: Training = COVID

    @abstractmethod
    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        """A freshly initialised network for the sizes of the problem."""

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        torch.manual_seed(seed)
        return train(self.network(problem), problem, self.training)


@dataclass(frozen=True)
class HiddenLayerMethod(HiddenLayer, NetworkMethod):
    """A network with one hidden layer or state; the paper has 16 units and dropout 0.5 in all of them."""


class TemporalNetwork(nn.Module, ABC):
    """A network that takes snapshots side by side; none of them sees another."""

    @abstractmethod
    def forward(self, part: Part) -> Tensor:
        """Forecasts, (snapshots, regions)."""


def train(network: TemporalNetwork, problem: TemporalProblem, settings: Training) -> Outcome:
    """Minimise the mean over the snapshots of their mean squared errors over the known targets, then forecast.

    The weights after the last epoch are the ones that forecast: validation snapshots take no part, as in the paper.
    """
    part = problem.training
    known = (~part.targets.isnan()).float()
    target = part.targets.nan_to_num(0.0)
    share = known / known.sum(1, keepdim=True) / len(known)
    optimiser = Optimiser(list(network.parameters()), settings)
    started = time.perf_counter()
    network.train()
    for _ in range(settings.epochs):
        (share * (network(part) - target) ** 2).sum().backward()
        optimiser.step()
    network.eval()
    seconds = time.perf_counter() - started
    with torch.no_grad():
        predictions = network(problem.testing)
    return Outcome(predictions, settings.epochs, seconds)
