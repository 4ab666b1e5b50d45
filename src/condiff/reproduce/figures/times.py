"""Methods as labelled points in a plane: what an epoch and a run take, and what one gets for the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condiff.errors import InvalidInputError
from condiff.pages.canvas import HIGHLIGHT, hint, panels, plain
from condiff.reproduce.figures.methods import colour_of, fences
from condiff.reproduce.metrics import metric
from condiff.reproduce.published import published
from condiff.reproduce.rows import labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.reproduce.metrics import Metric
    from condiff.reproduce.rows import Row

    Floats = NDArray[np.float64]

_PAPER = "0.55"


def draw_times(rows: Sequence[Row], *, with_published: bool = False) -> Figure:
    """The paper's picture of time: an epoch and a run of every method, coloured by accuracy; a panel per data set.

    Methods that have no epochs have no place and are named in a corner. With ``with_published``, the paper's times, on
    an RTX 3090, are small hollow marks.
    """
    judged = [row for row in rows if row.metric == "accuracy" and row.mean is not None]
    places = list(dict.fromkeys(row.place for row in judged if row.seconds_per_epoch))
    if not places:
        raise InvalidInputError("no row has an accuracy and the time of an epoch, so there are no times to show")
    figure, [line] = panels(1, len(places), (6.4 * len(places), 5.0), grid="both")
    jobs = []
    for place, axes in zip(places, line, strict=True):
        here = [row for row in judged if row.place == place]
        timed = [row for row in here if row.seconds_per_epoch]
        written = _scatter(figure, axes, timed)
        if with_published:
            written += _scatter_published(axes, timed)
        untimed = [row.method for row in here if not row.seconds_per_epoch]
        if untimed:
            axes.set_title(f"without epochs: {', '.join(untimed)}", loc="right", fontsize=7.5, color="0.35")
        axes.set_title(plain(here[0].title), loc="left", fontsize=10)
        axes.set(xscale="log", yscale="log", xlabel="time of an epoch (s)")
        axes.margins(0.12)
        jobs.append((axes, written))
    line[0].set_ylabel("convergence time of a run (s)")
    for axes, written in jobs:  # last: labels keep clear of all that is there
        label_points(axes, written)
    return figure


def draw_score_against_time(points: Sequence[tuple[str, float, float]], judged: Metric) -> tuple[Figure, list[str]]:
    """Each method at the seconds of a run and its mean score; those far from the others are returned, not drawn."""
    low, high = fences((score for _, _, score in points), len(points))
    near = [point for point in points if low <= point[2] <= high]
    figure, [[axes]] = panels(1, 1, (9.6, 4.4), grid="both")
    written = []
    for name, seconds, score in near:
        dot = axes.plot(seconds, score, "o", color=colour_of(name), markersize=6, markeredgecolor="white")
        hint(dot, f"{name}: {judged.text(score)} in {seconds:.2g} s")
        written.append(Label(seconds, score, plain(name), HIGHLIGHT if colour_of(name) == HIGHLIGHT else "0.1"))
    axes.set(xscale="log", xlabel="time of a run (s)", ylabel=judged.title)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(0.08, 0.1)
    label_points(axes, written, fontsize=8)
    return figure, [name for name, _, score in points if not low <= score <= high]


def _scatter(figure: Figure, axes: Axes, rows: list[Row]) -> list[Label]:
    accuracy = [row.mean or 0.0 for row in rows]
    # One method far below the others would take all the colours; it shares the lowest, as a box plot's outlier would.
    first, third = np.percentile(accuracy, [25, 75])
    low = max(min(accuracy), first - 1.5 * (third - first))
    x, y = [row.seconds_per_epoch or 0.0 for row in rows], [row.seconds_per_run or 0.0 for row in rows]
    style: dict[str, Any] = {"edgecolors": "0.25", "linewidths": 0.6, "zorder": 3}
    marks = axes.scatter(x, y, s=46, c=accuracy, cmap="viridis", vmin=low, **style)
    bar = figure.colorbar(marks, ax=axes, extend="min" if low > min(accuracy) else "neither", pad=0.02, aspect=30)
    bar.set_label(metric("accuracy").title)
    bar.outline.set_visible(False)
    colours = [HIGHLIGHT if row.method == "COIN" else "0.1" for row in rows]
    return [Label(*each) for each in zip(x, y, map(plain, labels(rows)), colours, strict=True)]


def _scatter_published(axes: Axes, rows: list[Row]) -> list[Label]:
    found = {}
    for row in rows:
        epoch, run = (
            published(row.task, row.dataset, row.method, f"{name}_rtx3090")
            for name in ("seconds_per_epoch", "seconds_to_converge")
        )
        if epoch and run:
            found[row.method] = Label(epoch.value, run.value, row.method, _PAPER)
    if found:
        x, y = [label.x for label in found.values()], [label.y for label in found.values()]
        axes.scatter(x, y, s=16, facecolors="none", edgecolors=_PAPER, linewidths=0.8)
        about = "hollow: published, on an RTX 3090"
        axes.annotate(about, (0.02, 0.98), xycoords="axes fraction", va="top", fontsize=8, color=_PAPER)
    return list(found.values())


# Labels that keep clear of each other: a small search over these places, for up to some dozens of points.
_ANGLES = np.deg2rad([0, 180, 90, 270, 45, 315, 135, 225, 22.5, 337.5, 157.5, 202.5, 67.5, 292.5, 112.5, 247.5])
_GAPS = (5.0, 8.0, 12.0, 18.0, 26.0, 36.0, 48.0)
_MARK = 4.0  # half of a mark's width, in points
_PADDING = 2.0
_STARTS, _PASSES = 6, 5


class Label(NamedTuple):
    """A text, its colour, and the point that it belongs to."""

    x: float
    y: float
    text: str
    colour: str


def label_points(axes: Axes, labels: Sequence[Label], *, fontsize: float = 7.5) -> None:
    """Write each text beside its point; a thin line joins them where there is no room close by.

    All else must have been drawn before: the search looks at where things are.
    """
    from matplotlib.text import Text

    figure = axes.get_figure(root=True)
    assert figure is not None
    written = [
        axes.annotate(
            label.text,
            (label.x, label.y),
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=fontsize,
            color=label.colour,
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        )
        for label in labels
    ]
    for text in written:
        text.set_in_layout(False)  # what is placed by the axes must not move them
    figure.draw_without_rendering()
    scale = figure.dpi / 72  # from pixels to points
    points = axes.transData.transform([(label.x, label.y) for label in labels]) / scale
    # A text's own extent: an annotation's would include the line.
    sizes = np.array([Text.get_window_extent(text).size for text in written]) / scale + _PADDING
    offsets = place(points, sizes, np.array(axes.get_window_extent().extents) / scale)
    for text, offset, size in zip(written, offsets, sizes, strict=True):
        text.set_position(tuple(offset))
        assert text.arrow_patch is not None
        text.arrow_patch.set_visible(np.hypot(*np.maximum(np.abs(offset) - size / 2, 0)) > _GAPS[1])


def place(points: Floats, sizes: Floats, frame: Floats) -> Floats:
    """Where the centre of each label goes, relative to its point.

    Parameters
    ----------
    points
        (n, 2), in any unit of length that the other arguments share.
    sizes
        (n, 2): width and height of each label.
    frame
        Left, bottom, right and top of where labels may be.
    """
    directions = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=-1)
    n = len(points)
    # (candidates, n, 2): along each direction until the label's side is a gap away from the point.
    offsets = np.concatenate([directions[:, None] * (gap + sizes[None] / 2) for gap in _GAPS])
    boxes = np.concatenate([points + offsets - sizes / 2, points + offsets + sizes / 2], axis=-1)
    marks = np.concatenate([points - _MARK, points + _MARK], axis=-1)
    outside = np.prod(sizes, axis=-1) - _overlap(boxes, frame)
    taste = np.repeat(_GAPS, len(_ANGLES)) + np.tile(np.linspace(0, 2, len(_ANGLES)), len(_GAPS))
    crossed = _passes(points, offsets).sum(-1)
    fixed = 50 * outside + 5 * _overlap(boxes[:, :, None], marks).sum(-1) + 20 * crossed + taste[:, None]
    costs, choices = [], []
    for start in range(_STARTS):  # each comes to rest where no single label can do better
        order = np.random.default_rng(start).permutation(n)
        chosen = fixed.argmin(0)
        for label in np.tile(order, _PASSES):
            chosen[label] = (fixed[:, label] + _crowding(boxes, chosen, label)).argmin()
        costs.append(sum(fixed[chosen[i], i] + _crowding(boxes, chosen, i)[chosen[i]] / 2 for i in range(n)))
        choices.append(chosen)
    best = choices[int(np.argmin(costs))]
    return np.asarray(offsets[best, np.arange(n)])


def _crowding(boxes: Floats, chosen: NDArray[np.int64], label: int) -> Floats:
    # What each place of a label costs where the others are.
    others = np.delete(np.arange(len(chosen)), label)
    return np.asarray(20 * _overlap(boxes[:, label, None], boxes[chosen[others], others]).sum(-1))


def _passes(points: Floats, offsets: Floats) -> NDArray[np.bool_]:
    # (candidates, n, n): whether the way from a point to its label comes close to another point.
    others = points[None, None] - points[None, :, None]
    way = offsets[:, :, None]
    along = np.clip((others * way).sum(-1) / (way**2).sum(-1), 0, 1)
    near = np.linalg.norm(others - along[..., None] * way, axis=-1) < _MARK
    return np.asarray(near & (along > 0))  # a point does not stand in its own way


def _overlap(first: Floats, second: Floats) -> Floats:
    # Areas that boxes (left, bottom, right, top) share.
    sides = np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(first[..., :2], second[..., :2])
    return np.asarray(np.prod(np.maximum(sides, 0), axis=-1))
