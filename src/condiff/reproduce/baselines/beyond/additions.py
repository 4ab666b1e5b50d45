"""COIN-resolvent with what the best methods for few labels add: each of the four is optional, for an ablation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.beyond.resolvent import ResolventCOIN, ResolventNetwork, of_length_one, scaled_log
from condiff.reproduce.baselines.beyond.shares import corrected
from condiff.reproduce.baselines.node.method import Outcome, train
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.uncertainty.calibration import apply_temperature, fit_temperature

# Nodes whose answers to several draws are asked to agree in each epoch, and draws of them.
_ASKED, _DRAWS = 500, 2
# Rows of a graph of similar features that are worked on together.
_BLOCK = 2048


@dataclass(frozen=True)
class AdditionsCOIN(ResolventCOIN):
    """COIN-resolvent, and beside it any of four additions; without all of them it is COIN-resolvent to the digit.

    Parameters
    ----------
    consistency
        Weight of a term that asks the answers to several random propagations to agree with their sharpened mean, at
        500 unlabelled nodes: Feng et al. (2020). It needs ``node_dropout``.
    rounds, certain
        Rounds of self-training: nodes whose calibrated probability is at least ``certain`` are labelled with what is
        predicted, equally many of every class and at most ten times as many as have labels, and the network is fitted
        again.
    neighbours, fusion
        Edges to this many nodes of the most similar features join the graph, with the weight ``fusion``.
    reuse
        Labels are inputs too: the diffusion starts from the label itself at training nodes. In training a random half
        of them is told and the loss is that of the other half.
    """

    consistency: float = 0.0
    rounds: int = 0
    certain: float = 0.9
    neighbours: int = 0
    fusion: float = 0.5
    reuse: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.consistency, self.rounds, self.neighbours, self.fusion) < 0:
            raise InvalidInputError("consistency, rounds, neighbours and fusion must not be negative")
        if self.consistency and not self.node_dropout:
            raise InvalidInputError("consistency compares random propagations: set node_dropout above 0")
        if not 0 < self.certain < 1:
            raise InvalidInputError(f"certain must be above 0 and below 1, not {self.certain!r}")

    def network(self, problem: NodeProblem) -> _Network:
        return _Network(problem, self)

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        if self.neighbours:
            similar = feature_graph(problem, self.neighbours).weights
            problem = replace(problem, graph=Graph.of(sp.csr_array(problem.graph.weights + self.fusion * similar)))
        torch.manual_seed(seed)
        outcome = train(self.network(problem), problem, self.training)
        for _ in range(self.rounds):
            labelled = self_labelled(outcome.scores, problem, self.certain)
            after = train(self.network(labelled), labelled, self.training)
            outcome = Outcome(after.scores, outcome.epochs + after.epochs, outcome.seconds + after.seconds)
        return replace(outcome, scores=corrected(outcome.scores, problem)) if self.shares else outcome


class _Network(ResolventNetwork):
    def __init__(self, problem: NodeProblem, settings: AdditionsCOIN) -> None:
        super().__init__(problem, settings)
        self.asked: Tensor | None = None
        self.consistency, self.reuse = settings.consistency, settings.reuse
        self.train_nodes = problem.train
        self.truth = torch.nn.functional.one_hot(problem.labels[problem.train], problem.n_classes).float()
        if settings.consistency:
            unknown = torch.from_numpy(np.flatnonzero(problem.labels.numpy() < 0))
            self.asked = unknown[torch.randperm(len(unknown))[:_ASKED]]

    def forward(self) -> Tensor:
        u = self._told(self.base(), torch.ones(len(self.train_nodes), dtype=torch.bool))
        return scaled_log(torch.from_numpy(self._resolvent(u.detach().numpy())))

    def at(self, nodes: Tensor) -> Tensor:
        if not self.reuse:
            return super().at(nodes)
        told = torch.ones(len(self.train_nodes), dtype=torch.bool)
        if self.training:
            told = torch.rand(len(self.train_nodes)) < 0.5
        found = scaled_log(self._spread(self._dropped(self._told(self.base(), told)), nodes))
        # What was told is no loss: its log-probability counts as zero, that is as certain.
        return torch.where(told[:, None], 0.0, found) if self.training else found

    def penalty(self) -> Tensor | float:
        if self.asked is None:
            return 0.0
        draws = [self._spread(self._dropped(self.base()), self.asked) for _ in range(_DRAWS)]
        u = scaled_log(torch.stack(draws)).exp()
        sharp = u.detach().mean(0) ** 2
        sharp = sharp / sharp.sum(-1, keepdim=True)
        return self.consistency * (u - sharp).square().sum(-1).mean()

    def _told(self, u: Tensor, told: Tensor) -> Tensor:
        """What the diffusion starts from, with the labels of some training nodes in place of the base's answer."""
        return u.index_copy(0, self.train_nodes[told], self.truth[told]) if self.reuse else u


def self_labelled(scores: Tensor, problem: NodeProblem, certain: float) -> NodeProblem:
    """The problem with nodes labelled by what is predicted for them, where calibrated probabilities are certain."""
    held_out = problem.validation.numpy()
    values = scores.exp().double().numpy()
    truth = problem.labels.numpy()[held_out]
    found = apply_temperature(values, fit_temperature(values[held_out], truth, np.ones(len(truth))))
    labels, confidence, answers = problem.labels.numpy().copy(), found.max(1), found.argmax(1)
    open_nodes = (labels < 0) & (confidence >= certain)
    counts = np.bincount(answers[open_nodes], minlength=problem.n_classes)
    most = min(counts.min(), 10 * len(problem.train) // problem.n_classes)
    added = []
    for label in range(problem.n_classes):
        members = np.flatnonzero(open_nodes & (answers == label))
        added.append(members[np.argsort(-confidence[members], kind="stable")[:most]])
    chosen = np.concatenate(added)
    labels[chosen] = answers[chosen]
    joined = torch.from_numpy(np.concatenate([problem.train.numpy(), chosen]))
    return replace(problem, labels=torch.from_numpy(labels), train=joined)


def feature_graph(problem: NodeProblem, neighbours: int) -> Graph:
    """Edges from every node to those whose features have the largest cosine with its own, in both directions."""
    scaled = of_length_one(problem.features)
    rows, columns = [], []
    for start in range(0, problem.n_nodes, _BLOCK):
        cosines = (scaled[start : start + _BLOCK] @ scaled.T).toarray()
        places = np.arange(len(cosines))
        cosines[places, start + places] = -1.0
        near = np.argpartition(-cosines, neighbours - 1, axis=1)[:, :neighbours]
        alike = np.take_along_axis(cosines, near, 1) > 0
        rows.append(np.repeat(start + places, alike.sum(1)))
        columns.append(near[alike])
    ends = np.concatenate(rows), np.concatenate(columns)
    joined = sp.csr_array((np.ones(len(ends[0])), ends), shape=(problem.n_nodes, problem.n_nodes))
    return Graph.of(sp.csr_array(joined.maximum(joined.T)))
