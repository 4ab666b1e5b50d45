import csv
import json
import sqlite3

import pytest

# Small enough to run in seconds, and every method's table has two lines.
QUICK = ("--set", "training.epochs=5", "--train-per-class", 3, "--validation-per-class", 4)
KEYS = [
    "task", "dataset", "method", "metric", "mean", "std", "runs", "published", "published_std", "seconds_per_run",
]  # fmt: skip


def test_a_benchmark_of_a_graph_of_ones_own(condiff, village, tmp_path):
    command = ("--method", "coin,MLP", "--splits", 2, "--inits", 2, *QUICK, "--out", tmp_path)
    done = condiff("reproduce", "node", village, *command)
    assert done.code == 0, done.err
    assert "COIN" in done.out
    assert "MLP" in done.out
    assert "village" in done.out
    rows = json.loads((tmp_path / "summary.json").read_text())
    assert [(row["method"], row["runs"], row["splits"], row["inits"]) for row in rows] == [
        ("MLP", 4, 2, 2),
        ("COIN", 4, 2, 2),
    ]
    assert all(list(row)[:10] == KEYS for row in rows)
    assert all(row["published"] is None for row in rows)
    assert all(row["condition"] == {"train_per_class": 3, "validation_per_class": 4} for row in rows)
    assert all(50 < row["mean"] <= 100 for row in rows)
    with (tmp_path / "summary.csv").open() as stream:
        assert [float(row["mean"]) for row in csv.DictReader(stream)] == [row["mean"] for row in rows]
    assert "| COIN |" in (tmp_path / "table.md").read_text()
    assert r"\toprule" in (tmp_path / "table.tex").read_text()
    for picture in ("accuracy.png", "time.png", "memory.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    made = json.loads((tmp_path / "provenance.json").read_text())
    assert made["command"].startswith("condiff reproduce ")
    assert [(each["command"], each["runs"]) for each in made["runs_made_by"]] == [
        (made["command"], sum(r["runs"] for r in rows))
    ]
    with (tmp_path / "splits.csv").open() as stream:
        assert [row["seed"] for row in csv.DictReader(stream)] == ["0", "1"]


def test_a_second_time_nothing_is_trained_and_the_json_is_the_same(condiff, village, tmp_path, monkeypatch):
    command = ("reproduce", village, "--splits", 2, "--inits", 1, *QUICK, "--out", tmp_path, "--no-pictures", "--json")
    first = condiff(*command)
    rows = json.loads(first.out)
    assert rows[0]["runs"] == 2
    # Any attempt to train would now fail.
    monkeypatch.setattr("condiff.reproduce.runner._run", None)
    second = condiff(*command)
    assert second.out == first.out
    assert "2 already stored" in second.err


def test_tables_are_written_of_the_runs_that_did_not_fail(condiff, village, tmp_path):
    command = ("reproduce", "node", village, "--splits", 1, "--inits", 1, *QUICK, "--out", tmp_path, "--no-pictures")
    # Steps this long end in no number at all, which the integrator of the one refuses.
    failing = ("--set", "GRAND.training.learning_rate=1e30")
    done = condiff(*command, "--method", "GRAND,MLP", *failing)
    assert done.code == 2
    assert "1 of 2 runs failed, the others are kept; the first was GRAND on village" in done.err
    assert "MLP" in done.out
    assert [row["method"] for row in json.loads((tmp_path / "summary.json").read_text())] == ["MLP"]
    alone = condiff(*command, "--method", "GRAND", *failing)
    assert alone.code == 2 and not alone.out


def test_results_do_not_depend_on_the_number_of_jobs(condiff, village, tmp_path):
    found = []
    for jobs in (1, 2):
        command = ("reproduce", village, "--splits", 2, "--inits", 2, *QUICK, "--out", tmp_path / str(jobs))
        assert condiff(*command, "--method", "GCN", "--jobs", jobs, "--no-pictures").code == 0
        connection = sqlite3.connect(tmp_path / str(jobs) / "runs.sqlite")
        query = "SELECT key, metrics, epochs FROM runs ORDER BY key"
        found.append(connection.execute(query).fetchall())
        connection.close()
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_other_settings_are_other_runs(condiff, village, tmp_path):
    command = ("reproduce", village, "--splits", 1, "--inits", 1, *QUICK, "--out", tmp_path, "--no-pictures")
    condiff(*command)
    other = condiff(*command, "--set", "COIN.layers=3", "--json")
    assert json.loads(other.out)[0]["settings"]["layers"] == 3
    rows = json.loads((tmp_path / "summary.json").read_text())
    assert {row["settings"]["layers"] for row in rows} == {3, None}


def test_a_bad_number_of_processes_is_one_line_and_nothing_is_written(condiff, village, tmp_path, monkeypatch):
    monkeypatch.setenv("CONDIFF_JOBS", "many")
    condiff("reproduce", village, "--out", tmp_path / "out", *QUICK).assert_failed("CONDIFF_JOBS", "'many'")
    assert not (tmp_path / "out").exists()


def test_splits_travel(condiff, village, tmp_path):
    command = ("reproduce", village, "--splits", 2, "--inits", 1, *QUICK, "--no-pictures")
    splits = tmp_path / "splits.json"
    assert condiff(*command, "--out", tmp_path / "one", "--export-splits", splits).code == 0
    taken = condiff(*command, "--import-splits", splits, "--out", tmp_path / "two")
    assert taken.code == 0, taken.err
    one, two = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two"))
    assert [row["mean"] for row in one] == [row["mean"] for row in two]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--method", "GATT"), ["unknown method 'GATT'", "did you mean 'GAT'"]),
        (("--set", "layer=3"), ["did you mean 'layers'"]),
        (("--set", "COIN.layers=many"), ["layers must be a whole number", "'many'"]),
        (("--train-per-class", 40), ["too few", "class 0"]),
        (("--import-splits", "nowhere.json"), ["nowhere.json"]),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(condiff, village, tmp_path, arguments, parts):
    out = tmp_path / "out"
    condiff("reproduce", village, "--out", out, *QUICK, *arguments).assert_failed(*parts)
    assert not out.exists()


def test_a_missing_graph_is_one_line(condiff, tmp_path):
    condiff("reproduce", tmp_path / "no.npz").assert_failed("no.npz")
    condiff("reproduce", "corra").assert_failed("corra")


def test_stored_runs_are_made_again_and_compared(condiff, village, tmp_path):
    command = ("reproduce", village, "--splits", 2, "--inits", 1, *QUICK, "--out", tmp_path, "--no-pictures")
    condiff(*command, "--verify", 2).assert_failed("has no runs.sqlite", "--out")
    assert condiff(*command).code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    same = condiff(*command, "--verify", 5)
    assert same.code == 0, same.err
    assert "2 runs made again: 2 are the same to the last digit" in same.out
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    condiff(*command, "--method", "MLP", "--verify", 1).assert_failed("none of these runs is stored")

    with sqlite3.connect(tmp_path / "runs.sqlite") as store:
        store.execute("UPDATE runs SET metrics = json_set(metrics, '$.accuracy', 12.5) WHERE split = 1")
    store.close()
    changed = condiff(*command, "--verify", 5)
    assert changed.code == 1
    assert (
        "village, train_per_class 3, validation_per_class 4, COIN, split 1, init 0: accuracy 12.5 is now" in changed.out
    )
    assert "2 runs made again: 1 is the same to the last digit, 1 different (" in changed.out


def test_runs_that_cannot_be_traced_are_made_again_and_replaced(condiff, village, tmp_path, monkeypatch):
    monkeypatch.setattr("condiff.reproduce.provenance._commit", lambda: "abc123")
    command = ("reproduce", village, "--splits", 4, "--inits", 1, *QUICK, "--jobs", 1, "--out", tmp_path)
    assert condiff(*command, "--no-pictures").code == 0

    def spoil(**changes):
        """Give some splits another accuracy and another maker."""
        with sqlite3.connect(tmp_path / "runs.sqlite") as store:
            for split, change in changes.items():
                found = store.execute("SELECT made FROM runs JOIN makers ON maker = id LIMIT 1").fetchone()[0]
                made = json.dumps({name: v for name, v in {**json.loads(found), **change}.items() if v})
                store.execute("INSERT OR IGNORE INTO makers (made) VALUES (?)", (made,))
                store.execute(
                    "UPDATE runs SET maker = (SELECT id FROM makers WHERE made = ?), "
                    "metrics = json_set(metrics, '$.accuracy', 12.5) WHERE split = ?",
                    (made, int(split[-1])),
                )
        store.close()

    def spoilt():
        with sqlite3.connect(tmp_path / "runs.sqlite") as store:
            found = store.execute("SELECT split, metrics FROM runs ORDER BY split").fetchall()
        store.close()
        return [split for split, metrics in found if json.loads(metrics)["accuracy"] == 12.5]

    spoil(split0={"commit": ""}, split1={"processor_known": "inferred"}, split2={"commit": "older"})
    spoil(split3={"commit": "abc123 with changes"})
    assert condiff(*command, "--no-pictures").code == 0
    assert spoilt() == [0, 1, 2, 3]
    assert condiff(*command, "--no-pictures", "--renew", "untraced").code == 0
    assert spoilt() == [2]
    assert condiff(*command, "--no-pictures", "--renew", "older").code == 0
    assert spoilt() == []
    spoil(split1={})  # by this commit: it is not made again
    assert condiff(*command, "--no-pictures", "--renew", "older").code == 0
    assert spoilt() == [1]
    condiff(*command, "--renew", "older", "--verify", 1).assert_failed("--verify writes nothing", "--renew")
    condiff(*command, "--renew", "all").assert_failed("Invalid value for '--renew': 'all' is not one of", "older")
    monkeypatch.setattr("condiff.reproduce.provenance._commit", lambda: "")
    condiff(*command, "--renew", "older").assert_failed("needs a clone")


def test_a_folder_is_verified_without_saying_what_is_in_it(condiff, tmp_path, data_root):
    command = ("reproduce", "node", "cora", "--method", "LabelSpreading,LabelPropagation", "--splits", 2, "--inits", 1)
    options = ("--jobs", 1, "--no-pictures", "--set", "LabelSpreading.alpha=0.5")
    assert condiff(*command, *options, "--out", tmp_path).code == 0
    with sqlite3.connect(tmp_path / "runs.sqlite") as store:
        store.execute("UPDATE runs SET metrics = json_set(metrics, '$.accuracy', 12.5) WHERE split = 1")
        store.execute("UPDATE makers SET made = json_set(made, '$.processor', 'an abacus')")
    store.close()
    elsewhere = condiff("reproduce", "--verify", 4, "--jobs=1", "--out", tmp_path)
    assert elsewhere.code == 0
    assert "made on an abacus: 2 are the same to the last digit, 2 different (" in elsewhere.out
    assert "Another processor rounds differently" in elsewhere.out
    with sqlite3.connect(tmp_path / "runs.sqlite") as store:
        store.execute("UPDATE runs SET key = key || 'x'")
    store.close()
    condiff("reproduce", "--verify", 3, "--out", tmp_path).assert_failed("cannot be made again", "cora")


def test_runs_of_a_file_need_its_name(condiff, village, tmp_path):
    assert condiff("reproduce", village, "--splits", 1, "--inits", 1, *QUICK, "--out", tmp_path).code == 0
    condiff("reproduce", "--verify", 1, "--out", tmp_path).assert_failed("give their options as well")
