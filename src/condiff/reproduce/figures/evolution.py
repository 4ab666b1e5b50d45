"""The paper's picture of its network: u(x, 0), u(x, T-1) and u(x, T) on the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from condiff.reproduce.figures.canvas import HIGHLIGHT, OURS, panels, save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from condiff.reproduce.evolution import Evolution

_TITLES = (
    "$u(x, 0)$\na linear classifier",
    "$u(x, T-1)$\nafter the convection: the network",
    "$u(x, T)$\nafter the diffusion: COIN",
)
_MARGIN, _PIXELS = 0.35, 120


def three_times(evolutions: Sequence[Evolution], target: Path) -> None:
    """Write :func:`draw_three_times`."""
    save(draw_three_times(evolutions), target)


def draw_three_times(evolutions: Sequence[Evolution]) -> Figure:
    """A row for each data set: the probability of class 1 on the plane and at the points, at the three times."""
    frames = [_frame(evolution) for evolution in evolutions]
    heights = [(top - bottom) / (right - left) for (left, right), (bottom, top) in frames]
    size = (9.0, 0.5 + 0.25 * len(frames) + 2.9 * sum(heights))
    figure, rows = panels(len(frames), 3, size, height_ratios=heights)
    for number, (evolution, row) in enumerate(zip(evolutions, rows, strict=True)):
        (left, right), (bottom, top) = frames[number]
        wide = round(_PIXELS * (right - left) / (top - bottom))
        x, y = np.meshgrid(np.linspace(left, right, wide), np.linspace(bottom, top, _PIXELS))
        grid = evolution.stages(np.stack([x.ravel(), y.ravel()], axis=1))
        at_points = (*evolution.stages(evolution.points)[:2], evolution.flow([evolution.layers])[0])
        for axes, title, field, values in zip(row, _TITLES, grid, at_points, strict=True):
            shade = field.reshape(x.shape)
            axes.imshow(
                shade,
                extent=(left, right, bottom, top),
                origin="lower",
                cmap=colours(),
                vmin=0,
                vmax=1,
                alpha=0.45,
                interpolation="bilinear",
            )
            if shade.min() < 0.5 < shade.max():
                axes.contour(x, y, shade, levels=[0.5], colors="0.25", linewidths=0.9, linestyles="--")
            draw_points(axes, evolution, values)
            right_share = np.delete((values > 0.5) == evolution.truth, evolution.shown).mean()
            axes.set_title(
                f"{title}\n{_percent(right_share)} right" if number == 0 else f"{_percent(right_share)} right"
            )
            axes.title.set_fontsize(9.5)
            axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
        row[0].set_ylabel(evolution.name)
    return figure


def colours() -> Colormap:
    """From class 0 over white to class 1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("classes", [OURS, "#f7f7f7", HIGHLIGHT])


def draw_points(axes: Axes, evolution: Evolution, values: np.ndarray) -> None:
    """The points in the colours of their values, and the labelled ones as stars in the colours of their classes."""
    x, y = evolution.points.T
    axes.scatter(x, y, c=values, cmap=colours(), vmin=0, vmax=1, s=11, edgecolor="0.3", linewidth=0.3)
    shown = evolution.shown
    axes.scatter(
        x[shown],
        y[shown],
        c=evolution.truth[shown],
        cmap=colours(),
        vmin=0,
        vmax=1,
        s=110,
        marker="*",
        edgecolor="black",
        linewidth=0.9,
        zorder=3,
    )
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)


def _frame(evolution: Evolution) -> list[tuple[float, float]]:
    low, high = evolution.points.min(axis=0) - _MARGIN, evolution.points.max(axis=0) + _MARGIN
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
