"""Ordinary tables: which tables, which labels, what a method may see, and how it is judged."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, r2_score

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.reproduce import protocol
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.baselines.tables import METHODS, REGISTRY
from condiff.reproduce.protocols import tables
from condiff.reproduce.runner import sweep
from condiff.reproduce.runs import Condition
from condiff.reproduce.store import Store

FIVE, TWENTY = Condition(labels=5, per_class=True), Condition(labels=20, per_class=False)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, tables.Encoded]:
    """Two tables with classes and one with values in place of the real ones."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 3))
    two, three = (x[:, 0] > 0).astype(int), np.digitize(x[:, 0], [-0.5, 0.5])
    found = {
        "py-two": tables.Encoded(x, two, 2, "a"),
        "py-three": tables.Encoded(x, three, 3, "b"),
        "reg-one": tables.Encoded(x, x[:, 0] * 2 + x[:, 1], 0, "c"),
    }
    names = {"classes": ["py-two", "py-three"], "values": ["reg-one"]}
    monkeypatch.setattr(tables, "load", found.__getitem__)
    monkeypatch.setattr(tables, "table_names", names.__getitem__)
    monkeypatch.setattr(tables, "distinct_tables", names.__getitem__)
    monkeypatch.setattr(tables, "half_of", lambda name: "unseen")
    monkeypatch.setattr(protocol, "_latest", None)
    return found


def options(**changes) -> tables.TablesOptions:
    return tables.TablesOptions(**{"method": "LR,1NN,Ridge", "draws": 2, "budget": "r20,5", **changes})


def test_labels_per_class_and_random_ones() -> None:
    target = np.repeat([0, 1, 2], [60, 30, 6])
    split = tables.draw_labels("py-x", target, 3, FIVE, 0)
    assert np.bincount(target[split.train]).tolist() == [5, 5, 4]  # two are left to test
    random = tables.draw_labels("py-x", target, 3, TWENTY, 0)
    assert len(random.train) == 20 and set(target[random.train]) == {0, 1, 2}
    for each in (split, random):
        np.testing.assert_array_equal(np.sort(np.concatenate([each.train, each.test])), np.arange(96))
    many = tables.draw_labels("py-x", np.tile(np.arange(26), 10), 26, TWENTY, 0)
    assert len(many.train) == 26  # every class is seen
    values = tables.draw_labels("reg-x", np.arange(30.0), 0, TWENTY, 0)
    assert len(values.train) == 15  # half is left to test


def test_a_draw_depends_on_table_budget_and_seed() -> None:
    target = np.repeat([0, 1], 50)
    draw = [tables.draw_labels(*where).hash for where in (
        ("py-x", target, 2, FIVE, 0), ("py-x", target, 2, FIVE, 0), ("py-x", target, 2, FIVE, 1),
        ("py-y", target, 2, FIVE, 0), ("py-x", target, 2, Condition(labels=5, per_class=False), 0),
    )]  # fmt: skip
    assert draw[0] == draw[1] and len(set(draw)) == 4


def test_a_method_sees_the_given_labels_alone(made_up) -> None:
    for name in made_up:
        split = tables.draw_labels(name, made_up[name].target, made_up[name].n_classes, TWENTY, 0)
        problem = tables.Tables().problem(protocol.Case(name, TWENTY), 0, split)
        np.testing.assert_array_equal(problem.known, split.train)
        np.testing.assert_array_equal(problem.labels, made_up[name].target[split.train])
        hidden = problem.given[split.test]
        assert (np.isnan(hidden) if name.startswith("reg") else hidden == -1).all()


def test_jobs_are_balanced_over_tables_draw_by_draw(made_up) -> None:
    jobs = tables.Tables().jobs(options())
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert {(job.case.dataset, job.name) for job in jobs if job.seed == 0} == {
        ("py-two", "LR"), ("py-two", "1NN"), ("py-three", "LR"), ("py-three", "1NN"), ("reg-one", "1NN"),
        ("reg-one", "Ridge"),
    }  # fmt: skip
    assert {dict(job.case.condition)["per_class"] for job in jobs if job.case.dataset == "reg-one"} == {False}
    # The same labels for all methods.
    assert len({(job.case.dataset, job.case.condition, job.seed) for job in jobs}) == len(
        {job.split.hash for job in jobs}
    )
    assert pickle.loads(pickle.dumps(jobs[0])).key == jobs[0].key


