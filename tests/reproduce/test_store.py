import gc
import json
import multiprocessing
import os
import signal
import sqlite3
import time
import warnings
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.runs import Condition, Key, Run
from condiff.reproduce.store import Store

MADE = {"date": "2026-01-01", "torch": "2"}


def _run(split=0, init=0, settings=None, accuracy=80.0) -> Run:
    return Run("node", "rings", "GCN", settings or {"hidden": 16}, split, init, {"accuracy": accuracy}, 10, 0.5, 3.0)


def _key(run, identity="data/split") -> Key:
    return Key(run.task, run.dataset, run.method, run.settings, run.split, run.init, identity, run.condition)


def test_a_run_comes_back_as_it_was(tmp_path):
    run = replace(_run(), condition=Condition(missing=0.9, causal=False, backbone=None))
    run = replace(run, settings={"hidden": 16, "training": {"milestones": [1, 2], "patience": None}, "rate": 0.1})
    with Store(tmp_path / "deep" / "runs.sqlite") as store:
        assert store.add(_key(run), run, MADE)
        assert store.find([_key(run)]) == {_key(run).digest: run}
        assert store.runs() == store.runs("node") == [run]
        assert store.runs("covid") == []
        assert len(store) == 1
    with Store(tmp_path / "deep" / "runs.sqlite") as store:
        assert store.runs() == [run]


def test_a_key_makes_its_run():
    run = replace(_run(split=3, init=1), condition=Condition(missing=0.9))
    made = _key(run).run(run.metrics, epochs=run.epochs, seconds=run.seconds, memory_mb=run.memory_mb)
    assert made == run


def test_a_key_counts_once_and_the_first_run_stays(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        assert store.add(_key(_run()), _run(accuracy=80.0), MADE)
        assert not store.add(_key(_run()), _run(accuracy=10.0), MADE)
        assert [run.metrics["accuracy"] for run in store.runs()] == [80.0]


def test_runs_of_other_data_under_the_same_names_are_not_mixed(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        store.check_same_data([_key(_run())])
        store.add(_key(_run()), _run(), MADE)
        store.check_same_data(
            [_key(_run()), _key(_run(split=1), "data/other split"), _key(_run(settings={"hidden": 8}))]
        )
        with pytest.raises(InvalidInputError, match="runs of GCN on other data called rings"):
            store.check_same_data([_key(_run(split=1), "edited/split")])


def test_who_made_the_runs(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        for init in range(3):
            store.add(_key(_run(init=init)), _run(init=init), MADE | {"command": "first" if init else "second"})
        assert store.makers("covid") == []
        assert store.makers() == store.makers("node")
        assert [(each["command"], each["runs"], each["torch"]) for each in store.makers()] == [
            ("first", 2, "2"),
            ("second", 1, "2"),
        ]


def test_every_part_of_a_key_matters():
    key = _key(_run())
    others = [
        _key(_run(split=1)),
        _key(_run(init=1)),
        _key(_run(settings={"hidden": 17})),
        _key(_run(settings={"hidden": 16.5})),
        _key(_run(), identity="data/other"),
        Key("node", "rings", "MLP", {"hidden": 16}, 0, 0, "data/split"),
        Key("node", "moons", "GCN", {"hidden": 16}, 0, 0, "data/split"),
        Key("covid", "rings", "GCN", {"hidden": 16}, 0, 0, "data/split"),
        Key("node", "rings", "GCN", {"hidden": 16}, 0, 0, "data/split", Condition(train_per_class=5)),
    ]
    assert len({key.digest, *(other.digest for other in others)}) == len(others) + 1


def test_the_order_of_settings_does_not_matter():
    assert _key(_run(settings={"a": 1, "b": 2})).digest == _key(_run(settings={"b": 2, "a": 1})).digest


_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), _plain, max_size=4))
def test_any_plain_settings_come_back(settings):
    run = _run(settings=settings or {"": 0})
    with Store(":memory:") as store:
        store.add(_key(run), run, MADE)
        assert store.runs() == [run]


def test_the_order_of_runs_does_not_depend_on_when_they_came(tmp_path):
    runs = [_run(split, init) for split in range(3) for init in range(2)]
    with Store(tmp_path / "one.sqlite") as one, Store(tmp_path / "two.sqlite") as two:
        for run in runs:
            one.add(_key(run), run, MADE)
        for run in reversed(runs):
            two.add(_key(run), run, MADE)
        assert one.runs() == two.runs() == runs


def test_a_run_that_is_not_a_number_is_not_kept(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store, pytest.raises(ValueError, match="JSON"):
        store.add(_key(_run()), _run(accuracy=float("nan")), MADE)


@pytest.mark.parametrize("content", [b"not a database, but long enough to be read as one" * 10, None])
def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "runs.sqlite"
    if content is None:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE mine (x)")
        other.close()
        content = path.read_bytes()
    else:
        path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=r"runs\.sqlite.*move it away"):
        Store(path)
    assert path.read_bytes() == content


