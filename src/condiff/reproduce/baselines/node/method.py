"""The interface of node classification methods: a frozen dataclass of settings that can solve a problem."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.method import HiddenLayer, Method
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.optimiser import Optimiser
from condiff.training.settings import NODE, Training
from condiff.training.stopping import EarlyStopping, Snapshot

# A gradient of a mean loss by a bias this small is rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Outcome:
    """A method's scores for every node, and what they cost.

    Parameters
    ----------
    scores
        (n, classes); the largest of a row is the prediction.
    epochs
        Epochs that were run; 0 where a method has none.
    seconds
        The time that training took, without set-up such as a graph's matrix power.
    chosen
        Settings that were chosen on this graph.
    """

    scores: Tensor
    epochs: int
    seconds: float
    chosen: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeMethod(Method):
    """A method for node classification."""

    @abstractmethod
    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        """Learn from the training nodes and score every node; the same seed gives the same bytes."""


@dataclass(frozen=True)
class NetworkMethod(NodeMethod):
    """A method that trains a network under the protocol's loss and early stopping.

    Parameters
    ----------
    training
        Optimiser, its learning rate and weight decay, and the stopping rule, the same for every method.
    """

    training: Training = NODE

    @abstractmethod
    def network(self, problem: NodeProblem) -> NodeNetwork:
        """A freshly initialised network that holds what it needs of the problem."""

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        torch.manual_seed(seed)
        return train(self.network(problem), problem, self.training)


@dataclass(frozen=True)
class HiddenLayerMethod(HiddenLayer, NetworkMethod):
    """A network of two layers."""


class NodeNetwork(nn.Module, ABC):
    """A network for one problem: it holds graph and features, so that its forward pass takes nothing."""

    @abstractmethod
    def forward(self) -> Tensor:
        """Log-probabilities of every node, (n, classes)."""

    def at(self, nodes: Tensor) -> Tensor:
        """Log-probabilities of some nodes; worth its own code where those do not depend on all the others."""
        return self()[nodes]  # type: ignore[no-any-return]

    def penalty(self) -> Tensor | float:
        """The term that the method's own paper adds to the loss of an epoch, after its forward pass."""
        return 0.0

    def decayed(self) -> Iterable[nn.Parameter]:
        """The parameters that weight decay acts on: all, unless the method's paper says otherwise."""
        return self.parameters()


def zero_bias(size: int) -> nn.Parameter:
    """A bias that begins at zero and is not moved by rounding.

    Beside weights that are zero, as many labels of each class leave it a first gradient of rounding alone, and a step
    of Adam is as long whatever the gradient: the answer would depend on the processor.
    """
    bias = nn.Parameter(torch.zeros(size))
    bias.register_hook(lambda gradient: gradient.where(gradient.abs() > _ROUNDING, 0.0))
    return bias


def train(network: NodeNetwork, problem: NodeProblem, settings: Training) -> Outcome:
    """Train full-batch with the negative log-likelihood, stop early, and score all nodes with the best weights."""
    decayed = {id(parameter) for parameter in network.decayed()}
    with_decay = [parameter for parameter in network.parameters() if id(parameter) in decayed]
    without = [parameter for parameter in network.parameters() if id(parameter) not in decayed]
    optimisers = [Optimiser(with_decay, settings), Optimiser(without, replace(settings, weight_decay=0.0))]
    snapshot = Snapshot(network)
    stopping = EarlyStopping(settings.patience or settings.epochs, snapshot.take)
    train_labels, validation_labels = problem.labels[problem.train], problem.labels[problem.validation]
    started, epoch = time.perf_counter(), 0
    for epoch in range(1, settings.epochs + 1):
        network.train()
        loss = nn.functional.nll_loss(network.at(problem.train), train_labels) + network.penalty()
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
        network.eval()
        with torch.no_grad():
            output = network.at(problem.validation)
            loss_there = float(nn.functional.nll_loss(output, validation_labels))
            accuracy_there = float((output.argmax(-1) == validation_labels).double().mean())
        if stopping.should_stop(epoch, loss_there, accuracy_there):
            break
    snapshot.restore()
    network.eval()
    with torch.no_grad():
        scores = network()
    return Outcome(scores, epoch, time.perf_counter() - started)
