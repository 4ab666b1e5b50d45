"""Stores of the first layout: every name of it, and a file that is migrated whole or not at all."""

import json
import sqlite3
from contextlib import closing

import pytest

from condiff.errors import InvalidFileError
from condiff.reproduce import store as module
from condiff.reproduce.migration import split_features_name, split_name
from condiff.reproduce.runs import Condition, Key
from condiff.reproduce.store import Store

FIRST = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY, task TEXT NOT NULL, dataset TEXT NOT NULL, method TEXT NOT NULL, settings TEXT NOT NULL,
    split INTEGER NOT NULL, init INTEGER NOT NULL, metrics TEXT NOT NULL, epochs INTEGER NOT NULL,
    seconds REAL NOT NULL, memory_mb REAL NOT NULL, identity TEXT NOT NULL, made TEXT NOT NULL
) WITHOUT ROWID
"""
FEWSHOT = {"backbone": "resnet18", "episodic": False, "ways": 5, "shots": 1, "queries": 15, "concentration": None}
NODE = {"train_per_class": 20, "validation_per_class": 30}


@pytest.mark.parametrize(
    ("task", "name", "dataset", "condition"),
    [
        ("node", "cora", "cora", NODE),
        ("node", "my-graph-5shot", "my-graph-5shot", NODE),
        ("covid", "england-90-missing", "england", {"missing": 0.9, "causal": False}),
        ("covid", "england-12.5-missing-causal", "england", {"missing": 0.125, "causal": True}),
        ("covid", "england-0-missing", "england", {"missing": 0.0, "causal": False}),
        ("prostate", "p1000-20-train", "p1000", {"train": 20, "validation": 100}),
        ("fewshot", "cub-resnet18-1shot", "cub", FEWSHOT),
        ("fewshot", "cub-resnet18-1shot-unbalanced", "cub", FEWSHOT | {"concentration": 2.0}),
        ("fewshot", "cub-resnet18-1shot-dirichlet0.5", "cub", FEWSHOT | {"concentration": 0.5}),
        ("fewshot", "my-birds-1shot", "my-birds", FEWSHOT | {"backbone": None}),
        (
            "fewshot",
            "my-set-conv4-20way-5shot-10queries-unbalanced",
            "my-set",
            {**FEWSHOT, "backbone": "conv4", "ways": 20, "shots": 5, "queries": 10, "concentration": 2.0},
        ),
        ("fewshot", "omniglot-conv4-episodic-1shot", "omniglot", FEWSHOT | {"backbone": "conv4", "episodic": True}),
        ("mine", "anything-1shot", "anything-1shot", {}),
    ],
)
def test_names_become_conditions(task, name, dataset, condition):
    assert split_name(task, name) == (dataset, Condition(condition))


def test_numbers_of_nodes_are_taken_from_the_command():
    command = "condiff reproduce cora --train-per-class 5 --validation-per-class=7"
    assert split_name("node", "cora", command)[1] == {"train_per_class": 5, "validation_per_class": 7}


def test_names_of_features():
    assert split_features_name("cub-efficientnet_lite0-novel") == ("cub", "efficientnet_lite0")
    assert split_features_name("my-features") == ("my-features", None)


def first_layout(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(FIRST)
        connection.execute("PRAGMA application_id = 0x434F4E44")
        connection.execute("PRAGMA user_version = 1")
        for number in range(40):
            names = ("covid", "england-90-missing-causal", "COIN", '{"layers":20}', number, 0)
            made = json.dumps({"command": f"condiff reproduce covid --splits {number // 20}"})
            row = (f"old {number}", *names, '{"mse":0.5}', 100, 2.0, 30.0, "data", made)
            connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(row))})", row)
        connection.commit()
    return path


def new_key(number):
    return Key("covid", "england", "COIN", {"layers": 20}, number, 0, "data", Condition(missing=0.9, causal=True))


def test_an_old_store_is_migrated_when_it_is_opened(tmp_path):
    path = first_layout(tmp_path / "runs.sqlite")
    with Store(path) as store:
        keys = [new_key(number) for number in range(40)]
        assert len(store.find(keys)) == len(store) == 40  # a sweep that goes on finds every run
        assert store.held(keys)[7] == keys[7].run({"mse": 0.5}, epochs=100, seconds=2.0, memory_mb=30.0)
        assert [each["runs"] for each in store.makers()] == [20, 20]
        store.check_same_data(keys)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'old_runs'").fetchall() == []


def test_an_old_store_can_be_read_and_stays_old(tmp_path):
    path = first_layout(tmp_path / "runs.sqlite")
    before = path.read_bytes()
    with Store.snapshot(path) as store:
        assert {(run.dataset, run.condition["missing"]) for run in store.runs()} == {("england", 0.9)}
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["runs.sqlite"]


def test_a_migration_that_fails_leaves_the_old_store(tmp_path, monkeypatch):
    path = first_layout(tmp_path / "runs.sqlite")

    def fails(connection, create):
        connection.execute("ALTER TABLE runs RENAME TO old_runs")
        create()
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(module, "migrate", fails)
    with pytest.raises(InvalidFileError, match="disk full"):
        Store(path)
    monkeypatch.undo()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM runs WHERE key LIKE 'old %'").fetchone() == (40,)
    with Store(path) as store:
        assert len(store) == 40
