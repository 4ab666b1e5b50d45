r"""P-NET: a network whose layers are the Reactome pathways (Elmarakeby et al., Nature 2021)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.tabular.method import Outcome, TabularMethod
from condiff.reproduce.baselines.tabular.pathway_network import Inputs, PathwayNetwork
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.training import Training
from condiff.training.optimiser import Optimiser

if TYPE_CHECKING:
    import scipy.sparse as sp

# The learning rate falls to a quarter with the 50th, 100th, ... epoch.
_TRAINING = Training(
    "adam", 0.001, weight_decay=0.0, epochs=300, milestones=(49, 99, 149, 199, 249, 299), decay=0.25, patience=None
)


@dataclass(frozen=True)
class PNet(TabularMethod):
    r"""Genes, then layers of ever more general pathways, each joined to its members alone; every layer has a say.

    .. math::
        h_0 = \tanh(b_0 + \textstyle\sum_k w_{gk} x_{gk}), \qquad h_l = \tanh(W_l^T h_{l-1} + b_l), \qquad
        p = \frac{1}{L + 1} \sum_l \sigma(v_l \cdot h_l + c_l)

    with :math:`W_l` sparse as the pathways are. The settings are those of the authors' code: dropout 0.5 of the genes
    and 0.1 of each layer of pathways, after the head has read it; the loss is the heads' binary cross-entropy with
    balanced classes, weighted by layer; squared weights cost 0.001 in the layers, 0.01 in the heads and 0.005 in the
    first of them; Adam 0.001, a quarter of it after every fifty epochs, for 300 epochs in batches of 50, which twenty
    patients do not fill. On the prostate data it has 71,009 parameters.

    Parameters
    ----------
    loss_weights
        What each head's loss counts, from the genes up.
    gene_dropout, pathway_dropout
        Probabilities with which outputs of the layers are dropped in training.
    layer_penalty, head_penalty
        What a squared weight costs; the first head's weights cost half of that.
    batch
        Patients of a step.
    with_validation
        Whether to learn from the validation patients too, which no other method does: this comes near the paper's
        values, while twenty patients are too few for it.
    best_f1
        Whether patients count as class 1 from the threshold on that gives the training patients the best F1 score, the
        lowest of 0.1, 0.11, ..., 0.89, as for the authors; else from 0.5 on.
    training
        Optimiser and schedule.
    """

    loss_weights: tuple[float, ...] = (2.0, 7.0, 20.0, 54.0, 148.0, 400.0)
    gene_dropout: float = 0.5
    pathway_dropout: float = 0.1
    layer_penalty: float = 0.001
    head_penalty: float = 0.01
    batch: int = 50
    with_validation: bool = False
    best_f1: bool = True
    training: Training = _TRAINING

    def __post_init__(self) -> None:
        check_counts(batch=self.batch)
        check_probabilities(gene_dropout=self.gene_dropout, pathway_dropout=self.pathway_dropout)

    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        if len(problem.pathways) + 1 != len(self.loss_weights):
            raise InvalidInputError(
                f"P-NET has {len(self.loss_weights)} weights for the losses of genes and pathways, but there are "
                f"{len(problem.pathways)} layers of pathways: give one weight for the genes and one for each layer"
            )
        patients = torch.cat([problem.train, problem.validation]) if self.with_validation else problem.train
        features, labels = problem.features[patients.numpy()], problem.labels[patients].float()
        torch.manual_seed(seed)
        network = PathwayNetwork(problem.n_genes, problem.kinds, problem.pathways)
        started = time.perf_counter()
        self._train(network, features, labels)
        seconds = time.perf_counter() - started
        threshold = best_f1_threshold(network.scores(Inputs.of(features)), labels) if self.best_f1 else 0.5
        return Outcome(network.scores(Inputs.of(problem.features)), self.training.epochs, seconds, threshold)

    def _train(self, network: PathwayNetwork, features: sp.csr_array, labels: Tensor) -> None:
        weights = torch.tensor(self.loss_weights)
        # Each class as a whole counts the same.
        balance = 0.5 * len(labels) / torch.where(labels > 0, labels.sum(), (1 - labels).sum())
        batches = math.ceil(len(labels) / self.batch)
        optimisers = [self._optimiser(list(parameters), cost, batches) for parameters, cost in self._costs(network)]
        for _ in range(self.training.epochs):
            for part in torch.randperm(len(labels)).split(self.batch):
                heads = network(Inputs.of(features[part.numpy()]), self.gene_dropout, self.pathway_dropout)
                truth = labels[part].expand_as(heads)
                losses = nn.functional.binary_cross_entropy_with_logits(heads, truth, reduction="none")
                (weights @ losses @ balance[part] / len(part)).backward()
                for optimiser in optimisers:
                    optimiser.step()

    def _costs(self, network: PathwayNetwork) -> Iterator[tuple[Iterator[nn.Parameter], float]]:
        first, *others = network.heads
        yield iter(network.kernels), self.layer_penalty
        yield iter([first]), self.head_penalty / 2
        yield iter(others), self.head_penalty
        yield iter([*network.biases, network.head_biases]), 0.0

    def _optimiser(self, parameters: list[nn.Parameter], cost: float, batches: int) -> Optimiser:
        # The derivative of a squared weight is twice the weight; an optimiser counts steps, not epochs.
        milestones = tuple(milestone * batches for milestone in self.training.milestones)
        return Optimiser(parameters, replace(self.training, weight_decay=2 * cost, milestones=milestones))


def best_f1_threshold(scores: Tensor, labels: Tensor) -> float:
    """The lowest of 0.1, 0.11, ..., 0.89 above which counting patients as class 1 gives the best F1 score."""
    thresholds = np.arange(0.1, 0.9, 0.01)
    above = scores.numpy()[None, :] > thresholds[:, None]
    truth = labels.numpy() > 0
    right = (above & truth).sum(1)
    return float(thresholds[int(np.argmax(2 * right / (above.sum(1) + truth.sum())))])
