from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from condiff import COINClassifier, COINRegressor, load
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import write_sealed

FAST: dict[str, Any] = {"epochs": 10, "n_inits": 2}


def points() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(60, centers=2, n_features=4, cluster_std=3.0, random_state=0)
    return np.abs(X), np.where(np.arange(60) < 24, y, -1)


def named(labels: np.ndarray, names: list[Any]) -> np.ndarray:
    return np.array([None if label < 0 else names[label] for label in labels], dtype=object)


def same(model: Any, again: Any, rows: Any) -> None:
    """Bit for bit, on training rows and on new ones."""
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.transduction_, model.transduction_)
    assert np.asarray(again.transduction_).dtype == np.asarray(model.transduction_).dtype
    for asked in (rows, rows * 1.01):
        for method in ("predict", "predict_proba"):
            if hasattr(model, method):
                np.testing.assert_array_equal(getattr(again, method)(asked), getattr(model, method)(asked))


@pytest.mark.parametrize(
    "names",
    [["a", "b"], ["grün", "rot, hell"], [4, 7], [1.0, 2.0], [False, True]],
    ids=["text", "unicode", "whole", "float", "bool"],
)
def test_a_classifier_comes_back_bit_for_bit(tmp_path: Path, names: list[Any]) -> None:
    X, labels = points()
    model = COINClassifier(**FAST).fit(X, named(labels, names))
    assert model.save(tmp_path / "model") == tmp_path / "model"
    again = load(tmp_path / "model")
    assert again.classes_.tolist() == names
    assert again.classes_.dtype == model.classes_.dtype
    assert again.cv_score_ == model.cv_score_
    assert again.temperature_ == model.temperature_
    np.testing.assert_array_equal(again.unlabelled_component_, model.unlabelled_component_)
    assert again.certificate_ == model.certificate_
    same(model, again, X)


def test_array_labels_of_numpy_strings_come_back(tmp_path: Path) -> None:
    X, labels = points()
    model = COINClassifier(**FAST).fit(X, np.where(labels < 0, "", np.array(["no", "yes"])[labels]))
    model.save(tmp_path / "model")
    same(model, load(tmp_path / "model"), X)


@pytest.mark.parametrize(
    "settings",
    [
        {"class_weight": {0: 2.0, 1: 0.5}},
        {"class_weight": "balanced", "layers": 4, "strength": 0.2},
        {"solver": "implicit", "layers": 3, "strength": 0.5},
        {"random_state": None},
        {"random_state": np.int64(4)},
        {"width": 3, "scaling": "standard", "metric": "cosine"},
    ],
    ids=str,
)
def test_every_parameter_comes_back(tmp_path: Path, settings: dict[str, Any]) -> None:
    X, labels = points()
    model = COINClassifier(**FAST, **settings).fit(X, labels)
    model.save(tmp_path / "model")
    same(model, load(tmp_path / "model"), X)


def test_a_generator_as_random_state_comes_back_as_none(tmp_path: Path) -> None:
    X, labels = points()
    model = COINClassifier(**FAST, random_state=np.random.RandomState(0)).fit(X, labels)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.random_state is None
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_model_of_sparse_rows_comes_back(tmp_path: Path) -> None:
    X, labels = points()
    rows = sp.csr_array(np.where(X < 2, 0, X))
    model = COINClassifier(**FAST).fit(rows, labels)
    model.save(tmp_path / "model")
    same(model, load(tmp_path / "model"), rows)


