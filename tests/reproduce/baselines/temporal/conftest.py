from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs, TemporalProblem

LAGS, DAYS, REGIONS = 4, 20, 12


def make_problem(*, loops: bool = True, hidden: float = 0.4, seed: int = 0) -> TemporalProblem:
    """Twelve regions, directed graphs that change from day to day, region 5 without an edge, day 6 without a value."""
    random = np.random.default_rng(seed)
    values = np.sin(np.arange(DAYS)[:, None] / 3 + np.arange(REGIONS) / 4) + 0.1 * random.normal(size=(DAYS, REGIONS))
    values[random.random(values.shape) < hidden] = np.nan
    values[6] = np.nan
    snapshots = DAYS - LAGS
    graphs = []
    for _ in range(snapshots):
        weights = 5 * random.random((REGIONS, REGIONS)) * (random.random((REGIONS, REGIONS)) < 0.3)
        np.fill_diagonal(weights, 1 + random.random(REGIONS) if loops else 0.0)
        weights[5] = weights[:, 5] = 0.0
        graphs.append(sp.csr_array(weights))
    targets = values[LAGS:].copy()
    train, validation, test = slice(0, 5), slice(5, 8), slice(8, snapshots)
    targets[test] = np.nan
    return TemporalProblem("waves", values[:-1], targets, SnapshotGraphs(tuple(graphs)), LAGS, train, validation, test)


@pytest.fixture
def waves() -> TemporalProblem:
    return make_problem()
