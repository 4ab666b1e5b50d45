"""Several answers to one problem in one, weighted by how likely each makes the validation labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.uncertainty.calibration import apply_temperature, fit_temperature

# No answer counts as less likely than this: one confident mistake must not exclude a candidate.
_TINY = 1e-12


def mixed(candidates: Sequence[Tensor], problem: NodeProblem, trust: float = 1.0) -> Tensor:
    r"""The log of several candidates' probabilities, each calibrated, weighted by the validation labels' likelihood.

    With equal trust in all candidates before, Bayes' rule weights candidate :math:`k` with
    :math:`\prod_i p_k(y_i \mid x_i)` over the validation nodes. Where these say little the candidates are averaged,
    and where they say enough the best is taken.

    Parameters
    ----------
    candidates
        (nodes, classes) log-probabilities of each.
    problem
        Whose validation nodes decide.
    trust
        The power of the likelihood: as how much of a node a validation node counts.
    """
    nodes = problem.validation.numpy()
    truth = problem.labels.numpy()[nodes]
    answers, fits = [], []
    for scores in candidates:
        values = scores.exp().double().numpy()
        calibrated = apply_temperature(values, fit_temperature(values[nodes], truth, np.ones(len(truth))))
        answers.append(calibrated)
        fits.append(trust * float(np.log(np.maximum(calibrated[nodes, truth], _TINY)).sum()))
    weights = np.exp(np.array(fits) - max(fits))
    weights /= weights.sum()
    mixture = sum(weight * answer for weight, answer in zip(weights, answers, strict=True))
    return torch.from_numpy(np.asarray(mixture)).log().float()
