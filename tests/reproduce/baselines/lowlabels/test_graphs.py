"""Methods for very few labels, on a graph of two clusters that a weak edge joins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from condiff.reproduce.baselines.lowlabels import METHODS, REGISTRY
from condiff.reproduce.baselines.lowlabels.graphs import Laplace, Poisson, distance_to_nearest
from condiff.reproduce.baselines.lowlabels.method import LowLabelProblem


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_three_clusters(problem: LowLabelProblem, name: str) -> None:
    method = REGISTRY.get(name)()
    outcome = method.solve(problem, 0)
    truth = np.repeat([0, 1, 2], problem.sizes)
    assert (outcome.answers == truth).mean() > 0.9
    if method.knows_sizes:
        assert np.bincount(outcome.answers).tolist() == problem.sizes.tolist()


TOGETHER = [name for name in METHODS if REGISTRY.get(name).at_once > 1]


@pytest.mark.parametrize("name", TOGETHER)
def test_draws_that_are_solved_together_get_what_each_would_by_itself(problem: LowLabelProblem, name: str) -> None:
    method = REGISTRY.get(name)()
    draws = [replace(problem, known=problem.known + shift) for shift in (0, 3, 11)]
    together = method.solve_batch(draws, [0, 1, 2])
    for number, draw in enumerate(draws):
        assert np.array_equal(together[number].answers, method.solve(draw, number).answers)


def test_laplace_learning_is_harmonic(problem: LowLabelProblem) -> None:
    found = Laplace(tolerance=1e-10).scores(problem)
    free = np.setdiff1d(np.arange(120), problem.known)
    mean = (problem.graph.weights @ found) / np.asarray(problem.graph.weights.sum(axis=1)).reshape(-1, 1)
    assert np.allclose(found[free], mean[free], atol=1e-6)
    assert np.allclose(found.sum(axis=1), 1, atol=1e-6)


def test_poisson_learning_solves_its_equation(problem: LowLabelProblem) -> None:
    found = Poisson(tolerance=1e-10).scores(problem)
    degree = np.asarray(problem.graph.weights.sum(axis=1)).reshape(-1, 1)
    sources = degree * found - problem.graph.weights @ found
    expected = np.zeros((120, 3))
    expected[problem.known] = np.eye(3) - 1 / 3
    assert np.allclose(sources, expected, atol=1e-4)


def test_exit_times_grow_by_one_step_at_a_time(problem: LowLabelProblem) -> None:
    _, times = Laplace(tolerance=1e-10).with_exit_times([problem])[0]
    free = np.setdiff1d(np.arange(120), problem.known)
    degree = np.asarray(problem.graph.weights.sum(axis=1)).reshape(-1, 1)
    assert np.array_equal(times[problem.known], np.zeros((3, 1))) and (times[free] > 0).all()
    assert np.allclose((degree * times - problem.graph.weights @ times)[free], 1, atol=1e-6)


def test_the_distance_to_the_nearest_label_is_that_of_all_pairs() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(5, 1, size=(2500, 7)).astype(np.float32)
    some = np.array([3, 700, 1023, 1024, 2499])
    expected = np.linalg.norm(points[:, None].astype(float) - points[some], axis=-1).min(axis=1)
    found = distance_to_nearest(points, some)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (found[some] == 0).all()
