"""Pictures of what the experiments measured; matplotlib is loaded only when one is drawn.

Each picture is a function that draws a matplotlib figure, for a report to show or for ``condiff.pages.canvas.save`` to
write.
"""

from __future__ import annotations

from condiff.pages.canvas import save
from condiff.reproduce.figures.along import draw_labels, draw_strength, draw_time
from condiff.reproduce.figures.covid import (
    draw_forecasts,
    draw_missing,
    draw_regions,
)
from condiff.reproduce.figures.methods import (
    draw_balance,
    draw_intervals,
    draw_memory,
    with_and_without_balance,
)
from condiff.reproduce.figures.prostate import draw_curves, draw_genes
from condiff.reproduce.figures.times import draw_times

__all__ = [
    "draw_balance",
    "draw_curves",
    "draw_forecasts",
    "draw_genes",
    "draw_intervals",
    "draw_labels",
    "draw_memory",
    "draw_missing",
    "draw_regions",
    "draw_strength",
    "draw_time",
    "draw_times",
    "save",
    "with_and_without_balance",
]
