"""Functions of a graph's Laplacian: of few points by all modes, of more by the slow ones and a series."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.graph import nearest
from condiff.reproduce.baselines.lowlabels import spectrum
from condiff.reproduce.baselines.lowlabels.field import FieldGraph
from condiff.reproduce.baselines.lowlabels.graphs import LabelSpreading, Laplace, Poisson
from condiff.reproduce.baselines.lowlabels.method import LowLabelProblem
from condiff.reproduce.baselines.lowlabels.spectrum import Spectrum, inverse


def _problem(parts: int = 1) -> LowLabelProblem:
    """Three clusters in one part of a graph, or so many parts of their own, and two labels of each."""
    generator = np.random.default_rng(0)
    truth = np.arange(900) % 3
    points = (generator.normal(size=(900, 4)) + (1000 if parts == 3 else 1.5) * np.eye(3, 4)[truth]).astype(np.float32)
    found = nearest(points, 11)
    rows = np.repeat(np.arange(900), 10)
    near = sp.csr_array((np.ones(9000), (rows, found.indices[:, 1:].ravel())), shape=(900, 900))
    known = np.arange(6)
    graph = FieldGraph(sp.csr_array((near + near.T) / 2))
    return LowLabelProblem("clusters", points, graph, known, truth[known], np.bincount(truth))


@pytest.mark.parametrize("columns", [1, 70])
def test_a_function_of_the_laplacian_is_that_of_all_its_modes(columns: int) -> None:
    weights = _problem().graph._between_roots
    values, vectors = np.linalg.eigh(np.eye(900) - weights.toarray())
    right = np.random.default_rng(1).normal(size=(900, columns))
    found = Spectrum(weights)
    assert found.largest is not None and found.largest >= values[-1]
    assert np.allclose(found.values, values[: spectrum.SLOW], atol=1e-7)
    for function in (inverse, lambda x: 1 / (0.01 + x), lambda x: np.exp(-3 * x)):
        expected = vectors @ (function(values)[:, None] * (vectors.T @ right))
        assert np.abs(found.apply(function, right, 1e-6) - expected).max() < 1e-4 * np.abs(expected).max()


def test_a_rougher_tolerance_takes_a_shorter_series_and_is_rougher() -> None:
    found, right = Spectrum(_problem().graph._between_roots), np.random.default_rng(1).normal(size=(900, 3))
    exact = found.apply(inverse, right, 1e-7)
    errors = [np.abs(found.apply(inverse, right, each) - exact).max() for each in (1e-1, 1e-2, 1e-3)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0


@pytest.mark.parametrize("parts", [1, 3])
def test_equations_on_many_points_are_solved(parts: int) -> None:
    problem = _problem(parts)
    weights, free = problem.graph.weights, np.arange(6, 900)
    degree = np.asarray(weights.sum(axis=1)).reshape(-1, 1)
    harmonic = Laplace().scores(problem)
    assert np.allclose(harmonic[free], (weights @ harmonic / degree)[free], atol=1e-5)
    assert np.array_equal(harmonic[:6], problem.indicators)
    spread = LabelSpreading().scores(problem)
    given = np.zeros((900, 3))
    given[:6] = problem.indicators
    assert np.allclose(spread - 0.99 * problem.graph.normalised(spread), given, atol=1e-5)
    if parts == 1:
        pushed = Poisson().scores(problem)
        sources = np.zeros((900, 3))
        sources[:6] = problem.indicators - 1 / 3
        assert np.allclose(degree * pushed - weights @ pushed, sources, atol=1e-4)


def test_draws_that_are_solved_together_are_solved_as_each_by_itself() -> None:
    problem = _problem()
    other = LowLabelProblem("clusters", problem.points, problem.graph, np.arange(9, 15), problem.labels, problem.sizes)
    for method in (Laplace(), LabelSpreading(), Poisson()):
        alone = [method.scores(each) for each in (problem, other)]
        for one, both in zip(alone, method.scores_of([problem, other]), strict=True):
            assert np.allclose(one, both, atol=1e-6 * np.abs(one).max())
