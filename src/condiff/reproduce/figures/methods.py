"""A line per method, as in a table: means beside published ones, all runs, memory, the cost of unbalanced queries."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from condiff.errors import InvalidInputError
from condiff.pages.canvas import HIGHLIGHT, OURS, hint, legend_below, mark, panels, plain
from condiff.reproduce.runs import Condition
from condiff.reproduce.tables import Column, Grid, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.metrics import Metric
    from condiff.reproduce.rows import Row

#: Panels side by side; more than these go below.
SIDE_BY_SIDE = 4
_THEIRS: dict[str, Any] = {"color": "0.5", "markersize": 4.2, "linewidth": 1.0, "markerfacecolor": "white"}
_SHIFT = 0.17
#: A data set, its condition and a metric.
Place: TypeAlias = tuple[str, Condition, str]


def colour_of(method: str) -> str:
    """COIN stands out, with whatever settings stand behind its name."""
    return HIGHLIGHT if method.partition(" ")[0] == "COIN" else OURS


def line_panels(
    grid: Grid, *, width: float, height: float, sharex: bool = False, columns: Sequence[Column] | None = None
) -> tuple[Figure, list[Axes]]:
    """A panel per column of the grid; its n-th line is at n, from the top, with a rule between the paper's groups.

    Parameters
    ----------
    grid
        Whose lines and columns to show.
    width, height
        Of a panel and of a line, in inches.
    sharex
        Whether the panels have one scale.
    columns
        Those to show, by default all.
    """
    columns = grid.columns if columns is None else columns
    wide, high = min(len(columns), SIDE_BY_SIDE), -(-len(columns) // SIDE_BY_SIDE)
    size = (1.3 + width * wide, (1.2 + height * len(grid.lines)) * high)
    figure, rows = panels(high, wide, size, grid="x", sharey=True, sharex=sharex)
    places = [axes for row in rows for axes in row]
    found = places[: len(columns)]
    for axes in places[len(columns) :]:
        axes.remove()
    for column, axes in zip(columns, found, strict=True):
        axes.set_title(plain(column.title), fontsize=10, loc="left")
        axes.tick_params(axis="y", length=0)
        for number, (above, below) in enumerate(pairwise(grid.lines)):
            if above.group != below.group:
                axes.axhline(number + 0.5, color="0.75", linewidth=0.8, zorder=1)
    name_lines(found[0], [line.label for line in grid.lines])
    for row in rows:
        for line, name in zip(grid.lines, row[0].get_yticklabels(), strict=True):
            name.set_fontweight("bold" if line.method == "COIN" else "normal")
    return figure, found


def name_lines(axes: Axes, names: Sequence[str]) -> None:
    """Names from the top down at the left, one per line."""
    axes.set_yticks(range(len(names)), [plain(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)


def draw_intervals(rows: Sequence[Row]) -> Figure:
    """A line per method in the paper's order, a panel per data set: ours is filled, the published value hollow.

    The difference is written beside them, in bold beyond the metric's tolerance. A method that is far from all others
    is written at the edge, so that the others can be distinguished.
    """
    grid = lay_out(rows)
    figure, found = line_panels(grid, width=3.6, height=0.29)
    for column, axes in zip(grid.columns, found, strict=True):
        _interval_panel(axes, grid, column)
    wrapped = textwrap.fill(grid.about(), 14 + 55 * min(len(grid.columns), SIDE_BY_SIDE))
    figure.suptitle(wrapped, fontsize=9, color="0.3")
    if any(row.published is not None for row in rows):
        ours = mark("measured here", color=OURS, marker="o", markersize=5)
        legend_below(figure, [ours, mark("published", marker="o", **_THEIRS)])
    return figure


def _interval_panel(axes: Axes, grid: Grid, column: Column) -> None:
    metric = column.metric
    here = [row for (_, place), row in grid.cells.items() if place == column]
    low, high = fences((value for row in here for value in (row.mean, row.published)), len(here))
    for height, line in enumerate(grid.lines):
        row = grid.cell(line, column)
        if row is None:
            continue
        colour = HIGHLIGHT if line.method == "COIN" else OURS
        values = [value for value in (row.mean, row.published) if value is not None]
        if values and (max(values) < low or min(values) > high):
            text = row.text() if row.published is None else f"{row.text()} (published {row.published_text()})"
            write_at_edge(axes, height, text, below=max(values) < low, color=colour)
        else:
            ours: dict[str, Any] = {"color": colour, "markersize": 5, "linewidth": 1.6}
            if row.mean is not None:
                axes.errorbar(row.mean, height - _SHIFT * (len(values) == 2), xerr=row.spread, fmt="o", **ours)
            if row.published is not None:
                axes.errorbar(row.published, height + _SHIFT, xerr=row.published_std, fmt="o", **_THEIRS)
        if row.difference is not None:
            weight = "bold" if row.misses else "normal"
            _write(axes, row.difference_text(), (1.0, height), ha="right", fontweight=weight)
    if any(row.difference is not None for row in grid.cells.values()):
        axes.set_title(f"difference, bold beyond {metric.tolerance:g}", loc="right", fontsize=7.5, color="0.35")
    axes.locator_params(axis="x", nbins=6, steps=[1, 2, 5, 10])
    if column.title != metric.title:
        axes.set_xlabel(metric.title)
    _leave_room(axes)


def fences(values: Iterable[float | None], methods: int) -> tuple[float, float]:
    """Where the few that are far from the rest begin; of a few methods, all are shown."""
    found = [value for value in values if value is not None]
    if methods < 5 or not found:
        return -math.inf, math.inf
    first, third = np.percentile(found, [25, 75])
    # Three ranges between the quartiles, the box plot's "far out".
    reach = 3 * (third - first)
    return float(first - reach), float(third + reach)


def write_at_edge(axes: Axes, height: float, text: str, *, below: bool, **style: Any) -> None:
    """Say at the edge what lies beyond it."""
    place = (0.01 if below else 0.86, height)
    _write(axes, f"◀ {text}" if below else f"{text} ▶", place, ha="left" if below else "right", **style)


def _write(axes: Axes, text: str, place: tuple[float, float], **style: Any) -> None:
    axes.annotate(text, place, xycoords=("axes fraction", "data"), va="center", **({"fontsize": 7.5} | style))


def _leave_room(axes: Axes) -> None:
    """For the differences at the right."""
    left, right = axes.get_xlim()
    axes.set_xlim(left, right + 0.16 * (right - left))


@dataclass(frozen=True)
class Sample:
    """A method's values, and the published mean and spread where there are any."""

    name: str
    values: tuple[float, ...]
    published: float | None = None
    published_std: float | None = None