def test_runs_are_stored_and_summed_up_over_tables(made_up, tmp_path: Path) -> None:
    found = tables.Tables()
    jobs = found.jobs(options())
    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(1) as pool:
        list(sweep(jobs, store, pool, {}))
        runs = store.runs()
    rows = found.summarise(runs)
    assert {row.dataset for row in rows} == {"tables"}
    assert {found.section(row) for row in rows} == {
        "5 labels per class, unseen half, classification: 2 tables, 2 draws",
        "20 random labels, unseen half, classification: 2 tables, 2 draws",
        "20 random labels, unseen half, regression: 1 table, 2 draws",
    }
    [row] = [row for row in rows if row.method == "LR" and row.metric == "accuracy" and row.condition["per_class"]]
    own = [run.metrics["accuracy"] for run in runs if run.method == "LR" and run.condition == FIVE]
    assert (row.mean, row.runs, row.splits) == (pytest.approx(np.mean(own)), 4, 2)
    texts = found.texts(runs)
    assert "| LR |" in texts["comparison.md"] and json.loads(texts["comparison.json"])["pairs"] == []
    assert len(texts["by-table.csv"].splitlines()) == 1 + 2 * 2 * 2 + 2


def test_classes_are_judged_as_scikit_learn_does() -> None:
    generator = np.random.default_rng(0)
    truth, answers = generator.integers(3, size=400), generator.dirichlet(np.ones(3), 400)
    answers = np.maximum(answers, 0.01) / np.maximum(answers, 0.01).sum(axis=1, keepdims=True)
    found = tables.measured_classes(truth, answers)
    assert found["balanced_accuracy"] == pytest.approx(100 * balanced_accuracy_score(truth, answers.argmax(axis=1)))
    assert found["log_loss"] == pytest.approx(log_loss(truth, answers))
    sure = np.eye(3)[truth]
    assert tables.measured_classes(truth, sure)["calibration_error"] == pytest.approx(0.2, abs=0.01)  # clipped at 0.001
    wrong = tables.measured_classes(truth, np.eye(3)[(truth + 1) % 3])
    assert wrong["calibration_error"] > 99 and wrong["log_loss"] < 7


def test_values_are_judged_beside_constants() -> None:
    truth = np.array([0.0, 1.0, 2.0, 7.0])
    found = tables.measured_values(truth, np.array([0.0, 1.0, 3.0, 6.0]))
    assert found["r2"] == pytest.approx(r2_score(truth, [0.0, 1.0, 3.0, 6.0]))
    assert tables.measured_values(truth, np.full(4, 1.5))["relative_error"] == pytest.approx(1.0)
    absurd = tables.measured_values(truth, np.full(4, 1e3))
    assert absurd["r2"] == -1 and absurd["plain_r2"] < -1000


def test_hidden_truth_changes_the_judgement_alone(made_up) -> None:
    [job, *_] = tables.Tables().jobs(options())
    first, judged = job.solve().answers, job.run().metrics["accuracy"]
    made_up[job.case.dataset].target[job.split.test] = 0
    np.testing.assert_array_equal(job.solve().answers, first)
    assert tables.Tables().measure(job, Answers(first, 0.0))["accuracy"] != judged


def test_bad_options() -> None:
    with pytest.raises(InvalidInputError, match="--half must be one of unseen, chosen, all"):
        options(half="seen")
    with pytest.raises(InvalidInputError, match="--budget 'five' is neither"):
        options(budget="five")
    with pytest.raises(InvalidInputError, match=r"'sk-wines' is not among the tables .did you mean 'sk-wine'"):
        _ = options(tables="sk-wines").chosen_tables
    with pytest.raises(InvalidInputError, match="no table is left"):
        tables.Tables().cases(options(tables="reg-tips", target="classes"))


def test_methods_that_are_not_installed_are_left_out_or_refused(made_up, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever is installed where the test runs.
    for name in METHODS:
        why = "it needs its weights" if name == "TabPFN" else None
        monkeypatch.setattr(REGISTRY.get(name), "missing", classmethod(lambda cls, why=why: why))
    found = tables.Tables()
    assert found.notes(options(method="peers")) == ["TabPFN is left out: it needs its weights"]
    names = options(method="peers").chosen_methods
    assert "LDA" in names and "TabPFN" not in names and not any(name.startswith("COIN") for name in names)
    assert found.notes(options(method="LR")) == []
    with pytest.raises(MissingDependencyError, match="TabPFN cannot run: it needs its weights"):
        found.notes(options(method="LR,tabpfn"))


def test_a_method_with_limits_skips_tables_that_are_too_large(made_up) -> None:
    made_up["py-two"] = tables.Encoded(np.zeros((120, 101)), made_up["py-two"].target, 2, "d")
    jobs = tables.Tables().jobs(options(method="TabPFN,LR"))
    assert {job.case.dataset for job in jobs if job.name == "TabPFN"} == {"py-three"}
    assert {job.case.dataset for job in jobs if job.name == "LR"} == {"py-two", "py-three"}
