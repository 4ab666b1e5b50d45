"""The picture of certified accuracy: how many answers are right and safe, against how far an input may move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.reproduce.figures.canvas import HIGHLIGHT, OURS, panels, plain, save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure


def certified_curves(rows: Sequence[dict[str, Any]], target: Path) -> None:
    """Write :func:`draw_certified`."""
    save(draw_certified(rows), target)


def draw_certified(rows: Sequence[dict[str, Any]]) -> Figure:
    """A panel for each noise: certified accuracy against radius, a line a method, dashed where trained with noise."""
    noises = sorted({row["noise"] for row in rows})
    figure, [axes_row] = panels(1, len(noises), (1.2 + 3.6 * len(noises), 3.8), grid="both", sharey=True)
    for axes, noise in zip(axes_row, noises, strict=True):
        shown = [row for row in rows if row["noise"] == noise]
        for row in shown:
            colour = OURS if row["method"].startswith("COIN") else HIGHLIGHT
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
