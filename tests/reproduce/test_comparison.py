"""Methods over many data sets: which runs count, ranks, critical difference and pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from condiff.reproduce.comparison import Comparison, comparisons, summary, texts
from condiff.reproduce.figures.ranks import draw_ranks, joined
from condiff.reproduce.runs import Condition, Run

CONDITION = Condition(labels=20, per_class=False)


def run(method: str, table: str, draw: int, value: float, **more: float) -> Run:
    metrics = {"accuracy": value, "balanced_accuracy": value - 1, "log_loss": 2 - value / 100, "calibration_error": 5.0}
    return Run("tables", table, method, {}, draw, 0, {**metrics, **more}, 0, 0.5, 1.0, CONDITION)


def made(values: dict[str, list[float]], draws: int = 2) -> list[Run]:
    """Runs whose mean over draws are these values, table by table."""
    return [
        run(method, f"table {number}", draw, value + draw - (draws - 1) / 2)
        for method, own in values.items()
        for number, value in enumerate(own)
        for draw in range(draws)
    ]


def compared(runs: list[Run], general=lambda name: True) -> list[Comparison]:
    return comparisons(runs, lambda table: "unseen", general)


PEERS = {"COIN": [80.0, 70.0, 60.0], "LDA": [78.0, 71.0, 60.0], "LR": [75.0, 72.0, 50.0]}
VALUES = {**PEERS, "COIN-base": [78.0, 71.0, 60.0]}


def test_ranks_and_means_over_tables() -> None:
    [found] = compared(made(VALUES))
    np.testing.assert_array_equal(found.ranks("accuracy"), [[1, 3, 1.5], [2, 2, 1.5], [3, 1, 3], [np.nan] * 3])
    rows = {(row.method, row.metric): row for row in found.rows()}
    assert rows["COIN", "accuracy"].mean == pytest.approx(70)
    assert rows["COIN", "accuracy"].std == pytest.approx(np.std([69.5, 70.5], ddof=1))
    assert rows["COIN", "rank_accuracy"].mean == pytest.approx(5.5 / 3)
    assert rows["LR", "seconds"].mean == pytest.approx(0.5)
    assert ("COIN-base", "accuracy") in rows and ("COIN-base", "rank_accuracy") not in rows
    assert (rows["COIN", "accuracy"].runs, rows["COIN", "accuracy"].splits) == (6, 2)


def test_only_what_all_methods_have_counts() -> None:
    runs = made(VALUES)
    partial = [each for each in runs if not (each.method == "LR" and each.split == 1 and each.dataset == "table 2")]
    [found] = compared(partial)
    assert found.runs == 5
    assert found.by_table("accuracy")[0].tolist() == [80.0, 70.0, 59.5]
    # A draw that a table lacks says nothing about the spread between draws.
    assert found.rows()[0].std is None


def test_a_method_that_cannot_run_everywhere_is_compared_apart() -> None:
    runs = [*made(VALUES), run("Few", "table 0", 0, 90.0)]
    everywhere, where = compared(runs, lambda name: name != "Few")
    assert "Few" not in everywhere.methods and len(everywhere.tables) == 3
    assert where.condition["where"] == "Few" and where.tables == ["table 0"] and where.runs == 1
    assert len(summary(runs, lambda table: "unseen", lambda name: name != "Few")) == (3 + 4) * 8 + 2 * 5


def test_halves_and_targets_are_apart() -> None:
    values = [Run("tables", "reg-a", "Ridge", {}, 0, 0, {"r2": 0.5, "relative_error": 0.7}, 0, 0.1, 1.0, CONDITION)]
    found = comparisons([*made(VALUES), *values], lambda table: "chosen" if table == "table 0" else "unseen", bool)
    assert [(each.condition["half"], each.condition["target"], len(each.tables)) for each in found] == [
        ("chosen", "classes", 1), ("unseen", "classes", 2), ("unseen", "values", 1),
    ]  # fmt: skip


def test_the_critical_difference_is_that_of_the_literature() -> None:
    # Demšar, JMLR 7 (2006), table 5: q is 2.569 for four classifiers; the example there has 14 data sets.
    [found] = compared(made({name: list(np.arange(14.0)) for name in "abcd"}, draws=1))
    assert found.critical_difference() == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    [found] = compared(made(VALUES))
    assert found.friedman("accuracy") == pytest.approx(stats.friedmanchisquare(*PEERS.values()).pvalue)


def test_pairs_and_the_worst_tables() -> None:
    [found] = compared(made(VALUES))
    pairs = {(pair["method"], pair["metric"]): pair for pair in found.against("COIN")}
    own = pairs["COIN-base", "accuracy"]
    gaps = np.array([2.0, -1.0, 0.0])
    assert own["difference"] == pytest.approx(gaps.mean())
    assert own["stderr"] == pytest.approx(gaps.std(ddof=1) / np.sqrt(3)) and own["won"] == 1.5
    assert pairs["LR", "log_loss"]["difference"] == pytest.approx(pairs["LR", "accuracy"]["difference"] / 100)
    assert found.worst("COIN", "COIN-base", "accuracy") == [("table 1", -1.0), ("table 2", 0.0), ("table 0", 2.0)]
    assert found.against("nobody") == []


def test_files() -> None:
    written = texts(made(VALUES), lambda table: "unseen", bool, lambda row: "Heading")
    assert written["comparison.md"].startswith("## Heading\n\n| method | accuracy (%) |")
    assert "COIN beside its own base" in written["comparison.md"] and "table 1 -1.00" in written["comparison.md"]
    assert json.loads(written["comparison.json"])["tests"][0]["tables"] == 3
    lines = written["by-table.csv"].splitlines()
    assert lines[0].startswith("half,target,labels,per_class,where,table,method,draws,accuracy")
    assert lines[1].startswith("unseen,classes,20,False,,table 0,COIN,2,80,79,")
    assert texts([], lambda table: "unseen", bool, str) == {}


def test_bars_join_what_cannot_be_distinguished() -> None:
    assert joined(np.array([1.0, 1.5, 3.0, 3.4, 9.0]), 1.0) == [(0, 1), (2, 3)]
    assert joined(np.array([1.0, 1.8, 2.6]), 1.0) == [(0, 1), (1, 2)]
    assert joined(np.array([1.0, 3.0]), 1.0) == []


def test_a_picture_names_every_method_with_its_rank() -> None:
    [found] = compared(made(VALUES))
    [axes] = draw_ranks(found, "accuracy").axes
    shown = [text.get_text() for text in axes.texts]
    assert {"COIN  1.83", "LDA  1.83", "LR  2.33"} <= set(shown) and not any("base" in text for text in shown)
    assert "over 3 tables" in axes.get_title(loc="left")
