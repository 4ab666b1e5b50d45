import json
import math
import random

import numpy as np
import pytest
from tests.reproduce.made_up import COVID, PROSTATE, paper_runs, run

from condiff.reproduce.published import group, methods
from condiff.reproduce.rows import Row, labels
from condiff.reproduce.summary import summarise

CONTRACT = [
    "task",
    "dataset",
    "method",
    "metric",
    "mean",
    "std",
    "runs",
    "published",
    "published_std",
    "seconds_per_run",
]


def test_a_row_holds_what_the_contract_names_and_more() -> None:
    [row] = summarise([run(accuracy=80.0), run(accuracy=84.0, split=1, epochs=300, seconds=4.0, memory_mb=70.0)])
    assert list(row.to_dict())[:10] == CONTRACT
    assert row.to_dict() == {
        "task": "node",
        "dataset": "cora",
        "method": "COIN",
        "metric": "accuracy",
        "mean": 82.0,
        "std": pytest.approx(math.sqrt(8)),
        "runs": 2,
        "published": 82.2,
        "published_std": 1.2,
        "seconds_per_run": 3.0,
        "difference": pytest.approx(-0.2),
        "stderr": pytest.approx(2.0),
        "epochs": 200.0,
        "seconds_per_epoch": pytest.approx(6.0 / 400),
        "memory_mb": 70.0,
        "splits": 2,
        "inits": 1,
        "settings": {},
        "condition": {},
        "interval": None,
        "spread_kind": "standard deviation",
    }
    assert Row.from_dict(row.to_dict()) == row


def test_one_run_tells_nothing_of_a_spread() -> None:
    [row] = summarise([run()])
    assert row.std is None
    assert row.stderr is None
    assert row.mean == 82.0


def test_runs_of_one_split_are_averaged_before_the_standard_error() -> None:
    accuracies = np.array([[80.0, 82.0, 81.5], [84.0, 83.0, 85.5], [79.0, 78.0, 80.0], [81.0, 81.0, 84.0]])
    runs = [run(accuracy=a, split=s, init=i) for (s, i), a in np.ndenumerate(accuracies)]
    [row] = summarise(runs)
    assert row.stderr == pytest.approx(accuracies.mean(1).std(ddof=1) / 2)
    assert row.std == pytest.approx(accuracies.std(ddof=1))
    assert row.stderr > row.std / math.sqrt(12)  # splits differ, so twelve runs know less than they seem to
    assert (row.runs, row.splits, row.inits) == (12, 4, 3)


def test_a_split_with_many_runs_counts_once() -> None:
    [row] = summarise([run(accuracy=70.0, split=0, init=init) for init in range(5)] + [run(accuracy=80.0, split=1)])
    assert row.mean == 75.0


def test_inits_of_one_split_have_no_standard_error() -> None:
    [row] = summarise([run(accuracy=80.0), run(accuracy=82.0, init=1)])
    assert row.std is not None
    assert row.stderr is None


def test_rows_come_in_the_paper_s_order_and_then_by_name() -> None:
    runs = paper_runs(splits=1, inits=1)
    runs += [run(name, dataset=name_of) for name in ("zeta", "Alpha") for name_of in ("cora", "my-graph", "a-graph")]
    runs += [run("LR", **COVID, metrics={"mse": 0.8}), run(task="own")]
    random.Random(0).shuffle(runs)
    rows = summarise(runs)
    paper = [method.name for method in methods("node")]
    assert list(dict.fromkeys(row.dataset for row in rows if row.task == "node")) == [
        "cora",
        "citeseer",
        "pubmed",
        "a-graph",
        "my-graph",
    ]
    assert [row.method for row in rows if (row.task, row.dataset) == ("node", "cora")] == [
        *paper,
        "Alpha",
        "zeta",
    ]
    assert list(dict.fromkeys(row.task for row in rows)) == ["node", "covid", "own"]


def test_runs_under_other_settings_are_other_rows() -> None:
    runs = [
        run(accuracy=70 + strength, settings={"strength": strength, "training": {"epochs": 5}}, init=init)
        for strength in (10, 9.5, 0.25)
        for init in range(2)
    ]
    rows = summarise(runs)
    assert [row.settings["strength"] for row in rows] == [0.25, 9.5, 10]  # by size, not by text
    assert [row.runs for row in rows] == [2, 2, 2]
    assert labels(rows) == ["COIN (strength 0.25)", "COIN (strength 9.5)", "COIN (strength 10)"]


def test_settings_that_are_equal_are_one_row() -> None:
    same = [{"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": (1, 2)}, "a": 1.0}]
    [row] = summarise([run(settings=settings) for settings in same])
    assert row.runs == 2
    assert labels([row]) == ["COIN"]


def test_labels_name_nested_settings_and_none() -> None:
    runs = [run(settings={"layers": 20, "training": {"patience": patience}}) for patience in (50, None)]
    assert labels(summarise(runs)) == ["COIN (training.patience none)", "COIN (training.patience 50)"]


def test_other_settings_on_another_data_set_need_no_label() -> None:
    rows = summarise([run(settings={"strength": 0.35}), run(settings={"strength": 0.4}, dataset="citeseer")])
    assert labels(rows) == ["COIN", "COIN"]


def test_several_metrics_are_several_rows() -> None:
    metrics = {"accuracy": 80.35, "roc_auc": 0.8}
    rows = summarise([run(**PROSTATE, metrics=metrics)])
    assert [(row.metric, row.published) for row in rows] == [("accuracy", 80.35), ("roc_auc", 0.8001)]


def test_no_epochs_and_no_number_become_null() -> None:
    runs = [run("own", accuracy=math.nan, epochs=0, memory_mb=math.nan), run("own", accuracy=80.0, epochs=0)]
    [row] = summarise(runs)
    assert row.seconds_per_epoch is None
    assert (row.mean, row.std, row.stderr, row.memory_mb) == (None, None, None, None)
    assert (row.published, row.difference) == (None, None)
    json.dumps([row.to_dict() for row in summarise([*runs, *paper_runs(splits=1)])], allow_nan=False)


def test_nothing_gives_nothing() -> None:
    assert summarise([]) == []


def test_groups_are_the_paper_s() -> None:
    assert [group("node", name) for name in ("GAT", "GCDE", "COIN", "own")] == ["Classic", "ODE", "COIN", ""]
