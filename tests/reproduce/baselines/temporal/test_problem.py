"""What a method is given, and the matrices made of the graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.temporal.conftest import LAGS, REGIONS, make_problem

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


def test_a_snapshot_looks_back_on_the_days_before_its_target(waves: TemporalProblem) -> None:
    assert waves.lagged.shape == (16, REGIONS, LAGS)
    np.testing.assert_array_equal(waves.lagged[3], waves.history[3 : 3 + LAGS].T)
    known = ~np.isnan(waves.history[3 : 3 + LAGS].T)
    inputs = waves.inputs[3].numpy()
    np.testing.assert_allclose(inputs[known], waves.lagged[3][known], rtol=1e-6)
    assert (inputs[~known] == 0).all()
    # The target of one snapshot is on the last day that the next one looks back on.
    np.testing.assert_array_equal(waves.targets[2], waves.lagged[3][:, -1])


def test_the_past_of_a_test_ends_the_day_before_it(waves: TemporalProblem) -> None:
    past = waves.past_of_tests
    assert [len(days) for days in past] == list(range(8 + LAGS, 16 + LAGS))
    np.testing.assert_array_equal(past[0][-1], waves.lagged[8][:, -1])


def test_training_snapshots_without_a_known_target_are_left_out(waves: TemporalProblem) -> None:
    # Day 6 has no value, and is the target of snapshot 2.
    assert waves.training.snapshots == [0, 1, 3, 4]
    assert waves.training.x.shape == (4, REGIONS, LAGS)
    torch.testing.assert_close(waves.training.propagation[2], waves.graphs.propagation[3])
    torch.testing.assert_close(waves.training.laplacian.weights[2], waves.graphs.laplacian.weights[3])
    torch.testing.assert_close(waves.training.walks[1][2], waves.graphs.walks[1][3])
    assert waves.testing.snapshots == list(range(8, 16))
    with pytest.raises(InvalidInputError, match="nothing to learn from"):
        _ = replace(waves, targets=np.full_like(waves.targets, np.nan)).training


def test_targets_of_test_snapshots_are_refused(waves: TemporalProblem) -> None:
    targets = waves.targets.copy()
    targets[-1, 0] = 1.0
    with pytest.raises(InvalidInputError, match="not for methods to see"):
        replace(waves, targets=targets)


@pytest.mark.parametrize("change", ["history", "graphs"])
def test_parts_that_do_not_fit_are_refused(waves: TemporalProblem, change: str) -> None:
    graphs = replace(waves.graphs, weights=waves.graphs.weights[1:])
    changed = {"history": waves.history[1:]} if change == "history" else {"graphs": graphs}
    with pytest.raises(InvalidInputError, match=r"need a history of \(19, 12\) and 16 graphs"):
        replace(waves, **changed)


@pytest.mark.parametrize("loops", [True, False])
def test_the_propagation_is_that_of_the_graph_convolution(loops: bool) -> None:
    graphs = make_problem(loops=loops).graphs
    for found, weights in zip(graphs.propagation, graphs.weights, strict=True):
        dense = weights.toarray()
        diagonal = dense.diagonal()
        dense += np.diag(np.where(diagonal == 0, 1.0, 0.0))
        degree = dense.sum(axis=0)
        expected = np.array(
            [[dense[j, i] / np.sqrt(degree[i] * degree[j]) for j in range(REGIONS)] for i in range(REGIONS)]
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("loops", [True, False])
def test_pytorch_geometric_propagates_alike(loops: bool) -> None:
    gcn_norm = pytest.importorskip("torch_geometric.nn.conv.gcn_conv").gcn_norm
    graphs = make_problem(loops=loops).graphs
    coordinates = graphs.weights[3].tocoo()
    index = torch.from_numpy(np.stack(coordinates.coords)).long()
    index, weight = gcn_norm(index, torch.from_numpy(coordinates.data).float(), REGIONS)
    expected = torch.zeros(REGIONS, REGIONS)
    expected[index[1], index[0]] = weight  # messages go from the first end to the second
    torch.testing.assert_close(graphs.propagation[3], expected)


def test_a_walk_leaves_nobody_behind(waves: TemporalProblem) -> None:
    forwards, backwards = waves.graphs.walks
    dense = waves.graphs.weights[4].toarray()
    joined = np.arange(REGIONS) != 5
    np.testing.assert_allclose(
        forwards[4].numpy()[joined], (dense / dense.sum(1, keepdims=True).clip(1e-9))[joined], rtol=1e-6
    )
    np.testing.assert_allclose(backwards[4].sum(1).numpy()[joined], 1.0, rtol=1e-6)
    assert not forwards[4][5].any() and not backwards[4][5].any()
