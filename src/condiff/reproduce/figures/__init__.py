"""Pictures of what the experiments measured; matplotlib is loaded only when one is drawn.

Each picture is a function that draws the matplotlib figure, which a report shows, and one that writes it, as PNG, SVG
or PDF by the target's suffix.
"""

from __future__ import annotations

from condiff.pages.canvas import save
from condiff.reproduce.figures.along import draw_labels, draw_strength, draw_time, strength_boxplots
from condiff.reproduce.figures.covid import (
    case_forecasts,
    draw_forecasts,
    draw_missing,
    draw_regions,
    error_against_missing,
    region_map,
)
from condiff.reproduce.figures.methods import (
    accuracy_intervals,
    balance_bars,
    draw_balance,
    draw_intervals,
    draw_memory,
    memory_bars,
    with_and_without_balance,
)
from condiff.reproduce.figures.prostate import draw_curves, draw_genes, gene_bars, roc_and_pr_curves
from condiff.reproduce.figures.times import draw_times, time_complexity

__all__ = [
    "accuracy_intervals",
    "balance_bars",
    "case_forecasts",
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
    "error_against_missing",
    "gene_bars",
    "memory_bars",
    "region_map",
    "roc_and_pr_curves",
    "save",
    "strength_boxplots",
    "time_complexity",
    "with_and_without_balance",
]
