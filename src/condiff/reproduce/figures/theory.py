"""The theory as pictures: u at three times, scale space, the output flowing over the graph, certified accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.files import atomic_path
from condiff.pages.canvas import HIGHLIGHT, OURS, bare, panels, plain
from condiff.reproduce.scale_space import heat_flow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from condiff.reproduce.evolution import Evolution
    from condiff.reproduce.scale_space import DeepMoons, Floats

_TITLES = (
    "$u(x, 0)$\na linear classifier",
    "$u(x, T-1)$\nafter the convection: the network",
    "$u(x, T)$\nafter the diffusion: COIN",
)
_MARGIN, _PIXELS = 0.35, 120
_FRAMES, _DPI = 36, 100
_PAUSE, _STEP, _REST = 900, 90, 1800  # milliseconds of the first frame, of each, and of the last
#: Times of the heat flow, in squared pixels: the blur is sqrt(2 t) wide.
_TIMES = (0.0, 2.0, 8.0, 32.0, 128.0)


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
    bare(axes)


def _frame(evolution: Evolution) -> list[tuple[float, float]]:
    low, high = evolution.points.min(axis=0) - _MARGIN, evolution.points.max(axis=0) + _MARGIN
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def flow_animation(evolutions: Sequence[Evolution], target: Path, frames: int = _FRAMES) -> None:
    """Write the animation as a GIF that starts over; the same networks give the same bytes."""
    from PIL import Image

    if target.suffix.lower() != ".gif":
        raise InvalidInputError(f"the animation is a .gif file: {target.name} is none")
    if frames < 2:
        raise InvalidInputError(f"an animation has at least 2 frames, not {frames}")
    # Short steps first: much of the flow happens early.
    shares = np.linspace(0, 1, frames) ** 2.5
    flows = [evolution.flow([round(share * evolution.layers) for share in shares]) for evolution in evolutions]
    pictures = []
    for number, share in enumerate(shares):
        figure = draw_flow(evolutions, [flow[number] for flow in flows], float(share))
        figure.set_dpi(_DPI)
        canvas: Any = figure.canvas
        canvas.draw()
        pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    # One palette for all, from the first and the last, keeps colours still and the file small.
    both = Image.new("RGB", (pictures[0].width, 2 * pictures[0].height))
    both.paste(pictures[0], (0, 0))
    both.paste(pictures[-1], (0, pictures[0].height))
    palette = both.quantize(96, method=Image.Quantize.MAXCOVERAGE)
    first, *rest = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    durations = [_PAUSE, *[_STEP] * (frames - 2), _REST]
    with atomic_path(target) as temporary:
        first.save(
            temporary, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=False
        )


def draw_flow(evolutions: Sequence[Evolution], values: Sequence[np.ndarray], share: float) -> Figure:
    """One frame: the graph's edges, the points in the colours of ``values``, and how far the diffusion is."""
    from matplotlib.collections import LineCollection

    figure, [row] = panels(1, len(evolutions), (4.0 * len(evolutions), 3.5))
    for axes, evolution, u in zip(row, evolutions, values, strict=True):
        edges = LineCollection(list(evolution.points[evolution.links]), colors="0.8", linewidths=0.4, zorder=0)
        axes.add_collection(edges)
        draw_points(axes, evolution, u)
        right = np.delete((u > 0.5) == evolution.truth, evolution.shown).mean()
        layer = round(share * evolution.layers)
        axes.set_title(f"layer {layer} of {evolution.layers}: {100 * right:.0f} % right", fontsize=10)
        axes.set_aspect("equal")
    return figure


def draw_scale_space(image: Floats, deep: DeepMoons) -> Figure:
    """The paper's first picture: an image from coarse to fine, and a classifier from its base to the network."""
    total = len(deep.network.blocks)
    blocks = [round(share * total) for share in np.linspace(0, 1, len(_TIMES))]
    low, high = deep.points.min(axis=0) - 0.5, deep.points.max(axis=0) + 0.5
    x, y = np.meshgrid(np.linspace(low[0], high[0], 160), np.linspace(low[1], high[1], 160))
    at = np.stack([x.ravel(), y.ravel()], axis=1)
    extent = (low[0], high[0], low[1], high[1])
    heights = [image.shape[0] / image.shape[1], (high[1] - low[1]) / (high[0] - low[0])]
    width = 10.5
    size = (width, 0.6 + (width - 0.4) / len(_TIMES) * sum(heights))
    figure, (above, below) = panels(2, len(_TIMES), size, height_ratios=heights)
    for axes, time, picture in zip(above, _TIMES[::-1], heat_flow(image, _TIMES[::-1]), strict=True):
        axes.imshow(np.clip(picture, 0, 1), cmap="gray", interpolation="bilinear")
        axes.set_title(f"$t = {time:g}$" if time else "$t = 0$: the image", fontsize=9.5)
    for axes, depth in zip(below, blocks, strict=True):
        field = deep.at(at, depth).reshape(x.shape)
        axes.imshow(field, extent=extent, origin="lower", cmap=colours(), vmin=0, vmax=1, alpha=0.6)
        if field.min() < 0.5 < field.max():
            axes.contour(x, y, field, levels=[0.5], colors="0.25", linewidths=0.9, linestyles="--")
        axes.scatter(
            deep.points[:, 0],
            deep.points[:, 1],
            c=deep.truth,
            cmap=colours(),
            vmin=0,
            vmax=1,
            s=4,
            edgecolor="0.3",
            linewidth=0.15,
        )
        names = {0: "$u(x, 0)$: base classifier", total: "$u(x, T)$: network"}
        axes.set_title(names.get(depth, f"{depth} of {total} layers"), fontsize=9.5)
    for axes in (*above, *below):
        bare(axes)
    above[0].set_ylabel("scale space", fontsize=9.5)
    below[0].set_ylabel("network", fontsize=9.5)
    return figure


def draw_certified(rows: Sequence[dict[str, Any]]) -> Figure:
    """A panel for each noise: certified accuracy against radius, a line per method, dashed where trained with noise."""
    noises = sorted({row["noise"] for row in rows})
    figure, [axes_row] = panels(1, len(noises), (1.2 + 3.6 * len(noises), 3.8), grid="both", sharey=True)
    for axes, noise in zip(axes_row, noises, strict=True):
        shown = [row for row in rows if row["noise"] == noise]
        for row in shown:
            colour = HIGHLIGHT if row["method"].startswith("COIN") else OURS
            style = "--" if "noise" in row["method"] else "-"
            share = 100 * np.array(row["certified_accuracy"])
            axes.plot(row["radii"], share, style, color=colour, linewidth=1.8, label=plain(row["method"]))
        axes.set_xlim(0, max(shown[0]["radii"]))
        axes.set_ylim(0, 100)
        axes.set_title(f"noise {noise:g}", fontsize=10)
        axes.set_xlabel(r"$\ell_2$ radius, pixels from 0 to 1")
    axes_row[0].set_ylabel(f"certified accuracy of {rows[0]['points']} digits (%)")
    axes_row[0].legend(frameon=False, fontsize=8, loc="lower left")
    return figure
