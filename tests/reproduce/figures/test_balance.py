from __future__ import annotations

from pathlib import Path

import pytest
from tests.reproduce.made_up import run

from condiff.errors import InvalidInputError
from condiff.reproduce.figures import balance_bars, draw_balance, draw_intervals, with_and_without_balance
from condiff.reproduce.figures.canvas import HIGHLIGHT, OURS
from condiff.reproduce.rows import Row
from condiff.reproduce.summary import summarise

pytest.importorskip("matplotlib")


def rows(**measured: dict[str, float]) -> list[Row]:
    """Means by data set, with an underscore for each dash, and method."""
    return summarise(
        [
            run(method, value, task="fewshot", dataset=dataset.replace("_", "-"))
            for dataset, values in measured.items()
            for method, value in values.items()
        ]
    )


def test_a_bar_goes_from_balanced_to_unbalanced_queries() -> None:
    figure = draw_balance(
        rows(
            a_1shot={"TIM": 81.0, "COIN": 82.0, "ProtoNet": 64.0},
            a_1shot_unbalanced={"TIM": 63.5, "COIN": 78.0},
            b_1shot={"COIN": 90.0},
        )
    )
    [axes] = figure.axes  # b was measured in one way only
    bars = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert [(tuple(bar.get_xdata()), bar.get_color()) for bar in bars] == [
        ((82.0, 78.0), HIGHLIGHT),
        ((81.0, 63.5), OURS),
    ]
    assert [text.get_text() for text in axes.texts] == ["-4.00", "-17.50"]


def test_there_must_be_both(tmp_path: Path) -> None:
    one = rows(a_1shot={"COIN": 82.0}, b_1shot_unbalanced={"COIN": 78.0})
    assert with_and_without_balance(one) == []
    with pytest.raises(InvalidInputError, match="both with balanced and with unbalanced"):
        balance_bars(one, tmp_path / "balance.png")
    assert list(tmp_path.iterdir()) == []


def test_more_than_four_panels_go_below() -> None:
    figure = draw_intervals(rows(**{f"{name}_1shot": {"COIN": 82.0, "TIM": 81.0} for name in "abcdef"}))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"{name}-1shot" for name in "abcdef"]
    tops = [axes.get_subplotspec().rowspan.start for axes in figure.axes]
    assert tops == [0, 0, 0, 0, 1, 1]
    for axes in (figure.axes[0], figure.axes[4]):
        assert [label.get_fontweight() for label in axes.get_yticklabels()] == ["bold", "normal"]
