from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce.made_up import run

from condiff.errors import InvalidInputError
from condiff.pages.canvas import save
from condiff.reproduce.datasets.panel import Panel
from condiff.reproduce.figures import (
    draw_forecasts,
    draw_missing,
    draw_regions,
)
from condiff.reproduce.figures.along import apart
from condiff.reproduce.figures.covid import layout
from condiff.reproduce.protocols.covid import RATES, Forecasts
from condiff.reproduce.published import methods
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.summary import summarise


def shown(regions: int = 9, names: tuple[str, ...] | None = None) -> Forecasts:
    random = np.random.default_rng(0)
    values = random.poisson(10 * np.arange(1, regions + 1), (30, regions)).astype(float)
    forecasts = {name: values[18:] + random.normal(size=(12, regions)) for name in ("GCN", "COIN")}
    return Forecasts(values, random.random(values.shape) < 0.3, forecasts, 10, names)


def test_known_and_hidden_values_and_forecasts_are_toldapart() -> None:
    data = shown()
    axes = draw_forecasts(data, regions=[2]).axes[0]
    truth, hidden, known, gcn, coin = axes.lines
    np.testing.assert_array_equal(truth.get_ydata(), data.values[:, 2])
    np.testing.assert_array_equal(known.get_xdata(), np.flatnonzero(data.known[:, 2]))
    np.testing.assert_array_equal(hidden.get_xdata(), np.flatnonzero(~data.known[:, 2]))
    assert hidden.get_markerfacecolor() == "white" != known.get_markerfacecolor()
    for line, name in ((gcn, "GCN"), (coin, "COIN")):
        np.testing.assert_array_equal(line.get_xdata(), range(18, 30))
        np.testing.assert_array_equal(line.get_ydata(), data.forecasts[name][:, 2])
    assert coin.get_linewidth() > gcn.get_linewidth()
    assert axes.get_ylim()[0] == 0.0


def test_by_default_six_regions_from_the_largest_down() -> None:
    figure = draw_forecasts(shown(20))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert len(titles) == 6
    numbers = [int(title.removeprefix("region ")) for title in titles]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] == 19
    [legend] = figure.legends
    assert [text.get_text() for text in legend.texts] == ["known", "hidden", "GCN", "COIN", "days of training"]


def test_names_are_shown_as_they_are_and_empty_places_are_not() -> None:
    figure = draw_forecasts(shown(4, ("a $x$", "b", "c", "d")), regions=[0, 1, 2, 3])
    assert [axes.get_visible() for axes in figure.axes] == [True] * 4 + [False] * 2
    assert figure.axes[0].get_title(loc="left") == r"a \$x\$"
    figure.draw_without_rendering()


def test_what_is_not_there_cannot_be_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"no region 9: they are 0 \.\. 8"):
        draw_forecasts(shown(), regions=[9])
    with pytest.raises(InvalidInputError, match="no region or no forecast"):
        draw_forecasts(shown(), regions=[])
    save(draw_forecasts(shown(), regions=[1]), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def made_up(names: list[str], *, causal: bool = False) -> list[Run]:
    return [
        run(
            name,
            task="covid",
            dataset="england",
            condition=Condition(missing=rate, causal=causal),
            metrics={"mse": 0.5 + 0.01 * place + 0.3 * rate + 0.01 * mask},
            split=mask,
        )
        for place, name in enumerate(names)
        for rate in RATES
        for mask in range(2)
    ]


def rows(*runs: list[Run]) -> list[Row]:
    return summarise([each for some in runs for each in some])


def lines(axes: Axes) -> list[Line2D]:
    """Without those that lead to the names."""
    return [line for line in axes.lines if len(line.get_xdata()) == len(RATES)]


def test_a_line_a_method_against_what_is_hidden() -> None:
    [axes] = draw_missing(rows(made_up(["GCN", "COIN", "LastValue"]))).axes
    names = {text.get_color(): text.get_text() for text in axes.texts}
    found = {names[line.get_color()]: line for line in lines(axes)}
    assert set(found) == {"GCN", "COIN", "LastValue"}
    np.testing.assert_allclose(found["COIN"].get_xdata(), RATES)
    np.testing.assert_allclose(found["COIN"].get_ydata(), [0.515 + 0.3 * rate for rate in RATES])
    assert axes.get_ylabel() == "mean squared error"
    assert len(axes.collections) == 3  # the standard errors


def test_the_causal_variant_has_a_panel_of_its_own() -> None:
    figure = draw_missing(rows(made_up(["GCN", "COIN"]), made_up(["COIN"], causal=True)))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["standardised by all days, as in the paper", "standardised by the days of training"]
    assert [len(axes.texts) for axes in figure.axes] == [2, 1]


def test_names_of_a_whole_table_do_not_overlap() -> None:
    from matplotlib.text import Text

    names = [each.name for each in methods("covid")] + ["LastValue", "SeasonalNaive", "RegionMean", "GradientBoosting"]
    figure = draw_missing(rows(made_up(names)))
    figure.draw_without_rendering()
    [axes] = figure.axes
    boxes = sorted(tuple(Text.get_window_extent(text).extents) for text in axes.texts)
    heights = sorted((box[1], box[3]) for box in boxes)
    assert len(heights) == 14
    assert all(below[1] <= above[0] + 1 for below, above in pairwise(heights))
    styles = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines(axes)}
    assert len(styles) == 14