def draw_boxes(samples: Sequence[Sample], metric: Metric, runs: str = "runs") -> Figure:
    """A line per method: the box plot of its runs, and as a hollow diamond what was published, with its spread."""
    from matplotlib.cbook import boxplot_stats

    medians = [float(np.median(sample.values)) for sample in samples]
    low, high = fences(medians, len(samples))
    figure, [[axes]] = panels(1, 1, (9.6, 0.7 + 0.26 * len(samples)), grid="x")
    for height, (sample, median) in enumerate(zip(samples, medians, strict=True)):
        if not low <= median <= high:
            write_at_edge(axes, height, f"median {metric.text(median)}", below=median < low, color="0.35")
            continue
        colour = colour_of(sample.name)
        line = {"color": colour, "linewidth": 1.0}
        [box] = boxplot_stats(sample.values)
        box["fliers"] = [value for value in box["fliers"] if low <= value <= high]
        found = axes.bxp(
            [box],
            positions=[height],
            widths=0.58,
            orientation="horizontal",
            manage_ticks=False,
            patch_artist=True,
            boxprops={"facecolor": colour + "33", "edgecolor": colour, "linewidth": 1.0},
            whiskerprops=line,
            capprops=line,
            medianprops=line | {"linewidth": 1.8},
            flierprops={"marker": "o", "markersize": 3, "markerfacecolor": "none", "markeredgecolor": colour},
        )
        mean = metric.text(float(np.mean(sample.values)))
        about = f"{sample.name}: median {metric.text(median)}, mean {mean}, {len(sample.values):,} {runs}"
        hint(found["boxes"], about)
        if sample.published is not None:
            theirs = axes.errorbar(
                sample.published, height, xerr=sample.published_std, fmt="D", **(_THEIRS | {"color": "0.35"})
            )
            hint([theirs.lines[0]], f"published: {metric.spread_text(sample.published, sample.published_std)}")
    name_lines(axes, [textwrap.shorten(sample.name, 44, placeholder="…") for sample in samples])
    for sample, name in zip(samples, axes.get_yticklabels(), strict=True):
        name.set_fontweight("bold" if colour_of(sample.name) == HIGHLIGHT else "normal")
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.set_xlabel(metric.title)
    return figure


