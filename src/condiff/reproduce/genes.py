"""Which alterations matter most to a network fitted on all patients, by exact integrated gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.estimators.attribution import integrated_gradients
from condiff.model import COIN
from condiff.training import PROSTATE, Problem, Training, fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from condiff.reproduce.datasets.gene_table import GeneTable


@dataclass(frozen=True)
class Alteration:
    """The effect of one kind of alteration of a gene on the output.

    Parameters
    ----------
    gene, kind
        Which one.
    effect, spread
        What it adds to the output of a patient, on average over all patients; mean and standard deviation over the
        initialisations. Above zero it favours class 1.
    patients
        How many have it.
    """

    gene: str
    kind: str
    effect: float
    spread: float
    patients: int


def leading_alterations(
    table: GeneTable, number: int = 12, *, inits: int = 5, training: Training = PROSTATE
) -> list[Alteration]:
    """The alterations with the largest effects in networks that were fitted to every patient's label.

    The base network alone: with all patients labelled there is nothing for a diffusion to reach.

    Parameters
    ----------
    table
        The patients.
    number
        How many alterations to return, the largest effect first, whatever its sign.
    inits
        Networks to average, with the seeds 0, 1, ...
    training
        How they are fitted.
    """
    if number < 1 or inits < 1:
        raise InvalidInputError(f"there must be at least 1 alteration and 1 initialisation, not {number} and {inits}")
    networks = [_network(table, seed) for seed in range(inits)]
    problem = Problem(networks[0], table.features, None, table.labels, settings=training)
    fit([problem.replace(model=network) for network in networks])
    effects: NDArray[np.float64] = np.stack(
        [np.asarray(integrated_gradients(network, table.features).mean(axis=0)).ravel() for network in networks]
    )
    mean, spread = effects.mean(0), effects.std(0, ddof=1) if inits > 1 else np.zeros(effects.shape[1])
    counts = np.asarray(table.features.sum(axis=0)).ravel()
    kinds = len(table.kinds)
    return [
        Alteration(
            table.genes[column // kinds],
            table.kinds[column % kinds],
            float(mean[column]),
            float(spread[column]),
            int(counts[column]),
        )
        for column in np.argsort(-np.abs(mean), kind="stable")[:number]
    ]


def _network(table: GeneTable, seed: int) -> COIN:
    torch.manual_seed(seed)
    return COIN(GeneWise(len(table.genes), len(table.kinds)), Diffusion(0, 1.0), head="sigmoid")
