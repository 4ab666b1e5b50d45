from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.reproduce.datasets.panel import Panel
from condiff.reproduce.figures import draw_regions, region_map
from condiff.reproduce.figures.regions import layout

pytest.importorskip("matplotlib")


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
        region_map(panel.standardised(1), tmp_path / "map.png")
    with pytest.raises(InvalidInputError, match="at least 3 regions"):
        region_map(Panel(np.ones((2, 2)), (sp.csr_array((2, 2)),) * 2), tmp_path / "map.png")
    region_map(panel, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
