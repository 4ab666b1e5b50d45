from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from tests.reproduce.made_up import fewshot, paper_runs, run

from condiff.errors import InvalidInputError
from condiff.pages.canvas import HIGHLIGHT, OURS
from condiff.reproduce.figures import draw_balance, draw_intervals, draw_memory, with_and_without_balance
from condiff.reproduce.figures.methods import Sample, draw_boxes
from condiff.reproduce.metrics import metric
from condiff.reproduce.published import methods
from condiff.reproduce.rows import Row
from condiff.reproduce.summary import summarise


def marks(axes: Any) -> dict[tuple[str, bool], tuple[float, float | None]]:
    """Mean and spread by the method of the line and whether it is ours."""
    names = [label.get_text() for label in axes.figure.axes[0].get_yticklabels()]
    found = {}
    for container in axes.containers:
        point, _, bars = container.lines
        [mean], [height] = point.get_data()
        [segment] = bars[0].get_segments()
        found[names[round(height)], point.get_color() in (OURS, HIGHLIGHT)] = (mean, (segment[1] - segment[0])[0] / 2)
    return found


def test_ours_stands_beside_the_published() -> None:
    rows = summarise([*paper_runs(("cora", "pubmed")), run("own"), run("own", 84.0, split=1)])
    figure = draw_intervals(rows)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [*(method.name for method in methods("node")), "own"]
    shown = marks(figure.axes[0])
    for row in rows:
        if row.dataset == "cora" and row.method != "MLP":
            assert shown.pop((row.method, True)) == pytest.approx((row.mean, row.std))
            if row.published is not None:
                assert shown.pop((row.method, False)) == pytest.approx((row.published, row.published_std))
    assert shown == {}
    left, right = figure.axes[0].get_xlim()
    assert right - left < 15


def test_a_method_far_from_all_others_is_written_at_the_edge() -> None:
    rows = summarise(paper_runs(("cora",)))
    [axes] = draw_intervals(rows).axes
    mlp = rows[0]
    [written] = [text.get_text() for text in axes.texts if "◀" in text.get_text()]
    assert written == f"◀ {mlp.mean:.1f} ± {mlp.std:.1f} (published 57.4 ± 2.1)"


def test_of_a_few_methods_all_are_drawn() -> None:
    [axes] = draw_intervals(summarise(paper_runs(("cora",), ("MLP", "GCN", "COIN")))).axes
    assert {name for name, _ in marks(axes)} == {"MLP", "GCN", "COIN"}


def test_differences_are_written_and_misses_are_bold() -> None:
    rows = summarise([run("GCN", 81.9), run("GAT", 78.0), run("own")])
    [axes] = draw_intervals(rows).axes
    assert [(text.get_text(), text.get_fontweight()) for text in axes.texts] == [("+0.3", "normal"), ("-2.8", "bold")]
    assert axes.get_title(loc="right") == "difference, bold beyond 1"


def test_one_run_is_a_point_without_an_interval() -> None:
    [axes] = draw_intervals(summarise([run("own")])).axes
    [container] = axes.containers
    assert container.lines[2] == ()
    assert draw_intervals(summarise([run("own")])).legends == []  # nothing published to tell apart


def test_rules_stand_between_the_groups() -> None:
    [axes] = draw_intervals(summarise(paper_runs(("cora",), ("GCN", "GAT", "CGNN", "COIN")))).axes
    rules = sorted(line.get_ydata()[0] for line in axes.lines if list(line.get_xdata()) == [0, 1])
    assert rules == [1.5, 2.5]


def test_the_runs_are_stated() -> None:
    figure = draw_intervals(summarise(paper_runs(("cora",), ("GCN", "COIN"))))
    assert figure.get_suptitle() == "mean ± standard deviation over 3 splits with 2 initialisations each"


def fewshot_rows(unbalanced: bool = False, **measured: dict[str, float]) -> list[Row]:
    """Means by data set and method."""
    concentration = 2.0 if unbalanced else None
    return summarise(
        [
            run(method, value, **fewshot(dataset, None, concentration=concentration))
            for dataset, values in measured.items()
            for method, value in values.items()
        ]
    )


