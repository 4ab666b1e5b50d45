"""What the classifier answers for points of its fit and for new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from tests.estimators.problems import FAST, blobs, hide, objects

from condiff import COINClassifier
from condiff.encoders.table import EncodedTable, TableEncoder
from condiff.readers.columns import as_columns

# ---- answers for the training points -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame], ids=["dense", "sparse", "frame"])
def test_training_rows_get_their_fitted_answer_in_any_order_and_subset(form: Any) -> None:
    X, _, labels = blobs(spread=4.0)
    X, labels = np.vstack([np.abs(X), np.abs(X[:7])]), np.append(labels, np.full(7, -1))
    columns = {"columns": list("wxyz")} if form is pd.DataFrame else {}
    model = COINClassifier(**FAST).fit(form(X, **columns), labels)
    np.testing.assert_array_equal(model.predict(form(X, **columns)), model.transduction_)
    probabilities = model.predict_proba(form(X, **columns))
    assert len(np.unique(probabilities.round(12), axis=0)) > 20  # the rows are told apart
    for rows in (np.random.default_rng(0).permutation(len(X)), np.arange(0, 97, 7), [3, 3, 3], [96]):
        np.testing.assert_array_equal(model.predict(form(X[rows], **columns)), model.transduction_[rows])
        np.testing.assert_array_equal(model.predict_proba(form(X[rows], **columns)), probabilities[rows])


def test_training_rows_among_new_ones_keep_their_answer() -> None:
    X, _, labels = blobs(spread=4.0)
    model = COINClassifier(**FAST).fit(X, labels)
    mixed = np.vstack([X[5] + 0.3, X[5], X[0] - 0.3, X[0]])
    np.testing.assert_array_equal(model.predict_proba(mixed)[[1, 3]], model.predict_proba(X[[5, 0]]))


def test_equal_rows_get_equal_answers_whatever_their_labels() -> None:
    X, _, labels = blobs()
    X[1] = X[0]
    labels[:2] = 0, 1  # they contradict each other
    model = COINClassifier(**FAST).fit(X, labels)
    assert model.transduction_[0] == model.transduction_[1]
    assert model.graph_.n_nodes == 89


def test_the_order_of_the_rows_does_not_matter() -> None:
    X, _, labels = blobs(spread=3.0)
    order = np.random.default_rng(1).permutation(len(X))
    one, two = COINClassifier().fit(X, labels), COINClassifier().fit(X[order], labels[order])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-4)


def test_probabilities_are_probabilities_and_predict_takes_the_largest() -> None:
    X, _, labels = blobs(spread=4.0)
    model = COINClassifier(**FAST).fit(X, objects(labels, ["x", "y", "z"], None))
    for rows in (X, X + 0.05):
        p = model.predict_proba(rows)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert p.min() >= 0
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(rows))


# ---- answers for new points ----------------------------------------------------------------------------------------


def test_new_points_are_answered_as_a_fit_with_them_would() -> None:
    X, y, _ = blobs(200)
    known, new = np.arange(160), np.arange(160, 200)
    labels = np.concatenate([hide(y[known], 4), np.full(40, -1)])
    inductive = COINClassifier(folds=0).fit(X[known], labels[known])
    transductive = COINClassifier(folds=0).fit(X, labels)
    assert (inductive.predict(X[new]) == y[new]).mean() > 0.95
    assert (inductive.predict(X[new]) == transductive.transduction_[new]).mean() > 0.95
    np.testing.assert_allclose(inductive.predict_proba(X[new]), transductive.predict_proba(X[new]), atol=0.15)


def test_a_point_close_to_a_training_point_is_answered_alike() -> None:
    X, _, labels = blobs(spread=2.0)
    model = COINClassifier(folds=0).fit(X, labels)
    near = model.predict_proba(X + 1e-6)
    assert np.abs(near - model.predict_proba(X)).mean() < 0.1


def test_new_points_do_not_see_each_other() -> None:
    X, _, labels = blobs(spread=3.0)
    model = COINClassifier(**FAST).fit(X, labels)
    new = X[:10] + 0.2
    together = model.predict_proba(new)
    alone = np.vstack([model.predict_proba(row[None]) for row in new])
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_diffusion_reaches_new_points() -> None:
    X, _, labels = blobs(spread=3.0)
    with_diffusion = COINClassifier(**FAST, layers=30).fit(X, labels)
    new = X[:10] + 0.2
    base = with_diffusion.base_outputs(new)
    assert np.abs(with_diffusion.predict_proba(new) - base).max() > 0.05


def test_sparse_and_dense_rows_are_answered_alike() -> None:
    X, _, labels = blobs()
    X = np.where(np.abs(X) < 1.5, 0.0, X)
    settings: dict[str, Any] = {"base": "residual", "metric": "euclidean", "scaling": "none", "folds": 0}
    dense = COINClassifier(**settings).fit(X, labels)
    sparse = COINClassifier(**settings).fit(sp.csr_array(X), labels)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-3)
    new = X[:20] + 0.1
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(new)), dense.predict_proba(new), atol=1e-3)
    # Either form is understood afterwards, in both models.
    np.testing.assert_array_equal(dense.predict_proba(sp.csc_array(X)), dense.predict_proba(X))
    np.testing.assert_array_equal(sparse.predict_proba(X), sparse.predict_proba(sp.csr_array(X)))


@pytest.mark.parametrize("there", [True, False], ids=["among the rows", "new"])
def test_an_empty_text_is_answered_as_the_rows_are_on_average(there: bool) -> None:
    words = [["card", "lost", "stolen", "bank"], ["rate", "exchange", "euro", "dollar"]]
    generator = np.random.default_rng(0)
    truth = (np.arange(60) < 40).astype(int)
    texts = [" ".join(generator.choice(words[code], 4)) + f" number{row}" for row, code in enumerate(truth)]
    table = {"text": texts + [""] * there}
    labels = [int(code) if row % 10 == 0 else None for row, code in enumerate(truth)] + [None] * there
    encoded = EncodedTable(as_columns(table), TableEncoder(embedding="tfidf", text=["text"]).fit(table))
    model = COINClassifier(**FAST).fit(encoded, labels)
    mean = model.record_.output.mean(axis=0)
    found = model.predict_proba({"text": ["", "a lost card"]})
    np.testing.assert_allclose(found[0], model.probabilities_of(mean[None])[0], atol=0.02)
    assert found[1, 0] > found[0, 0] + 0.2


def test_given_labels_stay_certain_where_answers_are_worth_nothing() -> None:
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(80, 3)), np.full(80, -1)
    y[:20] = generator.integers(0, 3, 20)  # nothing to learn: the temperature is high
    model = COINClassifier(base=LogisticRegression()).fit(X, y)
    assert model.temperature_ > 10
    np.testing.assert_array_equal(model.predict_proba(X)[:20], np.eye(3)[y[:20]])
    np.testing.assert_array_equal(model.predict(X, abstain=0.2)[:20], y[:20])
    assert model.predict_proba(X)[20:].max() < 0.9
