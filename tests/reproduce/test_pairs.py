"""Differences split by split."""

from __future__ import annotations

import math

import pytest
from tests.reproduce.made_up import run

from condiff.errors import InvalidInputError
from condiff.reproduce.pairs import paired, pairs_markdown


def runs(method: str, values: dict[int, list[float]], **changed: object):
    return [
        run(method, value, split=split, init=init, **changed)
        for split, found in values.items()
        for init, value in enumerate(found)
    ]


def test_initialisations_are_averaged_and_splits_are_paired() -> None:
    ours = runs("COIN", {0: [80.0, 84.0], 1: [70.0], 2: [75.0], 5: [10.0]})
    theirs = runs("GCN", {0: [81.0], 1: [66.0, 68.0], 2: [75.0], 9: [99.0]})
    [pair] = paired([*ours, *theirs], ["accuracy"])
    assert (pair.reference, pair.method, pair.metric, pair.splits) == ("COIN", "GCN", "accuracy", 3)
    # The splits 0, 1 and 2 differ by 1, 3 and 0.
    assert pair.difference == pytest.approx(4 / 3)
    deviation = math.sqrt(((1 - 4 / 3) ** 2 + (3 - 4 / 3) ** 2 + (4 / 3) ** 2) / 2)
    assert pair.stderr == pytest.approx(deviation / math.sqrt(3))
    assert pair.wins == 2.5


def test_a_lower_error_is_a_win() -> None:
    found = [
        run(method, metrics={"mse": value}, split=split)
        for method, value in (("COIN", 0.7), ("MLP", 0.9))
        for split in range(2)
    ]
    [pair] = paired(found, ["mse"])
    assert pair.difference == pytest.approx(0.2)
    assert pair.wins == 2


def test_methods_come_in_the_papers_order_and_settings_apart() -> None:
    found = [
        *runs("COIN", {0: [80.0], 1: [81.0]}, settings={"layers": 20}),
        *runs("COIN", {0: [70.0]}, settings={"layers": 40}),
        *runs("own", {0: [1.0]}),
        *runs("MLP", {0: [60.0]}),
        *runs("elsewhere", {7: [60.0]}),
    ]
    pairs = paired(found, ["accuracy"])
    assert [(pair.method, pair.settings) for pair in pairs] == [
        ("MLP", {}),
        ("COIN", {"layers": 40}),
        ("own", {}),
    ]
    assert all(pair.stderr is None for pair in pairs)


def test_the_table() -> None:
    found = [
        run(method, metrics={"accuracy": value, "roc_auc": value / 100}, split=split)
        for method, level in (("COIN", 80.0), ("GCN", 78.0))
        for split, value in enumerate((level, level + 2 + (method == "COIN")))
    ]
    assert pairs_markdown(paired(found, ["accuracy", "roc_auc"])).splitlines() == [
        "| COIN against | accuracy (%) | won | ROC-AUC | won |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| GCN | +2.5 ± 0.5 | 2 of 2 | +0.0250 ± 0.0050 | 2 of 2 |",
    ]
    assert "+2.0 | 1 of 1" in pairs_markdown(paired([each for each in found if not each.split], ["accuracy"]))


def test_what_cannot_be_compared() -> None:
    with pytest.raises(InvalidInputError, match=r"no run of 'Coin' to compare with \(did you mean 'COIN'\?\)"):
        paired([run("COIN")], ["accuracy"], reference="Coin")
    with pytest.raises(InvalidInputError, match="splits of different data sets"):
        paired([run("COIN"), run("COIN", dataset="pubmed")], ["accuracy"])
    assert paired([run("COIN")], ["accuracy"]) == []
    with pytest.raises(InvalidInputError, match="no methods to compare"):
        pairs_markdown([])
