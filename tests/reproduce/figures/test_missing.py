from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce.made_up import run

from condiff.errors import InvalidInputError
from condiff.reproduce.figures import draw_missing, error_against_missing
from condiff.reproduce.figures.missing import _apart
from condiff.reproduce.protocols.covid import RATES, dataset_name
from condiff.reproduce.published import methods
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Run
from condiff.reproduce.summary import summarise

pytest.importorskip("matplotlib")

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def made_up(names: list[str], *, causal: bool = False) -> list[Run]:
    return [
        run(
            name,
            task="covid",
            dataset=dataset_name(rate, causal=causal),
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
        error_against_missing(summarise([run()]), tmp_path / "picture.png")
    error_against_missing(rows(made_up(["COIN"])), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_places_are_apart_and_no_further_off_than_they_must_be(wanted: list[float]) -> None:
    sorted_places = np.sort(np.array(wanted))
    found = _apart(sorted_places, 0.05)
    assert (np.diff(found) >= 0.05 - 1e-9).all()
    # The mean stays where it was, and what was apart already is not moved.
    assert found.mean() == pytest.approx(sorted_places.mean())
    if (np.diff(sorted_places) >= 0.05).all():
        np.testing.assert_allclose(found, sorted_places, atol=1e-12)
