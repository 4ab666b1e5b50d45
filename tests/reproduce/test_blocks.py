from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce.made_up import fewshot, run

from condiff.reproduce.blocks import block_metrics, pooled
from condiff.reproduce.published import group
from condiff.reproduce.rows import published_as
from condiff.reproduce.runs import Run
from condiff.reproduce.summary import summarise
from condiff.reproduce.tables import latex, markdown

ACCURACIES = st.lists(st.floats(0, 100), min_size=1, max_size=30)


def block(values: list[float] | np.ndarray, first: int = 0, **changed: object) -> Run:
    metrics = block_metrics("accuracy", np.asarray(values))
    return run(**{**fewshot(), "split": first, "metrics": metrics, **changed})


@given(st.lists(ACCURACIES, min_size=1, max_size=6))
def test_mean_and_spread_over_blocks_are_those_over_all_tasks(parts: list[list[float]]) -> None:
    found = pooled([block(part, first) for first, part in enumerate(parts)], "accuracy")
    assert found is not None
    values = np.concatenate(parts)
    assert found.mean == pytest.approx(values.mean(), abs=1e-9)
    assert found.tasks == len(values)
    if len(values) == 1:
        assert (found.std, found.stderr, found.interval) == (None, None, None)
        return
    assert found.std == pytest.approx(values.std(ddof=1), abs=1e-6)
    assert found.interval == pytest.approx(1.96 * values.std(ddof=1) / math.sqrt(len(values)), abs=1e-6)


def test_a_block_that_was_made_again_with_more_tasks_counts_once() -> None:
    values = np.arange(10.0)
    found = pooled([block(values[:4]), block(values), block(values[:6])], "accuracy")
    assert found is not None
    assert (found.mean, found.tasks) == (4.5, 10)


def test_runs_that_are_no_blocks_are_left_alone() -> None:
    assert pooled([run()], "accuracy") is None
    assert pooled([block([1.0]), run()], "accuracy") is None


def test_a_row_of_blocks_is_one_of_tasks() -> None:
    values = np.random.default_rng(0).normal(72.0, 10.0, 300)
    rows = summarise([block(values[:100], seconds=2.0), block(values[100:], 100, seconds=1.0)])
    [row] = [row for row in rows if row.metric == "accuracy"]
    assert row.mean == pytest.approx(values.mean())
    assert row.std == pytest.approx(values.std(ddof=1))
    assert row.runs == 300
    assert row.seconds_per_run == pytest.approx(0.01)
    assert row.stderr == pytest.approx(values.std(ddof=1) / math.sqrt(300))
    assert row.interval == pytest.approx(1.96 * row.stderr)
    assert (row.published, row.published_std) == (85.63, 0.20)
    assert row.difference == pytest.approx(values.mean() - 85.63)


def test_tables_show_intervals_to_two_decimals() -> None:
    values = np.array([70.0, 75.0, 80.0, 85.0] * 25)
    rows = [row for row in summarise([block(values)]) if row.metric == "accuracy"]
    text = markdown(rows)
    assert "77.50 ± 1.10 (85.63 ± 0.20, -8.13)" in text
    assert "mean ± 95 % interval over 100 tasks" in text
    assert r"77.50} $\pm$ 1.10" in latex(rows)


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (fewshot(), ("cub-1shot", "ResNet-18")),
        (fewshot("mini", "wrn28_10", shots=5), ("mini-5shot", "WRN")),
        (fewshot(backbone="efficientnet_lite0"), None),
        (fewshot(backbone=None), None),
        (fewshot(concentration=2.0), None),
        (fewshot(ways=10), None),
        (fewshot(episodic=True), None),
    ],
)
def test_only_what_the_paper_measured_is_compared_with_it(names: dict, place: tuple[str, str | None] | None) -> None:
    assert published_as(**names) == place
    assert group("fewshot", "COIN") == ""  # the paper's groups are backbones
