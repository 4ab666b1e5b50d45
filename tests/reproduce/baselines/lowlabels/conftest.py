from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.reproduce.baselines.lowlabels.field import FieldGraph
from condiff.reproduce.baselines.lowlabels.method import LowLabelProblem


@pytest.fixture
def problem() -> LowLabelProblem:
    """Three clusters, one label each."""
    generator = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [30, 40, 50])
    points = (generator.normal(size=(120, 3)) + 5 * np.eye(3)[truth]).astype(np.float32)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    weights = np.exp(-(distances**2) / 4) * (distances > 0)
    known = np.array([0, 30, 70])
    return LowLabelProblem("three", points, FieldGraph(sp.csr_array(weights)), known, truth[known], np.bincount(truth))