def test_no_connection_is_left_open(tmp_path):
    (tmp_path / "bad.sqlite").write_bytes(b"not a database, but long enough to be read as one" * 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for opened in (Store, Store.snapshot):
            with pytest.raises(InvalidFileError, match="cannot be used as a store"):
                opened(tmp_path / "bad.sqlite")
            gc.collect()  # a connection that is collected while it is open warns from Python 3.13 on


def test_a_snapshot_reads_a_store_and_touches_nothing(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        store.add(_key(_run()), _run(), MADE)
        with Store.snapshot(tmp_path / "runs.sqlite") as copy:  # while it is being written
            assert copy.runs() == [_run()]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with Store.snapshot(tmp_path / "runs.sqlite") as copy:
        assert copy.runs() == [_run()]
        assert [each["torch"] for each in copy.makers()] == ["2"]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(InvalidFileError, match=r"no\.sqlite"):
        Store.snapshot(tmp_path / "no.sqlite")


def test_what_made_many_runs_is_held_once(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        for split in range(50):
            store.add(_key(_run(split=split)), _run(split=split), MADE | {"command": "x" * 10_000})
    assert (tmp_path / "runs.sqlite").stat().st_size < 100_000


def _write_for_ever(path, ready) -> None:
    with Store(path) as store:
        number = 0
        while True:
            run = _run(split=number)
            store.add(_key(run), run, MADE)
            number += 1
            if number == 20:
                ready.set()


def _write_some(path, first) -> None:
    with Store(path) as store:
        for split in range(first, first + 60):
            run = _run(split=split)
            store.add(_key(run), run, MADE)


def test_a_kill_while_writing_loses_nothing_that_was_written(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, path = context.Event(), tmp_path / "runs.sqlite"
    writer = context.Process(target=_write_for_ever, args=(path, ready))
    writer.start()
    assert ready.wait(60)
    time.sleep(0.05)
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    with Store(path) as store:
        splits = [run.split for run in store.runs()]
        assert len(splits) >= 20
        assert splits == list(range(len(splits)))
        run = _run(split=len(splits))
        assert store.add(_key(run), run, MADE)


def test_several_processes_write_one_store(tmp_path):
    context = multiprocessing.get_context("spawn")
    # The ranges overlap: what two of them write counts once.
    writers = [context.Process(target=_write_some, args=(tmp_path / "runs.sqlite", first)) for first in (0, 30)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    with Store(tmp_path / "runs.sqlite") as store:
        assert [run.split for run in store.runs()] == list(range(90))


def test_what_made_a_run_is_kept_beside_it(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        store.add(_key(_run()), _run(), MADE)
    connection = sqlite3.connect(tmp_path / "runs.sqlite")
    (made, identity) = connection.execute("SELECT made, identity FROM runs JOIN makers ON maker = id").fetchone()
    connection.close()
    assert json.loads(made) == MADE
    assert identity == "data/split"


def test_stores_are_joined_and_a_run_of_both_stays_the_first(tmp_path):
    with Store(tmp_path / "one.sqlite") as one, Store(tmp_path / "two.sqlite") as two:
        one.add(_key(_run()), _run(accuracy=80.0), MADE)
        two.add(_key(_run()), _run(accuracy=10.0), MADE)
        two.add(_key(_run(split=1)), _run(split=1, accuracy=70.0), MADE | {"date": "2026-02-02"})
    with Store(tmp_path / "one.sqlite") as one:
        assert one.join(tmp_path / "two.sqlite") == 1
        assert one.join(tmp_path / "two.sqlite") == 0
        assert [run.metrics["accuracy"] for run in one.runs()] == [80.0, 70.0]
        assert [(each["date"], each["runs"]) for each in one.makers()] == [("2026-01-01", 1), ("2026-02-02", 1)]
    with Store(tmp_path / "two.sqlite") as two:
        assert len(two) == 2


@pytest.mark.parametrize(
    ("column", "value"),
    [("settings", "{"), ("settings", "[]"), ("metrics", '{"accuracy": "high"}'), ("split", "one"), ("seconds", "long")],
)
def test_a_run_that_was_edited_is_one_line_that_says_what_to_do(tmp_path, column, value):
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        store.add(_key(_run()), _run(), MADE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE runs SET {column} = ?", (value,))
        connection.commit()
    with Store(path) as store, pytest.raises(InvalidFileError, match=r"runs\.sqlite cannot be used .*: move it away"):
        store.runs()


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("database or disk is full", "free some room and run the command again; finished runs are kept"),
        ("database disk image is malformed", r"restore a copy \(sqlite3 FILE \.recover"),
        ("database is locked", "wait until the other sweep has ended"),
        ("attempt to write a readonly database", "may write to"),
    ],
)
def test_what_sqlite_says_comes_with_advice(tmp_path, said, advice):
    with Store(tmp_path / "runs.sqlite") as store, pytest.raises(InvalidFileError, match=advice), store._errors():
        raise sqlite3.OperationalError(said)
