"""The engines of the estimators: the same answers, and a word on which one it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons

from condiff import COINClassifier, COINRegressor, load
from condiff.graph import neighbours
from condiff.training.engines import streamed

X, Y = make_moons(120, noise=0.08, random_state=0)
SETTINGS: dict[str, Any] = {"base": "residual", "epochs": 25, "n_inits": 2, "folds": 3}


def _labels(per_class: int) -> Any:
    labels = np.full(len(Y), -1)
    for value in (0, 1):
        labels[np.flatnonzero(value == Y)[:per_class]] = value
    return labels


@pytest.mark.parametrize("per_class", [2, 8])
def test_the_reference_gives_the_same_probabilities(per_class: int) -> None:
    # Both sides of one point twice, with different labels: items that share a node.
    points, labels = np.concatenate([X, X[:2]]), np.append(_labels(per_class), [1 - Y[0], Y[1]])
    fast = COINClassifier(**SETTINGS).fit(points, labels)
    plain = COINClassifier(engine="reference", **SETTINGS).fit(points, labels)
    assert (fast.layers_, fast.strength_) == (plain.layers_, plain.strength_)
    np.testing.assert_allclose(fast.predict_proba(points), plain.predict_proba(points), atol=1e-4)


def test_the_reference_gives_the_same_values() -> None:
    values = np.where(np.arange(len(X)) % 8 == 0, X[:, 0], np.nan)
    fast = COINRegressor(**SETTINGS).fit(X, values)
    plain = COINRegressor(engine="reference", **SETTINGS).fit(X, values)
    np.testing.assert_allclose(fast.predict(X), plain.predict(X), atol=1e-4)


@pytest.mark.parametrize(
    "engine, said", [("auto", "engine projected: the diffusion is fixed"), ("reference", "as asked")]
)
def test_verbose_says_which_engine_and_why(engine: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    COINClassifier(engine=engine, verbose=True, **SETTINGS).fit(X, _labels(2))
    assert said in capsys.readouterr().out


def test_streaming_gives_the_same_answers_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = COINClassifier(**SETTINGS).fit(X, _labels(8))
    values = np.where(np.arange(len(X)) % 8 == 0, X[:, 0], np.nan)
    usual_values = COINRegressor(**SETTINGS).fit(X, values)
    monkeypatch.setattr(streamed, "LARGEST_ROWS", 0)
    monkeypatch.setattr(streamed, "BATCH", 50)
    for share in (0.0, 1.0):  # by products, or with the rows held
        monkeypatch.setattr(streamed, "HELD_SHARE", share)
        if share:  # once with compiled loops, where numba is installed, and once by autograd
            monkeypatch.setattr(streamed, "available", lambda: False)
        large = COINClassifier(verbose=True, **SETTINGS).fit(X, _labels(8))
        assert "engine streamed: the diffusion's rows" in capsys.readouterr().out
        np.testing.assert_allclose(large.predict_proba(X), usual.predict_proba(X), atol=1e-4)
        assert large.cv_score_ == usual.cv_score_
        np.testing.assert_allclose(
            COINRegressor(**SETTINGS).fit(X, values).predict(X), usual_values.predict(X), atol=1e-4
        )


def test_single_precision_and_mapped_rows_are_fitted_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = X.astype(np.float32)
    np.save(tmp_path / "x.npy", single)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    plain = COINClassifier(**SETTINGS).fit(single, _labels(8))
    model = COINClassifier(verbose=True, **SETTINGS).fit(mapped, _labels(8))
    assert "graph of 120 points; neighbours are exact" in capsys.readouterr().out
    assert model._domain.points.dtype == np.float32
    np.testing.assert_array_equal(model.predict_proba(mapped), plain.predict_proba(single))
    # Rows are found again by their values, whatever their precision.
    np.testing.assert_array_equal(model.predict_proba(single.astype(np.float64)), plain.predict_proba(single))
    double = COINClassifier(**SETTINGS).fit(single.astype(np.float64), _labels(8))
    np.testing.assert_allclose(model.predict_proba(single), double.predict_proba(single), atol=1e-3)


def test_an_approximate_graph_tells_its_recall(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    monkeypatch.setattr(neighbours, "FAISS_FROM", 100)
    points, y = make_moons(900, noise=0.08, random_state=0)
    labels = np.where(np.arange(900) % 30 == 0, y, -1)
    model = COINClassifier(verbose=True, **SETTINGS).fit(points, labels)
    told = capsys.readouterr().out
    assert f"faiss found {100 * model._domain.recall:.1f} %" in told or "neighbours are exact" in told
    assert model._domain.recall > 0.9
    loaded = load(model.save(tmp_path / "model"))
    assert loaded._domain.recall == model._domain.recall
    np.testing.assert_array_equal(loaded.predict(points), model.predict(points))


def test_other_engines_are_refused() -> None:
    with pytest.raises(ValueError, match="engine"):
        COINClassifier(engine="gpu").fit(X, _labels(2))
