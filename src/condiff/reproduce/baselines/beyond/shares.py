"""The paper's COIN, calibrated and corrected for how common the classes are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from condiff.reproduce.baselines.node.coin import COIN
from condiff.reproduce.baselines.node.method import Outcome
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.uncertainty.calibration import apply_temperature, fit_temperature
from condiff.uncertainty.shares import class_shares, with_shares

# Past a step-size limit an output may be below zero.
_TINY = 1e-12


@dataclass(frozen=True)
class SharesCOIN(COIN):
    """COIN with the paper's settings; its output is corrected by :func:`corrected`."""

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        outcome = super().solve(problem, seed)
        return replace(outcome, scores=corrected(outcome.scores.clamp_min(_TINY).log(), problem))


def corrected(scores: Tensor, problem: NodeProblem) -> Tensor:
    """Log-probabilities for nodes whose classes are not as even as the training nodes.

    One temperature is fitted to the validation nodes, whose mistakes then tell the classes' shares of all nodes; see
    :func:`~condiff.uncertainty.shares.class_shares`. Where the training nodes were not drawn evenly, they show the
    shares themselves, and nothing is changed.
    """
    counts = np.bincount(problem.labels[problem.train].numpy(), minlength=problem.n_classes)
    if len(np.unique(counts)) > 1:
        return scores
    held_out = problem.validation.numpy()
    truth, values = problem.labels.numpy()[held_out], scores.exp().double().numpy()
    temperature = fit_temperature(values[held_out], truth, np.ones(len(truth)))
    probabilities = apply_temperature(values, temperature)
    shares = class_shares(probabilities.argmax(1), held_out, truth, problem.n_classes)
    return torch.from_numpy(with_shares(probabilities, shares)).log().float()
