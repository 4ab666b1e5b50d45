"""Prediction sets and intervals of fitted estimators."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from condiff import COINClassifier, COINRegressor, load
from condiff.errors import CoverageWarning, InvalidInputError
from condiff.estimators.coverage import promised


def _blobs(seed: int, n: int = 90, labels: int = 24) -> tuple[Any, Any, Any]:
    """Three overlapping classes, and a random draw of labels."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, n)
    X = generator.normal(size=(n, 2)) + 1.2 * np.array([[0, 0], [1, 1.5], [2, 0]])[y]
    given = np.full(n, -1)
    given[:labels] = y[:labels]
    return X, y, given


def _fast(**options: Any) -> COINClassifier:
    return COINClassifier(base=LogisticRegression(), layers=3, **options)


def test_sets_hold_the_true_class_as_often_as_promised() -> None:
    shares, sizes, proved = [], [], []
    for seed in range(30):
        X, y, given = _blobs(seed)
        model = _fast().fit(X, given)
        new = given < 0
        found = model.predict_set(X[new], 0.8)
        shares.append(found[np.arange(new.sum()), y[new]].mean())
        sizes.append(found.sum(axis=1).mean())
        sure = model.predict_set(X[new], 0.55, proved=True)
        proved.append(sure[np.arange(new.sum()), y[new]].mean())
    error = np.std(shares) / np.sqrt(len(shares))
    assert 0.8 - 3 * error < np.mean(shares) < 0.92
    assert np.mean(sizes) < 2.3 and np.mean(proved) > 0.55


def test_intervals_hold_the_true_value_as_often_as_promised() -> None:
    shares, wide = [], []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        X = generator.uniform(-2, 2, size=(100, 2))
        y = X[:, 0] + generator.normal(size=100) * 0.3
        given = np.where(np.arange(100) < 25, y, np.nan)
        model = COINRegressor(base=Ridge(), layers=3).fit(X, given)
        found = model.predict_interval(X[25:], 0.8)
        shares.append(((found[:, 0] <= y[25:]) & (y[25:] <= found[:, 1])).mean())
        wide.append(np.ptp(found[:, 1] - found[:, 0]))
    error = np.std(shares) / np.sqrt(len(shares))
    assert 0.8 - 3 * error < np.mean(shares) < 0.92
    assert min(wide) > 0  # wider in some places than in others


def test_a_labelled_row_has_a_set_of_its_label() -> None:
    X, _, given = _blobs(0)
    model = _fast().fit(X, given)
    found = model.predict_set(X[:24])
    assert (found.sum(axis=1) == 1).all() and (found.argmax(axis=1) == given[:24]).all()
    doubted = _fast(label_noise=True).fit(X, given).predict_set(X[:24])
    assert not (doubted == found).all()


def test_sets_contain_the_answer_and_grow_with_the_coverage() -> None:
    X, _, given = _blobs(1)
    model = _fast().fit(X, given)
    small, large = model.predict_set(X, 0.6), model.predict_set(X, 0.95)
    assert (large | ~small).all() and large.sum() > small.sum()
    answers = model.predict_proba(X).argmax(axis=1)
    assert small[np.arange(len(X)), answers].all()


def test_too_few_labels_are_said_and_give_what_they_can() -> None:
    X, _, given = _blobs(2)
    model = _fast().fit(X, given)
    with pytest.warns(CoverageWarning, match=r"24 labels can promise a coverage of 96\.0 % at most, not 99 %"):
        found = model.predict_set(X, 0.99)
    assert (found == model.predict_set(X, 24 / 25)).all()
    counts = np.bincount(given[given >= 0])
    fewest = int(counts.argmin())
    with pytest.warns(CoverageWarning, match=f"{counts[fewest]} labels of class {fewest} can promise"):
        model.predict_set(X, 0.95, per_class=True)


