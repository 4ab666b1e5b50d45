"""Several labels for each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from condiff import COINClassifier, COINMultiLabelClassifier, load
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators.folders import load_state, save_state

FAST: dict[str, Any] = {"base": "blend", "random_state": 3}


def tagged() -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Four clusters that stand for the four combinations of two tags; some answers of each are known."""
    X, cluster = make_blobs([30] * 4, 2, cluster_std=0.5, random_state=1)
    truth = np.stack([cluster % 2, cluster // 2], axis=1)
    known = pd.DataFrame(truth.astype(float), columns=["odd", "large"])
    known.loc[np.arange(len(X)) % 3 > 0, "odd"] = np.nan
    known.loc[np.arange(len(X)) % 4 > 0, "large"] = -1
    return X, truth, known


def test_every_label_is_the_answer_of_a_classifier_of_its_own() -> None:
    X, truth, known = tagged()
    model = COINMultiLabelClassifier(COINClassifier(**FAST)).fit(X, known)
    assert (model.transduction_ == truth).mean() > 0.95
    assert model.classes_.tolist() == ["odd", "large"]
    new = X[:7] + 0.01
    for place, name in enumerate(known):
        alone = COINClassifier(**FAST).fit(X, known[name].fillna(-1).astype(int))
        np.testing.assert_array_equal(model.predict_proba(new)[:, place], alone.predict_proba(new)[:, 1])
        np.testing.assert_array_equal(model.predict(X)[:, place], alone.transduction_)
        assert model.cv_scores_[place] == alone.cv_score_


def test_a_saved_model_answers_as_before(tmp_path: Path) -> None:
    X, _, known = tagged()
    model = COINMultiLabelClassifier(COINClassifier(**FAST)).fit(X, known)
    model.save(tmp_path / "tags", "note")
    again = load(tmp_path / "tags")
    np.testing.assert_array_equal(again.predict_proba(X[:9] + 0.01), model.predict_proba(X[:9] + 0.01))
    assert again.heads_[0].get_params() == model.heads_[0].get_params()
    assert (again.metadata_, again.classes_.tolist()) == ("note", ["odd", "large"])
    content = load_state(tmp_path / "tags")
    content["state"]["heads_"][1]["state"]["layers_"] = 10**9
    save_state(tmp_path / "tags", content["kind"], content["params"], content["state"], None)
    with pytest.raises(InvalidFileError, match="layers_"):
        load(tmp_path / "tags")
    del content["state"]["heads_"][1]
    save_state(tmp_path / "tags", content["kind"], content["params"], content["state"], None)
    with pytest.raises(InvalidFileError, match="1 heads for 2 labels"):
        load(tmp_path / "tags")


def test_what_is_no_label_is_named() -> None:
    X, _, known = tagged()
    with pytest.raises(InvalidInputError, match="Y is 2 in row 5, column 1: give 1, 0, or -1 if unknown"):
        COINMultiLabelClassifier().fit(X, known.to_numpy() * 0 + np.where(np.arange(len(X)) == 5, [[0], [2]], 0).T)
    with pytest.raises(InvalidInputError, match="the label large needs at least one row with 1 and one with 0"):
        COINMultiLabelClassifier().fit(X, known.assign(large=1))
    with pytest.raises(InvalidInputError, match="Y has one column: for one label per row use COINClassifier"):
        COINMultiLabelClassifier().fit(X, known["large"])
