"""The protocol that counts how often prediction sets hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.coverage.methods import CoverageProblem, SplitConformal
from condiff.reproduce.protocols import protocol
from condiff.reproduce.protocols.coverage import CoverageOptions, draw, load


def test_runs_of_classes_and_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    # A table with values that needs no further package.
    monkeypatch.setattr("condiff.reproduce.protocols.coverage.DATASETS", ("sk-wine", "reg-sk-diabetes"))
    found = protocol("coverage")
    jobs = found.jobs(
        CoverageOptions(datasets="sk-wine,reg-sk-diabetes", draws=1, labels=30, coverage=0.8, base="linear")
    )
    methods = [(job.case.dataset, job.name) for job in jobs]
    assert ("sk-wine", "per-class") in methods and ("reg-sk-diabetes", "per-class") not in methods
    runs = [job.run() for job in jobs]
    by_name = {(run.dataset, run.method): run.metrics for run in runs}
    assert by_name["sk-wine", "cross"]["coverage"] > 70 and 1 <= by_name["sk-wine", "cross"]["set_size"] <= 3
    assert by_name["reg-sk-diabetes", "cross"]["coverage"] > 50 and by_name["reg-sk-diabetes", "cross"]["width"] > 0
    assert by_name["sk-wine", "proved"]["coverage"] >= by_name["sk-wine", "cross"]["coverage"]
    rows = found.summarise(runs)
    assert list(found.pictures(jobs, runs, rows)) == ["coverage-linear.png", "classes-linear.png"]
    table = found.texts(runs)["classes.csv"].splitlines()
    assert table[0].startswith("dataset,base,method,class") and len(table) == 1 + 4 * 3


def test_draws_are_random_and_the_same_again() -> None:
    data = load("sk-wine")
    first, again, other = (draw("sk-wine", data, 30, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.train, again.train) and not np.array_equal(first.train, other.train)
    assert len(first.train) == 30 and not set(first.train) & set(first.test)


def test_split_conformal_sets_never_hold_a_class_without_labels() -> None:
    generator = np.random.default_rng(0)
    y = np.arange(60) % 2
    given = np.where(np.arange(60) < 24, y, -1)
    problem = CoverageProblem(generator.normal(size=(60, 2)) + 4 * y[:, None], given, 3, 0.8)
    sets = SplitConformal().solve(problem, 0).answers
    assert sets.shape == (60, 3) and not sets[:, 2].any() and sets.any(axis=1).all()


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'sk-wine'"):
        _ = CoverageOptions(datasets="sk-win").chosen
