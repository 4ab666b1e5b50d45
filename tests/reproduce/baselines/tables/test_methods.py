"""What holds for every method for tables, and single ones against a small dense computation of their equation."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import CondiffError
from condiff.reproduce.baselines.tables import METHODS, REGISTRY
from condiff.reproduce.baselines.tables.linear import Discriminant
from condiff.reproduce.baselines.tables.method import TableMethod, TableProblem
from condiff.reproduce.baselines.tables.transductive import (
    LaplaceLearning,
    PoissonLearning,
    SpreadingNearest,
    neighbour_weights,
)


@cache
def made_up(task: str, per_class: int = 4) -> tuple[TableProblem, np.ndarray]:
    """Three clouds of forty rows with a column of noise, and the whole truth."""
    generator = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 40)
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    x = np.column_stack([corners[truth] + generator.normal(size=(120, 2)), generator.normal(size=120)])
    shown = np.concatenate([np.flatnonzero(truth == code)[:per_class] for code in range(3)])
    if task == "values":
        values = x[:, 0] + 0.5 * x[:, 1]
        given = np.full(120, np.nan)
        given[shown] = values[shown]
        return TableProblem(x, given, 0), values
    given = np.full(120, -1)
    given[shown] = truth[shown]
    return TableProblem(x, given, 3), truth


def kinds() -> list[tuple[str, str]]:
    return [(name, task) for name in METHODS for task in REGISTRY.get(name).tasks]


def need(name: str) -> None:
    if why := REGISTRY.get(name).missing():
        pytest.skip(f"{name}: {why}")


@pytest.mark.parametrize(("name", "task"), kinds())
def test_a_method_answers_for_every_row_better_than_chance_and_the_same_again(name: str, task: str) -> None:
    need(name)
    problem, truth = made_up(task)
    method = REGISTRY.get(name)()
    json.dumps(method.settings())
    outcome = method.solve(problem, 7)
    np.testing.assert_array_equal(method.solve(problem, 7).answers, outcome.answers)
    hidden = np.setdiff1d(np.arange(len(truth)), problem.known)
    if task == "values":
        assert np.mean((outcome.answers - truth)[hidden] ** 2) < 0.6 * truth[hidden].var()
    else:
        assert outcome.answers.shape == (120, 3) and (outcome.answers >= 0).all()
        np.testing.assert_allclose(outcome.answers.sum(axis=1), 1.0, atol=1e-4)
        assert (outcome.answers.argmax(axis=1) == truth)[hidden].mean() > 0.7
    assert outcome.seconds > 0


@pytest.mark.parametrize("name", [name for name, task in kinds() if task == "classes"])
def test_one_label_per_class_is_enough_to_answer(name: str) -> None:
    need(name)
    problem, _ = made_up("classes", per_class=1)
    assert REGISTRY.get(name)().solve(problem, 0).answers.shape == (120, 3)


def test_answers_that_are_no_numbers_are_an_error() -> None:
    class Broken(TableMethod):
        def answers(self, problem, seed):
            return np.full((len(problem.x), problem.n_classes), np.nan)

    with pytest.raises(CondiffError, match="Broken"):
        Broken().solve(made_up("classes")[0], 0)


def test_the_nearest_class_mean_answers_for_one_label_per_class() -> None:
    problem, _ = made_up("classes", per_class=1)
    means = problem.x[problem.known]
    nearest = ((problem.x[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(Discriminant().solve(problem, 0).answers.argmax(axis=1), nearest)


def test_laplace_learning_is_harmonic() -> None:
    problem, _ = made_up("classes")
    found = LaplaceLearning().solve(problem, 0).answers
    weights = neighbour_weights(problem.x, 10).toarray()
    free = np.setdiff1d(np.arange(120), problem.known)
    mean = weights @ found / weights.sum(axis=1, keepdims=True)
    reached = found.sum(axis=1) > 0.99  # its component has a label
    np.testing.assert_allclose(found[free][reached[free]], mean[free][reached[free]], atol=1e-6)
    np.testing.assert_array_equal(found[problem.known], np.eye(3)[problem.labels])


def test_poisson_learning_approaches_the_solution_of_its_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = made_up("classes")
    dense = np.exp(-0.1 * ((problem.x[:, None] - problem.x) ** 2).sum(axis=2))
    np.fill_diagonal(dense, 0.0)
    module = "condiff.reproduce.baselines.tables.transductive.neighbour_weights"
    monkeypatch.setattr(module, lambda x, neighbours: sp.csr_array(dense))
    degrees = dense.sum(axis=1)
    source = np.zeros((120, 3))
    source[problem.known] = np.eye(3)[problem.labels] - problem.shares
    exact = np.linalg.pinv(np.diag(degrees) - dense) @ source
    exact -= (degrees[:, None] * exact).sum(axis=0) / degrees.sum()
    found = np.log(PoissonLearning(stop=0.0).solve(problem, 0).answers)
    scaled = exact / exact.std()
    np.testing.assert_allclose(found - found.mean(1, keepdims=True), scaled - scaled.mean(1, keepdims=True), atol=1e-3)


def test_rows_that_no_label_reaches_get_the_share_of_the_labels() -> None:
    class Unreached(SpreadingNearest):
        def spread(self, problem):
            return np.zeros((len(problem.x), problem.n_classes))

    problem, _ = made_up("classes")
    np.testing.assert_allclose(Unreached().solve(problem, 0).answers, 1 / 3)


def test_weights_of_neighbours_are_symmetric_and_bounded() -> None:
    weights = neighbour_weights(made_up("classes")[0].x, 10).toarray()
    np.testing.assert_array_equal(weights, weights.T)
    assert weights.max() <= 1.0 and (weights > 0).sum(axis=1).min() >= 10


def test_a_changed_default_of_ours_makes_other_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = REGISTRY.get("COIN")
    before = kind().settings()
    monkeypatch.setattr(kind, "options", {"n_neighbors": 5})
    assert kind().settings() != before
    assert REGISTRY.get("COIN-base")().settings() != before
