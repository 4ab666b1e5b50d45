from __future__ import annotations

from typing import Any

import pytest
from tests.reproduce.made_up import paper_runs, run

from condiff.reproduce.figures import draw_intervals
from condiff.reproduce.figures.canvas import HIGHLIGHT, OURS
from condiff.reproduce.published import methods
from condiff.reproduce.summary import summarise

pytest.importorskip("matplotlib")


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
