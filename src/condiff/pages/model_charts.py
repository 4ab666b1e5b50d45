"""The report's pictures of a model: confusion matrix, reliability, the map of its points, its step-size limits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.pages.html import Html, join, tag
from condiff.pages.palette import colours
from condiff.pages.svg import Picture, Scale, circle, line, polyline, rectangle, text, text_width

_BINS = 10
# More points than this make a picture slow and no clearer.
_MOST_POINTS = 1500


def confusion(truth: NDArray[np.int64], answers: NDArray[np.int64], classes: Sequence[str]) -> Html:
    """The confusion matrix as a table: what was true by row, what was answered by column."""
    n = len(classes)
    counts = np.zeros((n, n), dtype=int)
    np.add.at(counts, (truth, answers), 1)
    totals = counts.sum(axis=1)
    heads = [tag("th", "true", scope="col"), *(tag("th", name, scope="col") for name in classes)]
    rows = []
    for row, name in enumerate(classes):
        cells = [
            tag(
                "td",
                str(count),
                style=f"--part: {count / max(totals[row], 1):.3f}",
                class_="diagonal" if row == column else None,
            )
            for column, count in enumerate(counts[row].tolist())
        ]
        rows.append(tag("tr", tag("th", name, scope="row"), *cells))
    caption = f"Confusion matrix: {int(np.trace(counts))} of {len(truth)} held-out labels answered rightly."
    made = tag("table", tag("caption", caption), tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    return tag("div", made, class_="confusion scroll", tabindex="0", role="region", aria_label="Confusion matrix")


def reliability(truth: NDArray[np.int64], probabilities: NDArray[np.float64]) -> Html:
    """How often answers of a given probability are right, in ten bins, with how many there are of each."""
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    place = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    picture = Picture(460, 400, left=58)
    across, upwards = Scale(0, 1, *picture.across), Scale(0, 1, *picture.upwards)
    picture.vertical_axis(upwards, "part that was right", about=5)
    picture.horizontal_axis(across, "probability of the answer", about=5)
    picture.add(line(across(0), upwards(0), across(1), upwards(1), "diagonal-line"))
    points, error, said = [], 0.0, []
    for index in range(_BINS):
        inside = place == index
        number = int(inside.sum())
        if not number:
            continue
        share, mean = float(right[inside].mean()), float(sure[inside].mean())
        error += number / len(truth) * abs(share - mean)
        height = 0.25 * number / np.bincount(place).max()
        hint = f"{number} answers of {100 * mean:.0f} % on average, {100 * share:.0f} % of them right"
        left, right_end = across(index / _BINS) + 2, across((index + 1) / _BINS) - 2
        picture.add(rectangle(left, upwards(height), right_end - left, upwards(0) - upwards(height), "bar", hint))
        points.append((across(mean), upwards(share), hint))
        said.append(hint)
    picture.add(polyline([(x, y) for x, y, _ in points], "line", "var(--ours)"))
    picture.add(*(circle(x, y, 4.5, "mark", hint) for x, y, hint in points))
    caption = (
        f"Reliability: on the diagonal a probability means what it says. Expected calibration error {error:.3f} over "
        f"{len(truth)} held-out labels; bars show how many answers are that sure."
    )
    return picture.figure("Reliability diagram", "; ".join(said) + ".", caption)


def agreement(truth: Sequence[float], answers: Sequence[float]) -> Html:
    """Held-out values against what was answered."""
    picture = Picture(520, 440, left=64)
    both = [*truth, *answers]
    across, upwards = Scale.around(both, *picture.across), Scale.around(both, *picture.upwards)
    picture.vertical_axis(upwards, "answer")
    picture.horizontal_axis(across, "true value", about=5)
    low, high = min(both), max(both)
    picture.add(line(across(low), upwards(low), across(high), upwards(high), "diagonal-line"))
    for value, answer in zip(truth, answers, strict=True):
        picture.add(circle(across(value), upwards(answer), 4, "mark", f"true {value:.4g}, answered {answer:.4g}"))
    error = float(np.mean(np.abs(np.array(truth) - np.array(answers))))
    about = f"{len(truth)} held-out values from {min(truth):.4g} to {max(truth):.4g}; mean absolute error {error:.4g}."
    return picture.figure("Held-out values and answers", about, f"On the line answer and truth agree. {about}")


def point_map(
    places: NDArray[np.float64],
    codes: NDArray[np.int64],
    names: Sequence[str],
    labelled: NDArray[np.bool_],
    changed: NDArray[np.bool_],
) -> Html:
    """The points in a plane, coloured by their answer; labels have a dark rim, changed answers a ring around them."""
    shown = np.arange(len(places))
    if len(shown) > _MOST_POINTS:
        others = np.flatnonzero(~labelled)
        drawn = np.random.default_rng(0).choice(others, max(0, _MOST_POINTS - int(labelled.sum())), replace=False)
        shown = np.sort(np.concatenate([np.flatnonzero(labelled), drawn]))
    shown = shown[np.argsort(labelled[shown], kind="stable")]  # labels on top
    picture = Picture(900, 520, left=10, right=10, top=10, bottom=10)
    legend = _legend(picture, names, bool(changed.any()))
    picture.top += legend
    across = Scale.around(places[:, 0].tolist(), *picture.across, margin=0.02)
    upwards = Scale.around(places[:, 1].tolist(), *picture.upwards, margin=0.02)
    shades = colours(len(names))
    for index in shown.tolist():
        x, y = across(float(places[index, 0])), upwards(float(places[index, 1]))
        style = "point-label" if labelled[index] else "point"
        picture.add(circle(x, y, 5 if labelled[index] else 3.4, style, None, shades[int(codes[index])]))
        if changed[index]:
            picture.add(circle(x, y, 5.6, "point-changed"))
    counts = np.bincount(codes, minlength=len(names))
    said = ", ".join(f"{count:,} {name}" for name, count in zip(names, counts.tolist(), strict=True))
    about = f"{len(places):,} points by their answer after the diffusion: {said}; {int(labelled.sum())} have a label"
    about += f", {int(changed.sum()):,} changed class under the diffusion." if changed.any() else "."
    how = "Columns as they are where there are two, else the first two principal components"
    how += f"; {len(shown):,} of {len(places):,} points are drawn." if len(shown) < len(places) else "."
    return picture.figure("Map of the points", about, f"{about} {how}")


def limits(strength: float, positivity: float, stability: float) -> Html:
    """The strength of a layer on a line with the two limits."""
    picture = Picture(900, 96, left=20, right=20, top=34, bottom=30)
    scale = Scale(0.0, 1.15 * max(stability, strength, positivity), *picture.across)
    top, height = picture.top, picture.height - picture.top - picture.bottom
    ends = [0.0, positivity, max(stability, positivity), scale.high]
    for (low, high), style in zip(pairwise(ends), ("zone-good", "zone-amber", "zone-bad"), strict=True):
        picture.add(rectangle(scale(low), top, scale(high) - scale(low), height, style))
    for value, name in ((positivity, "positivity limit"), (stability, "stability limit")):
        picture.add(line(scale(value), top - 4, scale(value), top + height, "limit-dashed"))
        picture.add(text(scale(value), top - 9, f"{name} {value:.3g}", "quiet", "middle"))
    at = scale(strength)
    said = f"strength {strength:.3g}"
    anchor = "end" if at + text_width(said) > picture.width else "middle"
    picture.add(line(at, top, at, top + height + 6, "limit"), text(at, top + height + 20, said, "coin", anchor))
    about = (
        f"The strength of a layer is {strength:.4g}; probabilities stay ones up to {positivity:.4g}, and beyond "
        f"{stability:.4g} some modes grow with every layer."
    )
    return picture.figure("Strength and its limits", about, about)


def _legend(picture: Picture, names: Sequence[str], changed: bool) -> float:
    """Draw the legend at the top, in as many lines as it takes; returns its height."""
    entries: list[tuple[str, Any]] = [(name, shade) for name, shade in zip(names, colours(len(names)), strict=True)]
    x, y = 16.0, 16.0
    parts: list[Html] = []
    for name, shade in [*entries, ("labelled", None), *([("changed class", "ring")] if changed else [])]:
        wide = 30 + text_width(name)
        if x + wide > picture.width:
            x, y = 16.0, y + 20
        if shade == "ring":
            parts += [circle(x, y - 4, 3.4, "point", None, "var(--muted)"), circle(x, y - 4, 5.6, "point-changed")]
        elif shade is None:
            parts.append(circle(x, y - 4, 5, "point-label", None, "none"))
        else:
            parts.append(circle(x, y - 4, 5, "point", None, shade))
        parts.append(text(x + 10, y, name))
        x += wide
    picture.add(join(parts))
    return y + 10
