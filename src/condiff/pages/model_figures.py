"""A model's figures: reliability, held-out values, the map of its points, and its step-size limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.pages.canvas import COLOURS, HIGHLIGHT, OURS, bare, class_colours, hint, mark, panels, plain
from condiff.pages.report import Picture, picture
from condiff.uncertainty.reliable import Reliability

# More points than this make a picture slow and no clearer.
_MOST_POINTS = 1500
_WIDE = 9.6
#: From low to high values, visible on light and on dark ground.
LOW_TO_HIGH = ("#4575b4", "#4ca6b8", "#7fb04f", "#d9a01e", "#d6502f")


def reliability(groups: Sequence[Reliability]) -> Picture:
    """How often held-out answers of about the same probability are right, with 95 % intervals."""
    figure, [[axes]] = panels(1, 1, (4.4, 3.7), grid="both")
    axes.plot([0, 1], [0, 1], color="0.55", linewidth=1, linestyle="--")
    total, said = sum(group.n for group in groups), []
    for group in groups:
        said.append(
            f"{group.n} answers of {100 * group.said:.0f} % on average, {100 * group.right:.0f} % of them right "
            f"(95 % interval {100 * group.low:.0f} to {100 * group.high:.0f})"
        )
        bar = axes.plot([group.said] * 2, [group.low, group.high], color=OURS, linewidth=1.6, alpha=0.5)
        hint([*bar, *axes.plot(group.said, group.right, "o", color=OURS, markersize=5.5, zorder=3)], said[-1])
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="probability of the answer", ylabel="share that was right")
    error = sum(group.n * abs(group.right - group.said) for group in groups) / total
    off = sum(not group.agrees for group in groups)
    verdict = f"{off} of {len(groups)} groups are off it by more" if off else "no group is off it by more"
    caption = (
        f"Reliability: on the diagonal a probability means what it says. Lines are the 95 % intervals that so few "
        f"answers leave: {verdict}. Expected calibration error {error:.3f} over {total} held-out labels."
    )
    return picture(figure, "Reliability diagram", "; ".join(said) + ".", caption)


def agreement(truth: Sequence[float], answers: Sequence[float]) -> Picture:
    """Held-out values against what was answered."""
    figure, [[axes]] = panels(1, 1, (5.4, 4.4), grid="both")
    ends = [min(*truth, *answers), max(*truth, *answers)]
    axes.plot(ends, ends, color="0.55", linewidth=1, linestyle="--")
    for value, answer in zip(truth, answers, strict=True):
        hint(axes.plot(value, answer, "o", color=OURS, markersize=4.5), f"true {value:.4g}, answered {answer:.4g}")
    axes.set(xlabel="true value", ylabel="answer")
    error = float(np.mean(np.abs(np.subtract(truth, answers))))
    about = f"{len(truth)} held-out values from {min(truth):.4g} to {max(truth):.4g}; mean absolute error {error:.4g}."
    return picture(figure, "Held-out values and answers", about, f"On the line answer and truth agree. {about}")


def point_map(
    places: NDArray[np.float64],
    codes: NDArray[np.int64],
    names: Sequence[str],
    labelled: NDArray[np.bool_],
    changed: NDArray[np.bool_],
    palette: Sequence[str] | None = None,
) -> Picture:
    """The points in a plane, coloured by their answer; labels have a dark rim, changed answers a ring around them."""
    shown = np.arange(len(places))
    if len(shown) > _MOST_POINTS:
        others = np.flatnonzero(~labelled)
        drawn = np.random.default_rng(0).choice(others, max(0, _MOST_POINTS - int(labelled.sum())), replace=False)
        shown = np.sort(np.concatenate([np.flatnonzero(labelled), drawn]))
    colours = np.array(palette or class_colours(len(names)))
    dot: dict[str, Any] = {"linestyle": "", "marker": "o"}
    ring = dot | {"markerfacecolor": "none", "markeredgecolor": "0.1"}
    handles = [mark(plain(name), **dot, color=colour) for name, colour in zip(names, colours, strict=True)]
    handles.append(mark("labelled", **ring, markersize=6.5, markeredgewidth=1.6))
    if changed.any():
        handles.append(mark("changed class", **ring, markersize=9, markeredgewidth=0.9))
    columns = max(1, min(len(handles), int(_WIDE / (0.45 + 0.085 * max(map(len, [*names, "changed class"]))))))
    figure, [[axes]] = panels(1, 1, (_WIDE, 4.9 + 0.2 * math.ceil(len(handles) / columns)))
    bare(axes)
    for chosen, size, rims, width in (
        (shown[~labelled[shown]], 16, "white", 0.3),
        (shown[labelled[shown]], 40, "0.1", 1.6),  # on top
    ):
        axes.scatter(
            places[chosen, 0], places[chosen, 1], s=size, c=colours[codes[chosen]], edgecolors=rims, linewidths=width
        )
    ringed = shown[changed[shown]]
    axes.scatter(places[ringed, 0], places[ringed, 1], s=55, facecolors="none", edgecolors="0.1", linewidths=0.9)
    axes.margins(0.02)
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False, fontsize=8.5)
    counts = np.bincount(codes, minlength=len(names))
    said = ", ".join(f"{name}: {count:,}" for name, count in zip(names, counts.tolist(), strict=True))
    about = f"{len(places):,} points by their answer after the diffusion ({said}); {int(labelled.sum())} have a label"
    about += f", {int(changed.sum()):,} changed class under the diffusion." if changed.any() else "."
    how = "Columns as they are where there are two, else the first two principal components"
    how += f"; {len(shown):,} of {len(places):,} points are drawn." if len(shown) < len(places) else "."
    return picture(figure, "Map of the points", about, f"{about} {how}")


def limits(strength: float, positivity: float, stability: float) -> Picture:
    """The strength of a layer on a line with the two limits."""
    figure, [[axes]] = panels(1, 1, (_WIDE, 1.25))
    bare(axes)
    end = 1.15 * max(stability, strength, positivity)
    ends = [0.0, positivity, max(stability, positivity), end]
    for (low, high), colour in zip(pairwise(ends), (COLOURS[2], COLOURS[4], HIGHLIGHT), strict=True):
        axes.axvspan(low, high, color=colour, alpha=0.4, linewidth=0)
    # The lower limit's name stands to the left of its line, the higher one's to the right: they never meet.
    for value, name, side in ((positivity, "positivity limit", "right"), (stability, "stability limit", "left")):
        axes.axvline(value, color="0.3", linewidth=1.1, linestyle="--")
        axes.annotate(
            f"{name} {value:.3g}",
            (value, 1.0),
            (-3 if side == "right" else 3, 4),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha=side,
            fontsize=8,
            color="0.35",
        )
    axes.axvline(strength, color="0.05", linewidth=2)
    axes.set(xlim=(0, end), ylim=(0, 1))
    axes.set_xticks([strength], [f"strength {strength:.3g}"], fontsize=8.5, fontweight="bold")
    about = (
        f"The strength of a layer is {strength:.4g}; probabilities stay probabilities up to {positivity:.4g}, and "
        f"beyond {stability:.4g} some patterns grow with every layer."
    )
    return picture(figure, "Strength and its limits", about, about)
