"""Models as folders: what comes back, what is refused, and that a write is whole or not at all."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from condiff import COINClassifier, COINRegressor, PanelForecaster, load
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators import folders
from condiff.estimators.folders import check_folder, load_state, save_state
from condiff.files import write_sealed

STATE: dict[str, Any] = {
    "none": None,
    "truth": True,
    "whole": 3,
    "tenth": 0.1,
    "nan": float("nan"),
    "infinite": float("-inf"),
    "text": "grün",
    "list": [1, [2.5, None], "x"],
    "dict": {"a": {"b": 1}},
    "by_number": {1: 0.5, 2: 2.0},
    "scalar": np.float32(0.25),
    "number": np.int64(7),
    "floats": np.linspace(0, 1, 6).reshape(2, 3),
    "single": np.arange(3, dtype=np.float32),
    "whole_numbers": np.arange(4),
    "truths": np.array([True, False]),
    "empty": np.zeros((0, 3)),
    "words": np.array(["a", "bcd"]),
    "objects": np.array(["a", None, 3], dtype=object),
    "sparse": sp.csr_array(np.array([[0.0, 1.5], [0.0, 0.0], [2.0, 0.0]])),
    "transposed": np.arange(6.0).reshape(2, 3).T,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_state(tmp_path / "model", "Thing", {"alpha": 0.5}, STATE, {"note": "hello"})


def resealed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit a description and make its checksum right again, as somebody with time on their hands could."""
    path = folder / "model.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    content["files"] = {"arrays.safetensors": hashlib.sha256((folder / "arrays.safetensors").read_bytes()).hexdigest()}
    del content["checksum"]
    write_sealed(path, content)


@pytest.mark.parametrize("name", list(STATE))
def test_every_kind_of_value_comes_back_as_it_was(folder: Path, name: str) -> None:
    found, expected = load_state(folder)["state"][name], STATE[name]
    if sp.issparse(expected):
        assert sp.issparse(found)
        np.testing.assert_array_equal(found.toarray(), expected.toarray())
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert type(found) is (expected.item().__class__ if isinstance(expected, np.generic) else type(expected))
        np.testing.assert_equal(found, expected)


def test_kind_parameters_and_metadata_come_back(folder: Path) -> None:
    content = load_state(folder)
    assert (content["kind"], content["params"], content["metadata"]) == ("Thing", {"alpha": 0.5}, {"note": "hello"})


@pytest.mark.parametrize("metadata", [{9: "a", 10: "b"}, {"b": [1, 2.5, None], "a": "ü"}, "text", None, [1]])
def test_metadata_are_any_json_value(tmp_path: Path, metadata: Any) -> None:
    save_state(tmp_path / "model", "Thing", {}, {}, metadata)
    assert load_state(tmp_path / "model")["metadata"] == json.loads(json.dumps(metadata))


@pytest.mark.parametrize("metadata", [{"x": float("nan")}, {1, 2}, {"x": np.zeros(2)}])
def test_metadata_that_are_not_json_are_refused_before_anything_is_written(tmp_path: Path, metadata: Any) -> None:
    with pytest.raises(InvalidInputError, match="not JSON"):
        save_state(tmp_path / "model", "Thing", {}, {}, metadata)
    assert list(tmp_path.iterdir()) == []


def test_only_json_and_safetensors_are_written(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["arrays.safetensors", "model.json"]


def test_saving_again_replaces_the_model(folder: Path) -> None:
    save_state(folder, "Thing", {}, {"new": 1}, None)
    assert load_state(folder)["state"] == {"new": 1}
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("value", [lambda: 0, {1, 2}, np.zeros(2, dtype=complex), object()])
def test_what_only_a_pickle_could_hold_is_refused_and_nothing_is_written(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be saved without a pickle"):
        save_state(tmp_path / "model", "Thing", {}, {"value": value}, None)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="exists and is not a condiff model"):
        save_state(tmp_path, "Thing", {}, {}, None)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="exists and is not a condiff model"):
        check_folder(tmp_path / "notes.txt")


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    save_state(tmp_path, "Thing", {}, {"x": 1}, None)
    assert load_state(tmp_path)["state"] == {"x": 1}


