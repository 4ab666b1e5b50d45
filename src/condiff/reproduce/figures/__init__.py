"""Pictures of what the experiments measured, one a file; matplotlib is loaded only when one is drawn.

Each picture is a function that draws the matplotlib figure and one that writes it, as PNG, SVG or PDF by the target's
suffix.
"""

from __future__ import annotations

from condiff.reproduce.figures.balance import balance_bars, draw_balance, with_and_without_balance
from condiff.reproduce.figures.canvas import require_matplotlib
from condiff.reproduce.figures.curves import draw_curves, roc_and_pr_curves
from condiff.reproduce.figures.demo import accuracy_against_time
from condiff.reproduce.figures.forecasts import case_forecasts, draw_forecasts
from condiff.reproduce.figures.genes import draw_genes, gene_bars
from condiff.reproduce.figures.intervals import accuracy_intervals, draw_intervals
from condiff.reproduce.figures.memory import draw_memory, memory_bars
from condiff.reproduce.figures.missing import draw_missing, error_against_missing
from condiff.reproduce.figures.regions import draw_regions, region_map
from condiff.reproduce.figures.strength import draw_strength, strength_boxplots
from condiff.reproduce.figures.times import draw_times, time_complexity

__all__ = [
    "accuracy_against_time",
    "accuracy_intervals",
    "balance_bars",
    "case_forecasts",
    "draw_balance",
    "draw_curves",
    "draw_forecasts",
    "draw_genes",
    "draw_intervals",
    "draw_memory",
    "draw_missing",
    "draw_regions",
    "draw_strength",
    "draw_times",
    "error_against_missing",
    "gene_bars",
    "memory_bars",
    "region_map",
    "require_matplotlib",
    "roc_and_pr_curves",
    "strength_boxplots",
    "time_complexity",
    "with_and_without_balance",
]
