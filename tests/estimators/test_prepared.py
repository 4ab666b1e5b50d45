"""Rows that are prepared once, for several fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

from condiff import COINClassifier, COINRegressor
from condiff.errors import InvalidInputError

FAST: dict[str, Any] = {"epochs": 5, "n_inits": 1}


def blobs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, truth = make_blobs([20, 20, 20], 3, random_state=0)
    given = np.full(len(X), -1)
    given[::7] = truth[::7]
    return X, truth, given


def table() -> pd.DataFrame:
    X, truth, _ = blobs()
    return pd.DataFrame({"a": X[:, 0], "kind": np.array(["x", "y", "z"])[truth], "b": X[:, 1]})


@pytest.mark.parametrize("rows", [blobs()[0], sp.csr_array(blobs()[0]), table()], ids=["dense", "sparse", "table"])
def test_a_fit_on_prepared_rows_is_the_fit_on_the_rows(rows: Any) -> None:
    given = blobs()[2]
    prepared = COINClassifier(**FAST).prepare(rows)
    assert len(prepared) == len(given)
    for labels in (given, np.where(given >= 0, (given + 1) % 3, -1)):
        own, lent = (COINClassifier(**FAST).fit(X, labels) for X in (rows, prepared))
        np.testing.assert_array_equal(own.predict_proba(rows), lent.predict_proba(rows))
        np.testing.assert_array_equal(lent.predict_proba(prepared), lent.predict_proba(rows))
        assert lent.n_features_in_ == own.n_features_in_
        assert str(lent.choice_) == str(own.choice_)


def test_values_and_a_given_graph() -> None:
    X, truth, _ = blobs()
    graph = (truth[:, None] == truth).astype(float) - np.eye(len(X))
    values = np.where(np.arange(len(X)) % 4 == 0, X[:, 0], np.nan)
    prepared = COINRegressor(**FAST).prepare(X, adjacency=graph)
    own = COINRegressor(**FAST).fit(X, values, adjacency=graph)
    np.testing.assert_array_equal(COINRegressor(**FAST).fit(prepared, values).transduction_, own.transduction_)
    with pytest.raises(InvalidInputError, match="prepared with their graph: leave out the adjacency"):
        COINRegressor(**FAST).fit(prepared, values, adjacency=graph)


def test_other_parameters_of_the_graph_need_other_rows() -> None:
    X, _, given = blobs()
    prepared = COINClassifier(**FAST).prepare(X)
    with pytest.raises(InvalidInputError, match="prepared with n_neighbors=12, not 5: prepare them again"):
        COINClassifier(n_neighbors=5, **FAST).fit(prepared, given)
    COINClassifier(layers=0, epochs=2).fit(prepared, given)


def test_names_of_an_earlier_fit_are_forgotten() -> None:
    X, _, given = blobs()
    model = COINClassifier(**FAST).fit(table(), given)
    model.fit(COINClassifier(**FAST).prepare(X), given)
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X).shape == given.shape


def test_labels_must_be_as_many_as_rows() -> None:
    with pytest.raises(ValueError, match="inconsistent"):
        COINClassifier(**FAST).fit(COINClassifier(**FAST).prepare(blobs()[0]), [0, 1])
