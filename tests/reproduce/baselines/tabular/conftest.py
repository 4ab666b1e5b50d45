from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.reproduce.baselines.tabular.problem import TabularProblem

GENES, KINDS, PATIENTS = 12, 3, 60


@pytest.fixture
def tiny_problem() -> TabularProblem:
    """Sixty patients and twelve genes; those of class 1 have the first two genes altered more often."""
    generator = np.random.default_rng(0)
    classes = np.arange(PATIENTS) % 2
    chance = np.full((PATIENTS, GENES * KINDS), 0.1)
    chance[classes == 1, : 2 * KINDS] = 0.8
    features = (generator.random((PATIENTS, GENES * KINDS)) < chance).astype(float)
    features[40] = 0.0  # nothing was found
    train, validation, test = (np.arange(start, stop) for start, stop in ((0, 10), (10, 20), (20, PATIENTS)))
    labels = np.where(np.arange(PATIENTS) < 20, classes, -1)
    sizes = (GENES, 6, 5, 4, 3, 2)
    pathways = [sp.csr_array((generator.random(pair) < 0.5).astype(float)) for pair in pairwise(sizes)]
    return TabularProblem(
        "tiny",
        sp.csr_array(features),
        KINDS,
        torch.from_numpy(labels),
        *(torch.from_numpy(part) for part in (train, validation, test)),
        tuple(pathways),
    )
