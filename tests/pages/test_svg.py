from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from condiff.pages.svg import Picture, Scale, circle, diamond, polyline, rectangle, spread_labels, text, tick_text

finite = st.floats(-1e6, 1e6)


def test_a_scale_is_linear_or_by_ratio() -> None:
    scale = Scale(0, 10, 100, 200)
    assert [scale(value) for value in (0, 5, 10)] == [100, 150, 200]
    log = Scale(1, 100, 0, 2, log=True)
    assert log(10) == pytest.approx(1)


@given(st.lists(finite, min_size=1, max_size=20))
def test_a_scale_around_values_holds_them(values: list[float]) -> None:
    scale = Scale.around(values, 0, 100)
    assert all(scale.holds(value) for value in values)
    assert all(-1e-6 <= scale(value) <= 100 + 1e-6 for value in values)


@given(finite, finite, st.integers(2, 12))
def test_ticks_are_round_and_inside(low: float, high: float, about: int) -> None:
    assume(high - low > 1e-3)
    ticks = Scale(low, high, 0, 1).ticks(about)
    assert 1 <= len(ticks) <= 2 * about + 2
    slack = 1e-6 * (high - low)
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    assert ticks == sorted(ticks)


@given(st.floats(1e-6, 1e5), st.floats(1.5, 1e8))
def test_ticks_by_ratio_are_inside(low: float, factor: float) -> None:
    ticks = Scale(low, low * factor, 0, 1, log=True).ticks(6)
    assert 1 <= len(ticks) <= 10
    assert all(low * (1 - 1e-9) <= tick <= low * factor * (1 + 1e-9) for tick in ticks)


def test_nothing_to_show_is_still_a_scale() -> None:
    assert Scale.around([], 0, 1).low < Scale.around([], 0, 1).high
    assert Scale.around([float("nan"), 3.0], 0, 1).holds(3.0)
    assert Scale.around([0.0, 2.0, 4.0], 0, 1, log=True).low > 1.0


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.5, "0.5"), (1e-7, "1e-07"), (0.0001, "0.0001"), (12.0, "12"), (2500.0, "2,500"), (3e7, "3e+07")],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert tick_text(value) == shown


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_labels_keep_their_distance(wanted: list[float]) -> None:
    places = spread_labels(wanted, 10, 0, 100)
    ordered = sorted(places)
    assert all(b - a >= 10 - 1e-9 for a, b in pairwise(ordered))
    assert ordered[0] >= -1e-9
    assert ordered[-1] <= 100 + 1e-9


def test_a_figure_is_described_and_well_formed() -> None:
    picture = Picture(200, 100)
    scale = Scale(0, 1, *picture.across)
    picture.horizontal_axis(scale, "time & <money>")
    picture.vertical_axis(Scale(0, 1, *picture.upwards), "u")
    picture.add(circle(1, 2, 3, "a", "hint <b>"), diamond(1, 2, 3, "d"), rectangle(0, 0, -5, 5, "r"))
    picture.add(polyline([(0, 0), (1, 1)], "l", "red"), text(0, 0, "x < y"))
    figure = ElementTree.fromstring(picture.figure("A <title>", "What & why"))
    image = figure[0]
    space = "{http://www.w3.org/2000/svg}"
    title, about = image.find(f"{space}title"), image.find(f"{space}desc")
    assert title is not None and about is not None
    assert (title.text, about.text) == ("A <title>", "What & why")
    assert image.attrib["role"] == "img"
    assert image.attrib["aria-labelledby"] == title.attrib["id"]
    assert image.attrib["aria-describedby"] == about.attrib["id"]
    assert picture.figure("A", "b") == picture.figure("A", "b")
    assert picture.figure("A", "b") != picture.figure("A", "c")
