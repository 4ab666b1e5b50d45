"""The demo's picture: how far to diffuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from condiff.reproduce.figures.canvas import COLOURS, panels, save

if TYPE_CHECKING:
    from pathlib import Path

    from condiff.reproduce.demo import Run


def accuracy_against_time(runs: list[Run], target: Path) -> None:
    """How far to diffuse: the accuracy of COIN against the diffusion time, relative to the automatic one."""
    figure, [[axes]] = panels(1, 1, (7.0, 4.2))
    timed = [run for run in runs if run.time is not None]
    for colour, labels in zip(COLOURS, sorted({run.labels for run in timed}), strict=False):
        times = sorted({run.time for run in timed if run.labels == labels and run.time is not None})
        found = [[100 * r.accuracy for r in timed if (r.labels, r.time) == (labels, time)] for time in times]
        mean = np.array([np.mean(values) for values in found])
        spread = np.array([np.std(values) for values in found])
        noun = "label" if labels == 1 else "labels"
        axes.plot(times, mean, "o-", color=colour, label=f"{labels} {noun} a class", markersize=4)
        axes.fill_between(times, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axes.axvline(1.0, color="0.35", linestyle="--", linewidth=1)
    axes.annotate("chosen from the graph ", (1.0, 0.02), xycoords=("data", "axes fraction"), ha="right", color="0.35")
    axes.set_xscale("symlog", linthresh=0.03)
    axes.set_xlim(-0.004, 11.5)
    shown = [0, 0.03, 0.1, 0.3, 1, 3, 10]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xlabel("diffusion time, relative to the automatic one (0: the network alone)")
    axes.set_ylabel("accuracy on unlabelled digits (%)")
    draws = len({run.draw for run in timed})
    axes.set_title(f"COIN on the digits: mean and spread over {draws} draws of the labels", fontsize=10)
    axes.legend(frameon=False, loc=(0.44, 0.24))
    save(figure, target)
