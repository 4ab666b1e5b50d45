from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular.label_spreading import LabelSpreading
from condiff.reproduce.baselines.tabular.patient_graph import patient_graph
from condiff.reproduce.baselines.tabular.problem import TabularProblem


@pytest.mark.parametrize("alpha", [0.3, 0.9])
def test_scores_are_the_limit_of_the_iteration(alpha: float, tiny_problem: TabularProblem) -> None:
    weights = patient_graph(tiny_problem, "jaccard", 10, 5, with_validation=True).weights.toarray()
    np.fill_diagonal(weights, 0)
    scale = np.maximum(weights.sum(1), 1e-12) ** -0.5
    spread = scale[:, None] * weights * scale
    known = np.zeros((60, 2))
    known[np.arange(10), np.arange(10) % 2] = 1
    found = known.copy()
    for _ in range(500):
        found = alpha * spread @ found + (1 - alpha) * known
    outcome = LabelSpreading(alpha=alpha).solve(tiny_problem, 0)
    reached = found.sum(1) > 0
    assert not reached[40]  # who has no alteration is like nobody
    np.testing.assert_array_equal(outcome.scores[~reached], 0.5)
    np.testing.assert_allclose(outcome.scores[reached], found[reached, 1] / found[reached].sum(1), rtol=1e-5)
    assert outcome.epochs == 0


def test_who_is_not_reached_gets_the_share_of_the_training_patients(tiny_problem: TabularProblem) -> None:
    # Two groups that share no alteration; only the first has labels, seven of class 0 and three of class 1.
    dense = np.zeros((60, 36))
    dense[:30, :5] = dense[30:, 20:25] = 1
    dense[np.arange(60), np.arange(60) % 5 + np.where(np.arange(60) < 30, 0, 20)] = 0
    labels = tiny_problem.labels.clone()
    labels[:7], labels[7:10] = 0, 1
    problem = replace(tiny_problem, features=type(tiny_problem.features)(dense), labels=labels)
    scores = LabelSpreading(n_neighbors=20).solve(problem, 0).scores.numpy()
    np.testing.assert_allclose(scores[30:], 0.3, rtol=1e-6)
    assert len(set(scores[:30].tolist())) > 1


@pytest.mark.parametrize("bad", [{"alpha": 1.0}, {"alpha": -0.1}, {"graph": "nearest"}])
def test_bad_settings(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        LabelSpreading(**bad)  # type: ignore[arg-type]
