"""How accuracy grows with the labels that a strategy asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.pages.canvas import class_colours, legend_below, mark, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row

_AT = (1, 2, 5)


def draw_curves(rows: Sequence[Row]) -> Figure:
    """Means over the data sets, one line per method; the default is drawn thick, and random order dashed."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row.metric.startswith("accuracy_") and row.mean is not None:
            found.setdefault(row.method, {}).setdefault(row.metric, []).append(row.mean)
    figure, [[axes]] = panels(1, 1, (7.4, 4.6))
    handles = []
    for (method, values), colour in zip(found.items(), class_colours(len(found)), strict=True):
        means = [float(np.mean(values[f"accuracy_{labels}"])) for labels in _AT]
        style: dict[str, Any] = {
            "color": colour,
            "linewidth": 2.8 if method == "change" else 1.3,
            "linestyle": "--" if method == "random" else "-",
        }
        axes.plot(_AT, means, marker="o", markersize=4, **style)
        handles.append(mark(method, marker="o", markersize=4, **style))
    axes.set(xlabel="labels per class", ylabel="accuracy (%)", xticks=_AT)
    sets = len({row.dataset for row in rows if row.metric == "accuracy_1"})
    axes.set_title(f"means over {sets} data sets", fontsize=10, color="0.3", loc="left")
    legend_below(figure, handles, columns=4, fontsize=8)
    return figure
