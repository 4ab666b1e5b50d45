from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from tests.reproduce.made_up import run, sweep

from condiff.errors import InvalidInputError
from condiff.reproduce.demo import Run
from condiff.reproduce.figures import draw_strength, draw_time, save
from condiff.reproduce.figures.along import draw_labels

LIMITS = {"cora": {"stability limit": 0.346, "positivity limit": 0.174}, "citeseer": {"stability limit": 0.475}}


def vertical_lines(axes) -> list[float]:  # type: ignore[no-untyped-def]
    found = [line.get_xdata() for line in axes.lines if list(line.get_ydata()) == [0, 1]]
    return sorted(float(x[0]) for x in found)


def test_rows_are_layers_and_columns_data_sets_in_the_paper_s_order() -> None:
    figure = draw_strength(sweep(("pubmed", "cora"), (40, 20)))
    assert [axes.get_title() for axes in figure.axes] == [
        "Cora, $K = 20$",
        "Pubmed, $K = 20$",
        "Cora, $K = 40$",
        "Pubmed, $K = 40$",
    ]
    assert [axes.get_ylabel() for axes in figure.axes] == ["accuracy (%)", "", "accuracy (%)", ""]
    assert all("sigma" in axes.get_xlabel() for axes in figure.axes[2:])


def test_boxes_stand_at_their_strengths_with_median_and_mean() -> None:
    runs = sweep(layers=(20,))
    [axes] = draw_strength(runs).axes
    found = {s: [r.metrics["accuracy"] for r in runs if r.settings["strength"] == s] for s in (0.1, 0.2, 0.3)}
    assert [float(np.mean(patch.get_path().vertices[:4, 0])) for patch in axes.patches] == pytest.approx(list(found))
    medians = [line for line in axes.lines if line.get_color() == "#E8820C"]
    means = [line for line in axes.lines if line.get_color() == "#2E9E3F"]
    assert [line.get_ydata()[0] for line in medians] == pytest.approx([np.median(v) for v in found.values()])
    assert [line.get_ydata()[0] for line in means] == pytest.approx([np.mean(v) for v in found.values()])
    assert {line.get_linestyle() for line in medians} == {"-"}
    assert {line.get_linestyle() for line in means} == {"--"}


def test_an_outlier_is_a_point_and_whiskers_reach_one_and_a_half_ranges() -> None:
    values = [*range(80, 90), 20]
    runs = [run(accuracy=v, settings={"layers": 20, "strength": 0.1}, split=n) for n, v in enumerate(values)]
    [axes] = draw_strength(runs).axes
    points = [y for line in axes.lines if line.get_marker() == "o" for y in line.get_ydata()]
    assert points == [20]
    whiskers = [
        line.get_ydata() for line in axes.lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2
    ]
    assert sorted(float(end) for _, end in whiskers) == [80.0, 89.0]


def test_limits_are_marked_on_their_data_set_and_named_once() -> None:
    figure = draw_strength(sweep(("cora", "citeseer", "pubmed")), limits=LIMITS)
    marked = [vertical_lines(axes) for axes in figure.axes]
    assert marked == [[0.174, 0.346], [0.475], []] * 2
    [legend] = figure.legends
    assert [text.get_text() for text in legend.texts] == ["median", "mean", "stability limit", "positivity limit"]
    assert figure.axes[1].get_xlim()[1] > 0.475  # beyond the strengths, yet in the picture


def test_runs_without_numbers_for_both_are_left_out() -> None:
    others = [run(), run(settings={"layers": 20, "strength": "auto"}), run(settings={"layers": 20, "strength": None})]
    assert len(draw_strength([*others, *sweep(layers=(20,))]).axes[0].patches) == 3
    with pytest.raises(InvalidInputError, match="nothing to compare"):
        draw_strength(others)


RUNS = [
    Run("COIN", labels, draw, 0.6 + 0.05 * draw + 0.02 * time, time)
    for labels in (1, 5)
    for draw in range(3)
    for time in (0.0, 0.1, 1.0, 10.0)
]


def test_a_picture_is_a_png_of_some_size(tmp_path: Path) -> None:
    save(draw_time(RUNS), tmp_path / "folder" / "picture.png")
    content = (tmp_path / "folder" / "picture.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    pixels = imread(tmp_path / "folder" / "picture.png")
    assert pixels.shape[0] > 300
    assert pixels.shape[1] > 600
    assert pixels.std() > 0.01  # something is drawn
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["picture.png"]


def test_the_same_runs_give_the_same_bytes_and_others_give_others(tmp_path: Path) -> None:
    save(draw_time(RUNS), tmp_path / "a.png")
    save(draw_time(list(RUNS)), tmp_path / "b.png")
    save(draw_time(RUNS[:-1]), tmp_path / "c.png")
    a, b, c = ((tmp_path / f"{name}.png").read_bytes() for name in "abc")
    assert a == b != c


def test_runs_of_the_table_are_not_drawn(tmp_path: Path) -> None:
    save(draw_time(RUNS), tmp_path / "a.png")
    save(draw_time([*RUNS, Run("COIN", 2, 0, 0.1)]), tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_lines_against_labels_are_named_at_their_ends() -> None:
    series = {"COIN": [(1, 90.0), (10, 97.0)], "network alone": [(1, 50.0), (10, 80.0)], "$x$": [(1, 60.0), (10, 81.0)]}
    [axes] = draw_labels(series).axes
    assert [text.get_text() for text in axes.texts] == ["network alone", r"\$x\$", "COIN"]
    heights = [text.xy[1] for text in axes.texts]
    assert all(above - below > 0.04 for below, above in pairwise(heights))
    assert axes.get_xlabel() == "labels per class"
