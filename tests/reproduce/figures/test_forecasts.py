from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.figures import case_forecasts, draw_forecasts
from condiff.reproduce.protocols.covid import Forecasts

pytest.importorskip("matplotlib")


def shown(regions: int = 9, names: tuple[str, ...] | None = None) -> Forecasts:
    random = np.random.default_rng(0)
    values = random.poisson(10 * np.arange(1, regions + 1), (30, regions)).astype(float)
    forecasts = {name: values[18:] + random.normal(size=(12, regions)) for name in ("GCN", "COIN")}
    return Forecasts(values, random.random(values.shape) < 0.3, forecasts, 10, names)


def test_known_and_hidden_values_and_forecasts_are_told_apart() -> None:
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
        case_forecasts(shown(), tmp_path / "picture.png", regions=[9])
    with pytest.raises(InvalidInputError, match="no region or no forecast"):
        case_forecasts(shown(), tmp_path / "picture.png", regions=[])
    case_forecasts(shown(), tmp_path / "picture.png", regions=[1])
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
