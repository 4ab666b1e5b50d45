from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators import persistence
from condiff.estimators.persistence import check_folder, load_state, save_state
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
        patch.setattr(persistence, failing, fail)
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
    resealed(folder, lambda content: content.update(schema=persistence.SCHEMA + 1))
    with pytest.raises(InvalidFileError, match=f"schema {persistence.SCHEMA + 1}, but this version of condiff reads"):
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
    with pytest.raises(InvalidFileError, match="cannot be read"):
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
