"""The animation: COIN's output flows over the graph, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.files import atomic_path
from condiff.reproduce.figures.canvas import panels
from condiff.reproduce.figures.evolution import draw_points

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from condiff.reproduce.evolution import Evolution

_FRAMES, _DPI = 36, 100
_PAUSE, _STEP, _REST = 900, 90, 1800  # milliseconds of the first frame, of each, and of the last


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