def test_a_bar_goes_from_balanced_to_unbalanced_queries() -> None:
    figure = draw_balance(
        fewshot_rows(a={"TIM": 81.0, "COIN": 82.0, "ProtoNet": 64.0}, b={"COIN": 90.0})
        + fewshot_rows(unbalanced=True, a={"TIM": 63.5, "COIN": 78.0})
    )
    [axes] = figure.axes  # b was measured in one way only
    bars = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert [(tuple(bar.get_xdata()), bar.get_color()) for bar in bars] == [
        ((82.0, 78.0), HIGHLIGHT),
        ((81.0, 63.5), OURS),
    ]
    assert [text.get_text() for text in axes.texts] == ["-4.00", "-17.50"]


def test_there_must_be_both() -> None:
    one = fewshot_rows(a={"COIN": 82.0}) + fewshot_rows(unbalanced=True, b={"COIN": 78.0})
    assert with_and_without_balance(one) == []
    with pytest.raises(InvalidInputError, match="both with balanced and with unbalanced"):
        draw_balance(one)


def test_more_than_four_panels_go_below() -> None:
    figure = draw_intervals(fewshot_rows(**{name: {"COIN": 82.0, "TIM": 81.0} for name in "abcdef"}))
    assert [axes.get_title(loc="left") for axes in figure.axes] == list("abcdef")
    tops = [axes.get_subplotspec().rowspan.start for axes in figure.axes]
    assert tops == [0, 0, 0, 0, 1, 1]
    for axes in (figure.axes[0], figure.axes[4]):
        assert [label.get_fontweight() for label in axes.get_yticklabels()] == ["bold", "normal"]


def test_a_bar_ends_at_the_peak_of_its_method() -> None:
    rows = summarise([*paper_runs(("cora", "pubmed")), run("own")])
    figure = draw_memory(rows)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Cora", "Pubmed"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [*(method.name for method in methods("node")), "own"]
    for axes, dataset in zip(figure.axes, ("cora", "pubmed"), strict=True):
        assert axes.get_xscale() == "log"
        ends = {round(bar.get_y() + bar.get_height() / 2): bar.get_x() + bar.get_width() for bar in axes.patches}
        expected = {names.index(row.method): row.memory_mb for row in rows if row.dataset == dataset}
        assert ends == pytest.approx(expected)
        assert all(axes.get_xlim()[0] < end < axes.get_xlim()[1] for end in ends.values())
    assert figure.axes[0].yaxis_inverted()


def test_coin_has_its_own_colour() -> None:
    [axes] = draw_memory(summarise([run("GCN"), run("COIN")])).axes
    colours = [to_hex(bar.get_facecolor()).upper() for bar in axes.patches]
    assert [colour == HIGHLIGHT for colour in colours] == [False, True]


def test_no_memory_at_all_is_a_bar_of_no_length() -> None:
    [axes] = draw_memory(summarise([run("GCN", memory_mb=0.0), run(memory_mb=12.0)])).axes
    assert [bar.get_width() > 0 for bar in axes.patches] == [False, True]
    assert [text.get_text() for text in axes.texts] == ["0.0", "12"]


def test_several_metrics_of_a_run_are_one_bar() -> None:
    [axes] = draw_memory(summarise([run(metrics={"accuracy": 80.0, "roc_auc": 0.8})])).axes
    assert len(axes.patches) == 1


def test_without_any_measurement_there_is_nothing_to_show() -> None:
    with pytest.raises(InvalidInputError, match="none to show"):
        draw_memory(summarise([run(memory_mb=float("nan"))]))


def test_boxes_are_of_all_runs_and_what_is_far_is_written_at_the_edge() -> None:
    samples = [
        Sample("COIN", (82.0, 83.0, 84.0), 82.2, 1.2),
        Sample("GCN <b>", (80.0, 81.0, 81.5), 81.6, None),
        *(Sample(f"m{i}", (79.0 + i, 80.0 + i)) for i in range(4)),
        Sample("far", (12.0, 13.0)),
    ]
    [axes] = draw_boxes(samples, metric("accuracy")).axes
    boxes = {round(np.mean(box.get_path().vertices[:4, 1])): box for box in axes.patches}
    assert sorted(boxes) == [0, 1, 2, 3, 4, 5]
    assert boxes[0].get_gid() == "hint: COIN: median 83.0, mean 83.0, 3 runs"
    assert to_hex(boxes[0].get_edgecolor()).upper() == HIGHLIGHT
    assert [text.get_text() for text in axes.texts] == ["◀ median 12.5"]
    assert [container.lines[0].get_xdata()[0] for container in axes.containers] == [82.2, 81.6]  # published
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["COIN", "GCN <b>"]
