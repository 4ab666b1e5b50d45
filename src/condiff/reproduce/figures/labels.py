"""Labels of scattered points that keep clear of each other: a small search, for pictures of up to some dozens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

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
