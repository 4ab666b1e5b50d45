"""What the classifier takes as labels, and the weights of samples and classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.estimators.problems import FAST, blobs, hide, objects

from condiff import COINClassifier
from condiff.errors import InvalidInputError

# ---- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["a", "b", "c"], None),
        (["a", "b", "c"], float("nan")),
        (["a", "b", "c"], ""),
        (["a", "b", "c"], pd.NA),
        ([10, 20, 30], None),
        ([10, 20, 30], -1),
        ([1.0, 2.0, 3.0], float("nan")),
    ],
)
def test_however_a_label_is_left_out_the_fit_is_the_same(names: list[Any], missing: Any) -> None:
    X, y, labels = blobs()
    reference = COINClassifier(**FAST).fit(X, labels)
    model = COINClassifier(**FAST).fit(X, objects(labels, names, missing))
    assert model.classes_.tolist() == names
    assert model.transduction_.tolist() == [names[code] for code in reference.transduction_]
    np.testing.assert_array_equal(model.predict_proba(X), reference.predict_proba(X))
    assert (reference.transduction_ == y).mean() > 0.95


@pytest.mark.parametrize("dtype", ["category", "string", "object"])
def test_pandas_labels_and_frames_work(dtype: str) -> None:
    X, y, labels = blobs()
    frame = pd.DataFrame(X, columns=list("wxyz"))
    target = pd.Series([None if label < 0 else "abc"[label] for label in labels], dtype=dtype)
    model = COINClassifier(**FAST).fit(frame, target)
    assert model.feature_names_in_.tolist() == list("wxyz")
    assert (model.predict(frame) == np.array(list("abc"))[y]).mean() > 0.95


def test_float_labels_are_left_out_with_nan() -> None:
    X, y, labels = blobs()
    model = COINClassifier(**FAST).fit(X, np.where(labels < 0, np.nan, labels))
    assert (model.transduction_ == y).mean() > 0.95


def test_minus_one_and_one_are_two_classes() -> None:
    X, y, _ = blobs(centers=2)
    model = COINClassifier(**FAST).fit(X, np.where(y == 0, -1, 1))
    assert model.classes_.tolist() == [-1, 1]
    assert (model.transduction_ == np.where(y == 0, -1, 1)).mean() > 0.95


@pytest.mark.parametrize("with_missing", [False, True])
def test_truth_values_are_classes(with_missing: bool) -> None:
    X, y, labels = blobs(centers=2)
    target = objects(labels, [False, True], None) if with_missing else y.astype(bool)
    model = COINClassifier(**FAST).fit(X, target)
    assert model.transduction_.dtype == bool
    assert (model.transduction_ == y.astype(bool)).mean() > 0.95


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.where(np.arange(90) < 5, 0, -1), "only one class, '0'.*-1 marks points without a label"),
        (np.full(90, -1.5), "only one class|Unknown label type"),
        (np.full(90, np.nan), "every target is missing"),
        (np.array([1, "a", None] * 30, dtype=object), "mix numbers and text"),
        (None, "requires y"),
    ],
)
def test_targets_that_cannot_be_learnt_are_one_clear_error(target: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        COINClassifier(**FAST).fit(blobs()[0], target)


def test_a_class_that_is_there_but_once_is_learnt_too() -> None:
    X, y, _ = blobs()
    model = COINClassifier().fit(X, hide(y, 1))
    assert (model.transduction_ == y).mean() > 0.95


# ---- weights -------------------------------------------------------------------------------------------------------


def test_a_sample_weight_of_zero_is_an_absent_row() -> None:
    X, _, labels = blobs(spread=3.0)
    weights = np.ones(len(X))
    weights[::9] = 0
    weighted = COINClassifier(**FAST).fit(X, labels, sample_weight=weights)
    without = COINClassifier(**FAST).fit(X[weights > 0], labels[weights > 0])
    np.testing.assert_array_equal(weighted.predict_proba(X), without.predict_proba(X))
    np.testing.assert_array_equal(weighted.transduction_, without.predict(X))


def test_a_sample_weight_of_two_is_a_row_given_twice() -> None:
    X, _, labels = blobs(spread=3.0)
    weights = np.ones(len(X))
    doubled = np.flatnonzero(labels == 1)
    weights[doubled] = 2
    weighted = COINClassifier(**FAST).fit(X, labels, sample_weight=weights)
    repeated = COINClassifier(**FAST).fit(np.vstack([X, X[doubled]]), np.append(labels, labels[doubled]))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    plain = COINClassifier(**FAST).fit(X, labels)
    assert np.abs(plain.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize(("weight", "message"), [(0.0, "zero"), (-1.0, "[Nn]egative"), (np.nan, "NaN")])
def test_sample_weights_that_make_no_sense_are_refused(weight: float, message: str) -> None:
    X, _, labels = blobs()
    weights = np.full(len(X), weight)
    with pytest.raises(ValueError, match=message):
        COINClassifier(**FAST).fit(X, labels, sample_weight=weights)


def test_class_weights_pull_towards_their_class() -> None:
    X, _, labels = blobs(spread=6.0)
    plain = COINClassifier(**FAST).fit(X, labels).predict_proba(X)
    heavy = COINClassifier(**FAST, class_weight={0: 20.0}).fit(X, labels).predict_proba(X)
    assert heavy[:, 0].mean() > plain[:, 0].mean() + 0.02


def test_balanced_class_weights_are_the_inverse_frequencies() -> None:
    X, y, _ = blobs(spread=3.0)
    labels = np.where(y == 0, 0, hide(y, 2))
    counts = np.bincount(labels[labels >= 0])
    by_hand = {code: counts.sum() / (3 * count) for code, count in enumerate(counts)}
    balanced = COINClassifier(**FAST, class_weight="balanced").fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(
        balanced, COINClassifier(**FAST, class_weight=by_hand).fit(X, labels).predict_proba(X), atol=1e-5
    )
    plain = COINClassifier(**FAST).fit(X, labels).predict_proba(X)
    assert balanced[:, 0].mean() < plain[:, 0].mean() - 1e-3


def test_class_balance_keeps_the_mean_output_near_the_label_proportions() -> None:
    X, _, labels = blobs(spread=8.0, per_class=2)
    strays = {}
    for balance in (None, 0, 10.0):
        model = COINClassifier(base="residual", folds=0, class_balance=balance, calibration=None).fit(X, labels)
        strays[balance] = np.abs(model.predict_proba(X).mean(axis=0) - 1 / 3).max()
    assert strays[None] == strays[0]
    assert strays[10.0] < 0.5 * strays[None]