@pytest.mark.parametrize("own", [True, False], ids=["adjacency", "X itself"])
def test_a_model_of_a_given_graph_comes_back(tmp_path: Path, own: bool) -> None:
    X, labels = points()
    ring = np.roll(np.eye(60), 1, axis=1) + np.roll(np.eye(60), -1, axis=1)
    model = COINClassifier(**FAST, graph="precomputed")
    rows = X if own else ring
    model.fit(rows, labels, adjacency=ring if own else None)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(
        again.predict_proba(rows[:5] + 1, adjacency=ring[:5]), model.predict_proba(rows[:5] + 1, adjacency=ring[:5])
    )


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_regressor_comes_back(tmp_path: Path, outputs: int) -> None:
    X, labels = points()
    y = np.where(labels < 0, np.nan, X[:, 0] * 3)
    model = COINRegressor(**FAST).fit(X, y if outputs == 1 else np.stack([y, -y], axis=1))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    same(model, again, X)
    assert again.cv_score_ == model.cv_score_


def test_feature_names_come_back_and_are_held_to(tmp_path: Path) -> None:
    X, labels = points()
    frame = pd.DataFrame(X, columns=["w", "x", "y", "z"])
    COINClassifier(**FAST).fit(frame, labels).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.feature_names_in_.tolist() == ["w", "x", "y", "z"]
    assert again.n_features_in_ == 4
    again.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["z", "y", "x", "w"]])


def test_metadata_travel_along_and_a_loaded_model_can_be_saved_again(tmp_path: Path) -> None:
    X, labels = points()
    model = COINClassifier(**FAST).fit(X, labels)
    model.save(tmp_path / "one", {"who": "me", "when": [2024, 5]})
    one = load(tmp_path / "one")
    assert one.metadata_ == {"who": "me", "when": [2024, 5]}
    one.save(tmp_path / "two")
    assert load(tmp_path / "two").metadata_ is None
    same(model, load(tmp_path / "two"), X)
    arrays = [(tmp_path / name / "arrays.safetensors").read_bytes() for name in ("one", "two")]
    assert arrays[0] == arrays[1]


def test_a_loaded_model_can_be_cloned_and_fitted_anew(tmp_path: Path) -> None:
    X, labels = points()
    model = COINClassifier(**FAST).fit(X, labels)
    model.save(tmp_path / "model")
    fitted = clone(load(tmp_path / "model")).fit(X, labels)
    np.testing.assert_array_equal(fitted.predict_proba(X), model.predict_proba(X))


def test_an_unfitted_model_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        COINClassifier().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_function_as_graph_cannot_be_saved(tmp_path: Path) -> None:
    X, labels = points()
    model = COINClassifier(**FAST, graph=lambda rows: np.ones((len(rows), len(rows)))).fit(X, labels)
    with pytest.raises(InvalidInputError, match="graph is a function cannot be saved"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_no_pickle_is_used_on_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = points()
    model = COINClassifier(**FAST).fit(X, labels)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a pickle was used")

    for name in ("load", "loads", "dump", "dumps", "Unpickler", "Pickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def resealed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "model.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    del content["checksum"]
    write_sealed(path, content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(kind="GradientBooster"), "holds a 'GradientBooster', which this version"),
        (lambda c: c["params"]["$dict"].update(colour="red"), "does not fit this version of condiff"),
        (lambda c: c["state"]["$dict"].pop("_domain"), "does not fit this version of condiff"),
        (lambda c: c["state"]["$dict"].pop("layers_"), "does not fit this version of condiff"),
        (lambda c: c["state"]["$dict"].update(models_=[]), "does not fit this version of condiff"),
        (lambda c: c["state"]["$dict"].update(_domain=3), "does not fit this version of condiff"),
    ],
)
def test_a_model_of_another_make_is_one_clear_error(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    X, labels = points()
    COINClassifier(**FAST).fit(X, labels).save(tmp_path / "model")
    resealed(tmp_path / "model", change)
    with pytest.raises(InvalidFileError, match=message):
        load(tmp_path / "model")


def test_a_folder_may_be_named_by_a_string(tmp_path: Path) -> None:
    X, labels = points()
    COINClassifier(**FAST).fit(X, labels).save(str(tmp_path / "model"))
    assert isinstance(load(str(tmp_path / "model")), COINClassifier)