def test_other_data_sets_are_no_rates(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing to compare"):
        draw_missing(summarise([run()]))
    save(draw_missing(rows(made_up(["COIN"]))), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_places_are_apart_and_no_further_off_than_they_must_be(wanted: list[float]) -> None:
    sorted_places = np.sort(np.array(wanted))
    found = apart(sorted_places, 0.05)
    assert (np.diff(found) >= 0.05 - 1e-9).all()
    # The mean stays where it was, and what was apart already is not moved.
    assert found.mean() == pytest.approx(sorted_places.mean())
    if (np.diff(sorted_places) >= 0.05).all():
        np.testing.assert_allclose(found, sorted_places, atol=1e-12)


def two_towns(days: int = 6) -> Panel:
    """Two groups of five regions, many movements within and few between; region 10 is joined to nobody."""
    random = np.random.default_rng(0)
    weights = np.zeros((11, 11))
    for town in (slice(0, 5), slice(5, 10)):
        weights[town, town] = 10 + random.random((5, 5))
    weights[0, 5] = 0.5
    values = random.poisson(np.arange(1, 12) * 5, (days, 11)).astype(float)
    return Panel(values, (sp.csr_array(weights),) * days)


def test_regions_between_which_people_move_are_close() -> None:
    panel = two_towns()
    weights = panel.weights[0] + panel.weights[0].T
    places = layout(sp.csr_array(weights - sp.diags_array(weights.diagonal())))
    assert places.shape == (11, 2)
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    within = max(apart[:5, :5].max(), apart[5:10, 5:10].max())
    assert within < apart[:5, 5:10].min()
    assert np.linalg.norm(places, axis=1).max() == pytest.approx(1.0)
    assert apart[np.triu_indices(11, 1)].min() > 0.02


def test_the_layout_is_the_same_again_and_survives_a_graph_without_edges() -> None:
    empty = sp.csr_array((6, 6))
    one, two = layout(empty), layout(empty)
    np.testing.assert_array_equal(one, two)
    assert np.isfinite(one).all()
    assert len(np.unique(one.round(6), axis=0)) == 6


def test_circles_are_as_large_as_their_cases_and_lines_are_movements() -> None:
    panel = two_towns()
    axes = draw_regions(panel, edges=4).axes[0]
    lines, circles = axes.collections
    totals = np.sort(panel.values.sum(axis=0))[::-1]
    sizes = np.asarray(circles.get_sizes())
    np.testing.assert_allclose((sizes - 12) / (sizes[0] - 12), totals / totals[0])
    # Four strongest movements and the strongest one of every region, which share some.
    assert 4 <= len(lines.get_segments()) <= 4 + 10
    assert f"{totals.sum():,.0f} cases" in axes.get_title(loc="left")


def test_the_colour_is_the_day_by_which_half_was_reported() -> None:
    values = np.zeros((6, 11))
    values[2, :5], values[4, 5:] = 8, 8
    panel = two_towns()
    axes, bar = draw_regions(Panel(values, panel.weights)).axes
    assert sorted(axes.collections[1].get_array().tolist()) == [2.0] * 5 + [4.0] * 6
    assert "half of the cases" in bar.get_ylabel()


def test_what_has_no_map(tmp_path: Path) -> None:
    panel = two_towns()
    with pytest.raises(InvalidInputError, match="pass the panel as reported"):
        draw_regions(panel.standardised(1))
    with pytest.raises(InvalidInputError, match="at least 3 regions"):
        draw_regions(Panel(np.ones((2, 2)), (sp.csr_array((2, 2)),) * 2))
    save(draw_regions(panel), tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