@pytest.mark.parametrize("failing", ["save_file", "write_sealed", "sha256"])
@pytest.mark.parametrize("replacing", [False, True])
def test_a_save_that_fails_in_the_middle_leaves_what_was_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: str, replacing: bool
) -> None:
    target = folder if replacing else folder.with_name("other")

    def fail(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders, failing, fail)
        with pytest.raises(OSError, match="no space left"):
            save_state(target, "Thing", {}, {"x": np.zeros(3)}, None)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    assert load_state(folder)["metadata"] == {"note": "hello"}


@pytest.mark.parametrize("name", ["arrays.safetensors", "model.json"])
def test_one_edited_byte_anywhere_is_noticed(folder: Path, name: str) -> None:
    path = folder / name
    original = path.read_bytes()
    for position in range(0, len(original), max(1, len(original) // 60)):
        if original[position : position + 1].isspace():
            continue  # the layout of JSON says nothing
        path.write_bytes(original[:position] + bytes([original[position] ^ 1]) + original[position + 1 :])
        with pytest.raises(InvalidFileError, match=name):
            load_state(folder)
    path.write_bytes(original)
    assert load_state(folder)["kind"] == "Thing"


@pytest.mark.parametrize("name", ["arrays.safetensors", "model.json"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_noticed(folder: Path, name: str, share: float) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(InvalidFileError, match=name):
        load_state(folder)


@pytest.mark.parametrize("name", ["arrays.safetensors", "model.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InvalidFileError, match=name):
        load_state(folder)


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="is not a condiff model"):
        load_state(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["[1, 2]", "{}", '{"format": "other-model", "schema": 1}', "null", "not json", ""])
def test_a_foreign_description_is_one_clear_error(folder: Path, text: str) -> None:
    (folder / "model.json").write_text(text)
    with pytest.raises(InvalidFileError, match=r"model\.json"):
        load_state(folder)


def test_a_newer_schema_is_named(folder: Path) -> None:
    resealed(folder, lambda content: content.update(schema=folders.SCHEMA + 1))
    with pytest.raises(InvalidFileError, match=f"schema {folders.SCHEMA + 1}, but this version of condiff reads"):
        load_state(folder)


def test_pickles_are_not_opened(folder: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    trap = pickle.dumps(Trap())
    (folder / "arrays.safetensors").write_bytes(trap)
    with pytest.raises(InvalidFileError, match="missing, truncated or changed"):
        load_state(folder)
    resealed(folder, lambda content: None)
    with pytest.raises(InvalidFileError, match="is not a file of arrays"):
        load_state(folder)
    (folder / "model.json").write_bytes(trap)
    with pytest.raises(InvalidFileError, match="damaged or not JSON"):
        load_state(folder)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "state",
    [
        {"$dict": {"a": {"$array": "state.nowhere", "shape": [2]}}},
        {"$dict": {"a": {"$array": "state.floats", "shape": [100]}}},
        {"$dict": {"a": {"$csr": "state.nowhere", "shape": [2, 2]}}},
        {"$dict": ["a"]},
        {"$pairs": 3},
        {"$float": "many"},
        {"other": 1},
    ],
)
def test_a_state_that_was_garbled_on_purpose_is_one_clear_error(folder: Path, state: Any) -> None:
    resealed(folder, lambda content: content.update(state=state))
    with pytest.raises(InvalidFileError, match="lacks or garbles"):
        load_state(folder)


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


@pytest.mark.parametrize("graph", ["leaves", "answers", {"knn": 1, "answers": 1}], ids=str)
def test_a_graph_of_fewer_points_than_neighbours_comes_back(tmp_path: Path, graph: Any) -> None:
    X, labels = points()
    model = COINClassifier(base="blend", graph=graph, layers=2, n_neighbors=20).fit(X[:14], labels[:14])
    model.save(tmp_path / "model")
    same(model, load(tmp_path / "model"), X[:14])


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
    model = COINClassifier(**FAST, graph="precomputed", layers=4)
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(kind="GradientBooster"), "holds a 'GradientBooster', which this version"),
        (lambda c: c["params"]["$dict"].update(colour="red"), "is not a model that this version"),
        (lambda c: c["params"]["$dict"].update(solver="magic"), "is not a model that this version"),
        (lambda c: c["state"]["$dict"].pop("_domain"), "_domain is missing"),
        (lambda c: c["state"]["$dict"].pop("layers_"), "layers_ is missing"),
        (lambda c: c["state"]["$dict"].update(layers_=10**9), r"layers_ is 1000000000, outside of 0 to 100000"),
        (lambda c: c["state"]["$dict"].update(layers_=True), "layers_ is True, not a whole number"),
        (lambda c: c["state"]["$dict"].update(strength_={"$float": "nan"}), "strength_ is nan, not finite"),
        (lambda c: c["state"]["$dict"].update(predict=3), "predict is not known"),
        (lambda c: c["state"]["$dict"].update(models_=[]), "do not go together"),
        (lambda c: c["state"]["$dict"].update(_domain=3), "_domain"),
        (lambda c: c["state"]["$dict"].update(n_features_in_=3), "n_features_in_ is 3, but there are 4 columns"),
        (lambda c: c["state"]["$dict"].update(temperature_="warm"), "temperature_ is 'warm', not a number"),
        (lambda c: c["state"]["$dict"].update(classes_={"$objects": ["a", "a"], "kind": "O"}), "names a class twice"),
        (lambda c: c["state"]["$dict"].update(classes_={"$objects": ["a", "\ud800"], "kind": "O"}), "half a character"),
        (lambda c: c.pop("metadata"), "lacks a part of the model"),
    ],
)
def test_a_model_of_another_make_is_one_clear_error(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    X, labels = points()
    COINClassifier(**FAST, base="residual").fit(X, labels).save(tmp_path / "model")
    resealed(tmp_path / "model", change)
    with pytest.raises(InvalidFileError, match=message):
        load(tmp_path / "model")


@pytest.fixture(scope="module")
def blended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, labels = points()
    return COINClassifier(base="blend", layers=4, epochs=5).fit(X, labels).save(tmp_path_factory.mktemp("b") / "model")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("_domain.weights.indices", lambda a: np.full_like(a, 10**6), "must be from 0 to 59"),
        ("_domain.weights.indptr", lambda a: a[::-1].copy(), "row pointers|lacks or garbles"),
        ("_domain.weights.data", lambda a: -a, "_domain.weights is -"),
        ("_domain.weights.data", lambda a: np.full_like(a, np.nan), "not finite"),
        ("_domain.weights.data", lambda a: np.arange(1.0, 1 + len(a)), "needs a symmetric graph"),
        ("_domain.points", lambda a: a.astype(np.int64), "_domain.points is int64"),
        ("_domain.features.scale", lambda a: np.zeros_like(a), "scale is 0.0, outside"),
        ("record_.nodes", lambda a: a + 60, "record_.nodes is .*, outside of 0 to 59"),
        ("record_.node_of_row", lambda a: a - 2, "record_.node_of_row is -2"),
        ("record_.targets", lambda a: a + 2, "record_.targets"),
        ("record_.held_out", lambda a: a.astype(np.int32), "record_.held_out is int32"),
        ("record_.output", lambda a: np.full_like(a, np.inf), "record_.output has values that are not finite"),
        ("base_.members.0.forest.feature", lambda a: np.where(a >= 0, 10**6, a).astype(a.dtype), "forest.feature"),
        ("base_.members.0.forest.left", lambda a: np.full_like(a, 10**6), "forest.left"),
        ("base_.members.0.forest.left", lambda a: np.zeros_like(a), "trees lead nowhere"),
        ("base_.members.0.forest.roots", lambda a: a.astype(np.int64), "roots is int64"),
        ("base_.members.0.forest.roots", lambda a: np.full_like(a, -1), "roots is -1"),
    ],
)
def test_arrays_with_a_right_checksum_and_wrong_content_are_refused_on_loading(
    blended: Path, tmp_path: Path, name: str, change: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    shutil.copytree(blended, tmp_path / "model")
    path = tmp_path / "model" / "arrays.safetensors"
    arrays = load_file(path)
    arrays[f"state.{name}"] = change(arrays[f"state.{name}"])
    save_file(arrays, path)
    resealed(tmp_path / "model", lambda content: None)
    with pytest.raises(InvalidFileError, match=message):
        load(tmp_path / "model")


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    X, labels = points()
    model = COINClassifier(**FAST, layers=2, strength=0.1).fit(X, labels)
    model.layers_ = 10**6
    with pytest.raises(InvalidInputError, match="this COINClassifier cannot be saved: layers_ is 1000000"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(
    blended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    shutil.copytree(blended, model)
    plain = folders.read_sealed

    def replaced(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(folders, "read_sealed", plain)
        found = plain(*arguments, **options)
        for _ in range(2):  # the second may be given the number of the folder that was there at first
            save_state(model, "Thing", {}, {"x": np.zeros(3)}, "new")
        return found

    monkeypatch.setattr(folders, "read_sealed", replaced)
    assert load_state(model)["metadata"] == "new"


def test_arrays_that_are_replaced_once_they_were_compared_are_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, plain = tmp_path / "model", folders.load_arrays
    save_state(folder, "A", {}, {"x": np.zeros(3)}, None)

    def replaced(data: bytes) -> Any:
        save_state(folder, "B", {}, {"x": np.ones(3)}, None)
        return plain(data)

    monkeypatch.setattr(folders, "load_arrays", replaced)
    found = load_state(folder)
    assert (found["kind"], found["state"]["x"].tolist()) == ("A", [0.0, 0.0, 0.0])


def panel() -> tuple[np.ndarray, np.ndarray]:
    values = 50 + 20 * np.sin((np.arange(30)[:, None] + np.arange(5)) / 3)
    values[::7, 2] = np.nan
    return values, np.roll(np.eye(5), 1, axis=1) + np.roll(np.eye(5), -1, axis=1)


def test_a_forecaster_comes_back_bit_for_bit(tmp_path: Path) -> None:
    values, ring = panel()
    model = PanelForecaster(horizon=2, lags=4, epochs=5).fit(values, ring)
    model.save(tmp_path / "model", {"who": "me"})
    again = load(tmp_path / "model")
    assert type(again) is PanelForecaster
    assert again.get_params() == model.get_params()
    assert again.metadata_ == {"who": "me"}
    np.testing.assert_array_equal(again.predict(), model.predict())
    np.testing.assert_array_equal(again.predict(1, values=values[:9]), model.predict(1, values=values[:9]))
    np.testing.assert_array_equal(again.predict_quantiles([0.2]), model.predict_quantiles([0.2]))
    np.testing.assert_array_equal(again.sample(2), model.sample(2))
    np.testing.assert_array_equal(again.impute().values, model.impute().values)
    assert again.shares_in_words() == model.shares_in_words()
    again.save(tmp_path / "again")
    np.testing.assert_array_equal(load(tmp_path / "again").predict(), model.predict())


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["state"]["$dict"].update(season=[1]),
        lambda c: c["state"]["$dict"].update(shares={"$dict": {"crystal ball": 1.0}}),
        lambda c: c["state"]["$dict"].update(shares={"$dict": {}}),
        lambda c: c["state"]["$dict"]["parts"]["$dict"].update(structures=[]),
        lambda c: c["state"]["$dict"]["parts"]["$dict"].update(correlations=[]),
        lambda c: c["params"]["$dict"].update(horizon=3),
        lambda c: c["params"]["$dict"].update(hidden=17),
        lambda c: c["params"]["$dict"].update(lags=2),
        lambda c: c["params"]["$dict"].update(layers=10**9),
    ],
)
def test_a_forecaster_that_was_edited_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    PanelForecaster(lags=4, epochs=2, parts=["diffusion", "network"]).fit(*panel()).save(tmp_path / "model")
    resealed(tmp_path / "model", change)
    with pytest.raises(InvalidFileError, match="is not a model that this version of condiff can load"):
        load(tmp_path / "model")


def test_a_folder_may_be_named_by_a_string(tmp_path: Path) -> None:
    X, labels = points()
    COINClassifier(**FAST).fit(X, labels).save(str(tmp_path / "model"))
    assert isinstance(load(str(tmp_path / "model")), COINClassifier)
