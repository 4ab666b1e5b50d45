from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import load_digits

from condiff.reproduce import demo
from condiff.reproduce.demo import Job, Run, draw_labels, jobs, run_all, run_job, summarise


@pytest.mark.parametrize("per_class", [1, 3])
def test_a_draw_shows_so_many_labels_of_every_class(per_class: int) -> None:
    y = load_digits(return_X_y=True)[1]
    labels = draw_labels(y, per_class, draw=4)
    shown = labels >= 0
    assert np.bincount(labels[shown]).tolist() == [per_class] * 10
    np.testing.assert_array_equal(labels[shown], y[shown])


def test_a_draw_is_the_same_by_its_number_and_another_by_another() -> None:
    y = load_digits(return_X_y=True)[1]
    np.testing.assert_array_equal(draw_labels(y, 2, 0), draw_labels(y, 2, 0))
    assert (draw_labels(y, 2, 0) != draw_labels(y, 2, 1)).any()


@pytest.mark.parametrize("draws", [2, 10])
def test_every_draw_is_a_job_of_the_table_and_some_are_of_the_picture(draws: int) -> None:
    found = jobs(draws)
    assert len(set(found)) == len(found)
    table = [job for job in found if not job.times]
    assert {(job.labels, job.draw) for job in table} == {
        (labels, draw) for labels in demo.LABELS_PER_CLASS for draw in range(draws)
    }
    assert any(job.times for job in found)


def test_a_job_of_the_table_measures_every_method() -> None:
    runs = run_job(Job(labels=5, draw=0, times=False))
    assert [run.method for run in runs] == list(demo.METHODS)
    assert all((run.labels, run.draw, run.time) == (5, 0, None) for run in runs)
    accuracy = {run.method: run.accuracy for run in runs}
    assert accuracy["COIN"] > 0.9
    assert accuracy["COIN"] > accuracy["network alone"] + 0.05
    assert all(0.5 < value <= 1 for value in accuracy.values())


def test_a_job_of_the_picture_measures_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "TIMES", (0.0, 1.0))
    nothing, chosen = run_job(Job(labels=1, draw=0, times=True))
    assert [(run.method, run.time) for run in (nothing, chosen)] == [("COIN", 0.0), ("COIN", 1.0)]
    assert chosen.accuracy > nothing.accuracy + 0.05
    monkeypatch.undo()
    [coin] = [run for run in run_job(Job(labels=1, draw=0, times=False)) if run.method == "COIN"]
    assert chosen.accuracy == pytest.approx(coin.accuracy, abs=0.01)


def test_runs_come_in_the_order_of_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(job: Job) -> list[Run]:
        return [Run("COIN", job.labels, job.draw, 1.0)]

    monkeypatch.setattr(demo, "run_job", pretend)
    with ThreadPoolExecutor(2) as pool:
        found = [(run.labels, run.draw) for [run] in run_all(pool, 3)]
    assert found == [(job.labels, job.draw) for job in jobs(3)]


def test_the_summary_is_mean_and_spread_over_draws_without_the_picture() -> None:
    runs = [
        Run(method, labels, draw, 0.5 + 0.1 * draw)
        for method in demo.METHODS
        for labels in demo.LABELS_PER_CLASS
        for draw in range(3)
    ]
    rows = summarise([*runs, Run("COIN", 1, 0, 0.0, time=0.1)])
    assert len(rows) == len(demo.METHODS) * len(demo.LABELS_PER_CLASS)
    for row in rows:
        assert row["mean"] == pytest.approx(60)
        assert row["std"] == pytest.approx(np.std([50, 60, 70]))
        assert row["runs"] == 3
        assert (row["task"], row["dataset"], row["metric"]) == ("demo", "digits", "accuracy")