def draw_memory(rows: Sequence[Row]) -> Figure:
    """A bar per method on a logarithmic scale, a panel per data set, in the paper's order; COIN has its own colour."""
    measured = [row for row in rows if row.memory_mb is not None]
    if not measured:
        raise InvalidInputError("no row has a peak of memory, so there is none to show")
    # A run has one peak, however many metrics were taken of it.
    grid = lay_out([row for row in measured if row.metric == measured[0].metric])
    positive = [row.memory_mb for row in measured if row.memory_mb] or [1.0]
    # Bars on a logarithmic scale need a floor: the power of ten below the smallest.
    floor = 10.0 ** math.floor(math.log10(min(positive)) - 0.05)
    figure, found = line_panels(grid, width=3.0, height=0.24, sharex=True)
    for column, axes in zip(grid.columns, found, strict=True):
        for height, line in enumerate(grid.lines):
            row = grid.cell(line, column)
            if row is None or row.memory_mb is None:
                continue
            memory = row.memory_mb
            colour = HIGHLIGHT if line.method == "COIN" else OURS
            axes.barh(height, max(memory - floor, 0), left=floor, height=0.7, color=colour, alpha=0.85)
            text = f"{memory:,.0f}" if memory >= 10 else f"{memory:.1f}"
            end = (max(memory, floor), height)
            axes.annotate(text, end, (3, 0), textcoords="offset points", va="center", fontsize=7)
        axes.set_xscale("log")
        axes.set_xlim(floor, 4 * max(positive))
        axes.set_xlabel("peak memory of a run (MB)")
    return figure


def with_and_without_balance(rows: Sequence[Row]) -> list[tuple[Place, Place]]:
    """The places that were measured with balanced queries and with unbalanced ones, both of each."""
    found = dict.fromkeys(row.place for row in rows if "concentration" in row.condition)
    pairs = [
        ((dataset, Condition(condition, concentration=None), name), (dataset, condition, name))
        for dataset, condition, name in found
    ]
    return [pair for pair in pairs if pair[0] != pair[1] and pair[0] in found]


def draw_balance(rows: Sequence[Row]) -> Figure:
    """What few-shot methods lose where queries are not balanced: a long bar shows a method that relies on balance.

    A line per method, a panel per data set: from balanced queries, filled, to unbalanced ones, hollow. The difference
    is written at the right.
    """
    pairs = with_and_without_balance(rows)
    if not pairs:
        raise InvalidInputError("nothing was measured both with balanced and with unbalanced queries")
    grid = lay_out([row for row in rows if any(row.place in pair for pair in pairs)])
    columns = {column.place: column for column in grid.columns}
    figure, found = line_panels(grid, width=3.8, height=0.29, columns=[columns[place] for place, _ in pairs])
    for pair, axes in zip(pairs, found, strict=True):
        for height, line in enumerate(grid.lines):
            balanced, not_balanced = (grid.cell(line, columns[place]) for place in pair)
            if balanced is None or not_balanced is None or balanced.mean is None or not_balanced.mean is None:
                continue
            colour = HIGHLIGHT if line.method == "COIN" else OURS
            values = balanced.mean, not_balanced.mean
            axes.plot(values, (height, height), color=colour, linewidth=1.8, alpha=0.45, zorder=2)
            axes.plot(values[0], height, "o", color=colour, markersize=5.5)
            axes.plot(values[1], height, "o", color=colour, markersize=5.5, markerfacecolor="white")
            _write(axes, balanced.judged.difference_text(values[1] - values[0]), (1.0, height), ha="right")
        axes.set_title("difference", loc="right", fontsize=7.5, color="0.35")
        axes.set_xlabel(columns[pair[0]].metric.title)
        _leave_room(axes)
    dot = {"color": OURS, "linestyle": "", "marker": "o"}
    legend_below(figure, [mark("balanced queries", **dot), mark("unbalanced queries", **dot, markerfacecolor="white")])
    return figure
