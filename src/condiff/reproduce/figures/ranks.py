"""Mean ranks of methods over many tables, with bars that join those that cannot be distinguished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.pages.canvas import HIGHLIGHT, OURS, bare, panels, plain
from condiff.reproduce.metrics import metric
from condiff.reproduce.rows import dataset_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from condiff.reproduce.comparison import Comparison


def draw_ranks(found: Comparison, name: str) -> Figure:
    """The critical-difference diagram of Demšar (JMLR 2006): the best at the left.

    Half of the methods are named at either side. A bar joins neighbouring methods whose ranks differ by less than
    Nemenyi's critical difference.
    """
    ranks = found.ranks(name).mean(axis=1)
    order = [index for index in np.argsort(ranks, kind="stable") if index in found.contenders]
    number, difference = len(order), found.critical_difference()
    low, high = int(np.floor(ranks[order[0]])), int(np.ceil(ranks[order[-1]]))
    bars = joined(ranks[order], difference)
    left = (number + 1) // 2
    first = 1.2 + 0.45 * len(bars)  # below the bars
    depth = first + 0.9 * left
    figure, [[axes]] = panels(1, 1, (8.6, 0.9 + 0.24 * depth))
    bare(axes)
    axes.set(xlim=(low - 0.26 * (high - low), high + 0.26 * (high - low)), ylim=(depth, -2.4))
    axes.plot([low, high], [0, 0], color="0.2", linewidth=1.2)
    for tick in range(low, high + 1):
        axes.plot([tick, tick], [0, -0.3], color="0.2", linewidth=1.0)
        axes.text(tick, -0.45, str(tick), ha="center", va="bottom", fontsize=8)
    axes.plot([low, low + difference], [-1.75, -1.75], color="0.2", linewidth=2)
    axes.text(
        low + difference / 2, -1.95, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=8
    )
    for place, index in enumerate(order):
        ahead = place < left
        height = first + 0.9 * (place if ahead else number - 1 - place)
        edge = low - 0.03 * (high - low) if ahead else high + 0.03 * (high - low)
        colour = HIGHLIGHT if found.names[index] == "COIN" else OURS
        axes.plot([ranks[index], ranks[index], edge], [0, height, height], color=colour, linewidth=0.9)
        label = f"{plain(found.methods[index])}  {ranks[index]:.2f}"
        style: dict[str, Any] = {"va": "center", "fontsize": 8.5, "ha": "right" if ahead else "left"}
        style["fontweight"] = "bold" if found.names[index] == "COIN" else "normal"
        axes.text(edge + (-1 if ahead else 1) * 0.012 * (high - low), height, label, **style)
    for level, (begin, end) in enumerate(bars):
        height = 0.55 + 0.45 * level
        span = [ranks[order[begin]] - 0.03, ranks[order[end]] + 0.03]
        axes.plot(span, [height, height], color="0.35", linewidth=3, solid_capstyle="round")
    draws = f"{len(found.draws)} draw{'s' * (len(found.draws) > 1)}"
    about = f"mean {metric(f'rank_{name}').title} over {len(found.tables)} tables, {draws}"
    axes.set_title(
        f"{dataset_title('tables', 'tables', found.condition)}: {about}", fontsize=9, color="0.3", loc="left"
    )
    return figure


def joined(ranks: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """The longest stretches of ascending ranks that differ by less than this, first and last of each."""
    found: list[tuple[int, int]] = []
    for begin in range(len(ranks)):
        end = int(np.flatnonzero(ranks <= ranks[begin] + difference)[-1])
        if end > begin and (not found or end > found[-1][1]):
            found.append((begin, end))
    return found