def test_a_class_with_one_label_is_never_ruled_out_for_good() -> None:
    X, _, given = _blobs(3)
    given[given == 2] = -1
    given[np.flatnonzero(given < 0)[0]] = 2
    model = _fast().fit(X, given)
    with pytest.warns(CoverageWarning, match="no label of class 2 could be held out"):
        found = model.predict_set(X[30:], 0.9, per_class=True)
    assert found[:, 2].all()


def test_nothing_is_promised_without_held_out_labels() -> None:
    X, _, given = _blobs(4)
    with pytest.raises(InvalidInputError, match="set folds to 2 or more"):
        _fast(folds=0).fit(X, given).predict_set(X)
    given[3:] = -1
    given[:3] = 0, 1, 2
    with pytest.raises(InvalidInputError, match="label two rows of a class"):
        _fast().fit(X, given).predict_set(X)
    with pytest.raises(InvalidInputError, match="or three values"):
        COINRegressor(base=Ridge(), layers=3).fit(
            X, np.where(given == 0, 1.0, np.where(given == 1, 2.0, np.nan))
        ).predict_interval(X)


@pytest.mark.parametrize("labels", [3, 5, 8])
def test_a_handful_of_labels_promise_less_and_give_that(labels: int) -> None:
    shares, sizes, promised = [], [], []
    for seed in range(40):
        X, y, given = _blobs(seed, labels=labels)
        counts = np.bincount(given[given >= 0], minlength=3)
        if counts.max() < 2 or (counts > 0).sum() < 2:
            continue  # nothing can be held out, or there is one class alone
        model = _fast().fit(X, given)
        assert np.isnan(model.cv_score_) and model.shrinkage_ > 0 and not model.label_issues()
        most = 1 - (1 + (counts == 1).sum()) / (labels + 1)
        with pytest.warns(CoverageWarning, match=f"can promise a coverage of {100 * most:.1f} % at most, not 90 %"):
            found = model.predict_set(X)
        # A class without a label is in no set: those are misses too.
        shares.append((found & (model.classes_ == y[:, None])).any(axis=1)[given < 0].mean())
        sizes.append(found[given < 0].sum(axis=1).mean())
        promised.append(most)
    misses = np.array(shares) - promised
    assert misses.mean() > -3 * misses.std() / np.sqrt(len(misses))
    assert 1 <= np.mean(sizes) < 2.5


@pytest.mark.parametrize("labels", [3, 5, 8])
def test_a_handful_of_values_promise_less_and_give_that(labels: int) -> None:
    shares = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        X = generator.uniform(-2, 2, size=(80, 2))
        y = X[:, 0] + generator.normal(size=80) * 0.3
        model = COINRegressor(base=Ridge(), layers=3).fit(X, np.where(np.arange(80) < labels, y, np.nan))
        assert np.isnan(model.cv_score_)
        most = 100 * labels / (labels + 1)
        with pytest.warns(CoverageWarning, match=f"{labels} labels can promise a coverage of {most:.1f} % at most"):
            found = model.predict_interval(X[labels:])
        shares.append(((found[:, 0] <= y[labels:]) & (y[labels:] <= found[:, 1])).mean())
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) > labels / (labels + 1) - 3 * error


@pytest.mark.parametrize("base", ["residual", "blend"])
def test_what_is_held_out_of_a_handful_changes_no_answer(base: str) -> None:
    X, _, given = _blobs(0, labels=6)
    with_folds, without = (COINClassifier(base=base, folds=folds).fit(X, given) for folds in (5, 0))
    assert np.array_equal(with_folds.predict_proba(X), without.predict_proba(X))
    values = np.where(given >= 0, X[:, 0], np.nan)
    with_folds, without = (COINRegressor(base=base, folds=folds).fit(X, values) for folds in (5, 0))
    assert np.array_equal(with_folds.predict(X), without.predict(X))


@pytest.mark.parametrize("base", ["residual", "blend"])
def test_new_rows_are_answered_and_a_loaded_model_answers_alike(base: str, tmp_path: Path) -> None:
    X, _, given = _blobs(5)
    model = COINClassifier(base=base).fit(X[:70], given[:70])
    again = load(model.save(tmp_path / "model"))
    assert (again.predict_set(X, 0.8) == model.predict_set(X, 0.8)).all()
    # A row that is nearly one of the graph's has nearly its set.
    near = model.predict_set(X[30:70] + 1e-9, 0.8)
    assert (near == model.predict_set(X[30:70], 0.8)).mean() > 0.9


