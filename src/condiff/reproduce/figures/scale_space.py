"""The paper's first picture: scale space of an image above, and from a base classifier to a network below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from condiff.reproduce.figures.canvas import panels, save
from condiff.reproduce.figures.evolution import colours
from condiff.reproduce.scale_space import heat_flow

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from condiff.reproduce.scale_space import DeepMoons, Floats

#: Times of the heat flow, in squared pixels: the blur is sqrt(2 t) wide.
_TIMES = (0.0, 2.0, 8.0, 32.0, 128.0)
_MARGIN, _PIXELS = 0.5, 160


def scale_space(image: Floats, deep: DeepMoons, target: Path) -> None:
    """Write :func:`draw_scale_space`."""
    save(draw_scale_space(image, deep), target)


def draw_scale_space(image: Floats, deep: DeepMoons) -> Figure:
    """An image from coarse to fine, and a classifier from its base to the network, side by side in time."""
    total = len(deep.network.blocks)
    blocks = [round(share * total) for share in np.linspace(0, 1, len(_TIMES))]
    low, high = deep.points.min(axis=0) - _MARGIN, deep.points.max(axis=0) + _MARGIN
    x, y = np.meshgrid(np.linspace(low[0], high[0], _PIXELS), np.linspace(low[1], high[1], _PIXELS))
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
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
        axes.spines[:].set_visible(False)
    above[0].set_ylabel("scale space", fontsize=9.5)
    below[0].set_ylabel("network", fontsize=9.5)
    return figure
