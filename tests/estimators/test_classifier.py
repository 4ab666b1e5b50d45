"""Calibration, scikit-learn's conventions, randomness, and what the classifier is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from tests.estimators.problems import FAST, blobs, hide

from condiff import COINClassifier, load

# ---- calibration ---------------------------------------------------------------------------------------------------


def test_calibration_makes_heavily_decayed_outputs_honest() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    labels = hide(y[:600], 4)
    raw = COINClassifier(weight_decay=0.05, calibration=None).fit(X[:600], labels)
    calibrated = COINClassifier(weight_decay=0.05).fit(X[:600], labels)
    assert raw.temperature_ == 1.0
    before, after = raw.predict_proba(X[600:]), calibrated.predict_proba(X[600:])
    np.testing.assert_array_equal(before.argmax(axis=1), after.argmax(axis=1))
    assert log_loss(y[600:], after) < 0.8 * log_loss(y[600:], before)


def test_few_labels_are_not_calibrated_nor_scored() -> None:
    X, _, _ = blobs()
    labels = hide(blobs()[1], 3)
    model = COINClassifier().fit(X, labels)
    assert model.temperature_ == 1.0
    assert np.isnan(model.cv_score_)
    assert model.shrinkage_ == pytest.approx(1 / (1 + (labels >= 0).sum()))
    raw = COINClassifier(calibration=None).fit(X, labels)
    unsure = labels < 0
    equal = model.shrinkage_ / len(model.classes_)
    expected = (1 - model.shrinkage_) * raw.predict_proba(X)[unsure] + equal
    np.testing.assert_allclose(model.predict_proba(X)[unsure], expected, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X)[~unsure].max(axis=1), 1.0)


def test_the_held_out_score_is_an_accuracy() -> None:
    X, _, labels = blobs(per_class=8)
    assert COINClassifier().fit(X, labels).cv_score_ > 0.9
    shuffled = labels.copy()
    shuffled[labels >= 0] = np.random.default_rng(0).permutation(labels[labels >= 0])
    assert COINClassifier().fit(X, shuffled).cv_score_ < 0.75


# ---- scikit-learn --------------------------------------------------------------------------------------------------


def test_it_works_in_a_pipeline_and_under_cross_validation() -> None:
    X, y, labels = blobs()
    pipeline = make_pipeline(StandardScaler(), COINClassifier(**FAST)).fit(X, labels)
    assert (pipeline.predict(X) == y).mean() > 0.95
    assert cross_val_score(COINClassifier(**FAST), X, y, cv=3).mean() > 0.95


def test_it_works_under_a_grid_search() -> None:
    X, y, _ = blobs()
    search = GridSearchCV(COINClassifier(**FAST), {"n_neighbors": [4, 8], "layers": [2, "auto"]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.95
    assert set(search.best_params_) == {"n_neighbors", "layers"}


def test_a_clone_is_unfitted_and_fits_the_same() -> None:
    X, _, labels = blobs(spread=3.0)
    model = COINClassifier(**FAST, n_neighbors=5, class_weight="balanced").fit(X, labels)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")
    np.testing.assert_array_equal(copy.fit(X, labels).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "settings",
    [{"graph": "ring"}, {"n_neighbors": 1}, {"layers": -1}, {"strength": 0}, {"solver": "rk4"}, {"calibration": "x"}],
)
def test_parameters_out_of_range_are_named(settings: dict[str, Any]) -> None:
    X, _, labels = blobs()
    with pytest.raises(ValueError, match=f"'{next(iter(settings))}' parameter"):
        COINClassifier(**settings).fit(X, labels)


# ---- randomness ----------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_bytes_and_another_gives_others() -> None:
    X, _, labels = blobs(spread=3.0, per_class=5)
    settings: dict[str, Any] = {"epochs": 15, "n_inits": 2}
    first, again, other = (COINClassifier(**settings, random_state=s).fit(X, labels) for s in (3, 3, 4))
    assert first.predict_proba(X + 0.1).tobytes() == again.predict_proba(X + 0.1).tobytes()
    assert first.predict_proba(X).tobytes() == again.predict_proba(X).tobytes()
    assert first.predict_proba(X).tobytes() != other.predict_proba(X).tobytes()


def test_a_generator_as_random_state_moves_on() -> None:
    X, _, labels = blobs(spread=3.0)
    generator = np.random.RandomState(0)
    one, two = (COINClassifier(**FAST, random_state=generator).fit(X, labels).predict_proba(X) for _ in range(2))
    assert one.tobytes() != two.tobytes()


def test_the_fit_leaves_global_randomness_and_threads_alone() -> None:
    X, _, labels = blobs(per_class=5)
    torch.manual_seed(12345)  # a state that no fit would leave behind
    torch_before, threads = torch.get_rng_state(), torch.get_num_threads()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
    COINClassifier(epochs=5).fit(X, labels).predict_proba(X + 0.1)
    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert torch.get_num_threads() == threads


def test_verbose_tells_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    X, _, labels = blobs()
    COINClassifier(**FAST).fit(X, labels)
    assert capsys.readouterr().out == ""
    COINClassifier(**FAST, verbose=True).fit(X, labels)
    assert "epoch 10: loss" in capsys.readouterr().out


# ---- what it is for ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_label_a_class_of_digits_beats_label_spreading() -> None:
    X, y = load_digits(return_X_y=True)
    gains, accuracies = [], []
    for draw in range(3):
        labels = hide(y, 1, seed=draw)
        hidden = labels < 0
        spreading = LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.99, max_iter=100)
        coin = (COINClassifier(folds=0).fit(X, labels).transduction_ == y)[hidden].mean()
        gains.append(coin - (spreading.fit(X, labels).transduction_ == y)[hidden].mean())
        accuracies.append(coin)
    assert np.mean(gains) > 0.02
    assert np.mean(accuracies) > 0.8


def test_a_data_frame_with_text_dates_and_gaps_is_fitted_saved_and_predicted(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    kind = np.repeat([0, 1], 40)
    table = pd.DataFrame(
        {
            "size": np.where(generator.random(80) < 0.1, np.nan, generator.normal(3.0 * kind, 1.0)),
            "colour": np.where(kind == 1, "red", "blue"),
            "seen": pd.date_range("2024-01-01", periods=80),
        }
    )
    labels = np.full(80, None, dtype=object)
    labels[[0, 10, 20, 50, 60, 70]] = ["cat"] * 3 + ["dog"] * 3
    model = COINClassifier(epochs=20, n_inits=1).fit(table, labels)
    assert model.feature_names_in_.tolist() == ["size", "colour", "seen"]
    assert (model.transduction_ == np.where(kind == 1, "dog", "cat")).mean() > 0.9
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    new = pd.DataFrame(
        {"size": [3.1, None], "colour": ["red", "green"], "seen": pd.to_datetime(["2024-03-01", "2024-01-05"])}
    )
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    np.testing.assert_array_equal(again.predict(table), model.transduction_)