def test_graphs_judge_by_neighbours_and_by_numbers() -> None:
    X, _, given = _blobs(6)
    near = np.linalg.norm(X[:, None] - X, axis=2) < 1.5
    model = COINClassifier().fit(X, given, adjacency=near.astype(float))
    assert (model.predict_set(X, 0.8) == model.answers_at(np.arange(len(X)), 0.8)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert model.predict_set(X + 1e-9, 0.8, adjacency=near.astype(float)).any(axis=1).all()


def test_values_of_several_outputs_and_with_long_tails() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 2))
    y = np.column_stack([np.exp(2 * X[:, 0]), X[:, 1]])
    given = np.where(np.arange(80)[:, None] < 30, y, np.nan)
    model = COINRegressor(base=Ridge()).fit(X, given)
    found = model.predict_interval(X)
    assert found.shape == (80, 2, 2) and (found[:, 0] > 0).all()
    inside = (found[..., 0] <= model.predict(X) + 1e-9) & (model.predict(X) <= found[..., 1] + 1e-9)
    assert inside.all()


def test_reliability_of_held_out_answers() -> None:
    X, _, given = _blobs(7)
    model = _fast().fit(X, given)
    assert sum(each.n for each in model.reliability()) == len(model.record_.held_out)
    classes = model.reliability(per_class=True)
    assert len(classes) == 3 and all(each.low <= each.right <= each.high for each in classes)


def _few_kinds(seed: int, rows: int = 240, labels: int = 60) -> tuple[Any, Any, Any]:
    """A table of 36 different rows that does not settle the class: equal rows have different ones."""
    generator = np.random.default_rng(seed)
    X = generator.integers(0, 6, size=(rows, 2)).astype(float)
    y = (generator.random(rows) < 0.15 + 0.07 * X.sum(axis=1)).astype(int)
    return X, y, np.where(np.arange(rows) < labels, y, -1)


def test_sets_of_rows_that_equal_labelled_ones_hold_their_own_class() -> None:
    shares = []
    for seed in range(20):
        X, y, given = _few_kinds(seed)
        found = _fast().fit(X, given).predict_set(X[60:], 0.9)
        shares.append(found[np.arange(180), y[60:]].mean())
    assert 0.87 < np.mean(shares) < 0.96


def test_intervals_are_of_values_and_not_of_the_means_of_equal_rows() -> None:
    shares = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        X = generator.integers(0, 3, size=(240, 2)).astype(float)
        y = X.sum(axis=1) + generator.normal(size=240)
        model = COINRegressor(base=Ridge(), layers=3).fit(X, np.where(np.arange(240) < 60, y, np.nan))
        low, high = model.predict_interval(X[60:], 0.9).T
        shares.append(((low <= y[60:]) & (y[60:] <= high)).mean())
    assert 0.86 < np.mean(shares) < 0.95


def test_a_label_of_several_equal_rows_counts_once_for_each_and_is_kept(tmp_path: Path) -> None:
    X, _, given = _few_kinds(0)
    model = COINClassifier(base="residual", n_inits=1, epochs=5).fit(X, given)
    decided = promised(model, 0.9)[0]
    assert (decided.n, decided.unseen) == (60, 0)
    found = model.predict_set(X, 0.9)
    assert found[np.arange(60), given[:60]].all()  # whatever else is in the set, a given label is
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_set(X, 0.9), found)
    chances = np.full((len(X), 2), np.nan)
    chances[:60] = np.eye(2)[given[:60]] * 0.6 + 0.2
    record = COINClassifier(base=LogisticRegression(), layers=3).fit(X, chances).record_
    assert record.label_targets is not None and record.label_targets.tolist() == given[:60].tolist()
