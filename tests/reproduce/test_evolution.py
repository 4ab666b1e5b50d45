from __future__ import annotations

import numpy as np
import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.evolution import PLANES, Evolution, evolve


@pytest.fixture(scope="module", params=PLANES)
def evolution(request: pytest.FixtureRequest) -> Evolution:
    return evolve(request.param)


def test_the_points_are_centred_with_labels_of_both_classes(evolution: Evolution) -> None:
    np.testing.assert_allclose(evolution.points.mean(axis=0), 0, atol=1e-12)
    assert evolution.points.var(axis=0).mean() == pytest.approx(1)
    assert np.bincount(evolution.truth[evolution.shown]).tolist() == [3, 3]


def test_each_time_is_better_than_the_one_before(evolution: Evolution) -> None:
    linear, convected, _ = evolution.stages(evolution.points)
    [diffused] = evolution.flow([evolution.layers])
    right = [((u > 0.5) == evolution.truth).mean() for u in (linear, convected, diffused)]
    assert right[0] < right[1] < right[2]
    assert right[2] > 0.97


def test_the_first_time_is_linear_in_its_logit(evolution: Evolution) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    linear = evolution.stages(x)[0]
    logit = np.log(linear / (1 - linear))
    design = np.column_stack([x, np.ones(50)])
    np.testing.assert_allclose(design @ np.linalg.lstsq(design, logit, rcond=None)[0], logit, atol=1e-9)


def test_the_flow_starts_at_the_network_and_ends_at_coin(evolution: Evolution) -> None:
    first, last = evolution.flow([0, evolution.layers])
    np.testing.assert_allclose(first, evolution.stages(evolution.points)[1], atol=1e-12)
    with torch.no_grad():
        u = evolution.model(torch.as_tensor(evolution.points), evolution.operator)[:, 1].numpy()
    np.testing.assert_allclose(last, u, atol=1e-12)
    assert first.mean() == pytest.approx(last.mean())  # heat is kept


def test_a_new_point_beside_a_node_answers_alike(evolution: Evolution) -> None:
    beside = evolution.stages(evolution.points[:40] + 1e-6)[2]
    [nodes] = evolution.flow([evolution.layers])
    assert np.abs(beside - nodes[:40]).max() < 0.1


def test_links_are_edges_once(evolution: Evolution) -> None:
    assert (evolution.links[:, 0] < evolution.links[:, 1]).all()
    assert len(np.unique(evolution.links, axis=0)) == len(evolution.links)
    assert evolution.links.max() < len(evolution.points)


def test_the_same_seed_gives_the_same_and_the_global_one_stays() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = evolve("two moons", seed=3), evolve("two moons", seed=3)
    assert torch.rand(1) == expected
    np.testing.assert_array_equal(first.flow([7]), second.flow([7]))


def test_an_unknown_plane() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'two moons'"):
        evolve("two moon")
