"""The methods of scikit-learn: what they are fitted to, and how their answers are read."""

from __future__ import annotations

import numpy as np
import pytest

from condiff.reproduce.baselines.tabular import method
from condiff.reproduce.baselines.tabular.method import EstimatorMethod
from condiff.reproduce.baselines.tabular.problem import TabularProblem

NAMES = ["LR", "SVM", "Random forest", "AdaBoost", "GradientBoosting"]


def made(name: str) -> EstimatorMethod:
    found = method(name)()
    assert isinstance(found, EstimatorMethod)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_the_classifier(name: str, tiny_problem: TabularProblem) -> None:
    features = made(name).inputs(tiny_problem)
    model = made(name).estimator(4).fit(features[:10], np.arange(10) % 2)
    outcome = made(name).solve(tiny_problem, 4)
    answered = (outcome.scores >= outcome.threshold).numpy()
    # A forest that is undecided answers with class 0 there, and with class 1 here, as the paper counts a half.
    decided = outcome.scores.numpy() != np.float32(outcome.threshold)
    assert decided.mean() > 0.9
    np.testing.assert_array_equal(answered[decided], (model.predict(features) == 1)[decided])


@pytest.mark.parametrize("name", ["AdaBoost", "GradientBoosting"])
def test_trees_need_only_what_training_patients_have(name: str, tiny_problem: TabularProblem) -> None:
    assert made(name).inputs(tiny_problem) is tiny_problem.seen
    everything = made(name).estimator(0).fit(tiny_problem.features[:10], np.arange(10) % 2)
    dense = tiny_problem.features.toarray()
    assert set(np.flatnonzero(everything.feature_importances_)) <= set(np.flatnonzero(dense[:10].any(axis=0)))


def test_logistic_regression_sees_dense_rows(tiny_problem: TabularProblem) -> None:
    rows, answers = tiny_problem.seen, np.arange(10) % 2
    found, plain = made("LR").estimator(3).fit(rows[:10], answers), made("LR").estimator(3)[-1]
    plain.fit(rows[:10].toarray(), answers)
    np.testing.assert_array_equal(found.decision_function(rows), plain.decision_function(rows.toarray()))
    assert abs(plain.intercept_ - made("LR").estimator(3)[-1].fit(rows[:10], answers).intercept_) > 1e-3


def test_the_settings_of_pnets_authors() -> None:
    logistic, machine = made("LR").estimator(0)[-1], made("SVM").estimator(0)
    forest, boosting = made("Random forest").estimator(0), made("AdaBoost").estimator(0)
    assert (logistic.loss, logistic.penalty, logistic.alpha) == ("log_loss", "l2", 0.01)
    assert (machine.kernel, machine.C, machine.gamma) == ("rbf", 100.0, 0.001)
    assert (forest.n_estimators, forest.bootstrap, forest.max_depth) == (50, False, None)
    assert (boosting.n_estimators, boosting.learning_rate) == (50, 0.1)
    for weighted in (logistic, machine, forest):
        assert weighted.class_weight == {0: 0.75, 1: 1.5}
