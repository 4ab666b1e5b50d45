"""The report's pictures of results: box plots, accuracy against time, lines, and box plots along an axis."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from condiff.pages.html import Html, tag
from condiff.pages.svg import (
    Picture,
    Scale,
    circle,
    diamond,
    line,
    polyline,
    rectangle,
    spread_labels,
    text,
    text_width,
    tick_text,
)
from condiff.reproduce.metrics import Metric

LINE_COLOURS = (
    "#c24a0a",
    "#2f6fd0",
    "#12876a",
    "#b13f86",
    "#8a7000",
    "#7a5fd0",
    "#2590b0",
    "#b03a3a",
    "#687a1e",
    "#8a6550",
)


@dataclass(frozen=True)
class Sample:
    """A method's values, and the published mean and spread where there are any."""

    name: str
    values: tuple[float, ...]
    published: float | None = None
    published_std: float | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is COIN, which stands out."""
        return self.name.split(" ")[0] == "COIN"


@dataclass(frozen=True)
class Box:
    """What a box plot shows: quartiles, the last values within 1.5 times their distance, and those beyond."""

    low: float
    first: float
    median: float
    third: float
    high: float
    outliers: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Box:
        """The box of these values."""
        first, median, third = (float(q) for q in np.percentile(values, [25, 50, 75]))
        reach = 1.5 * (third - first)
        inside = [value for value in values if first - reach <= value <= third + reach] or [median]
        outliers = tuple(sorted(value for value in values if not first - reach <= value <= third + reach))
        return cls(min(inside), first, median, third, max(inside), outliers)


def box_plots(samples: Sequence[Sample], metric: Metric, title: str) -> Html:
    """A line a method: the box of its runs, and as a hollow diamond what was published, with its spread."""
    boxes = [Box.of(sample.values) for sample in samples]
    low, high = _fences([(box.median, sample.published) for box, sample in zip(boxes, samples, strict=True)])
    near = [low <= box.median <= high for box in boxes]
    values: list[float] = []
    for sample, box, shown in zip(samples, boxes, near, strict=True):
        if shown:
            values += [box.low, box.high, *(value for value in box.outliers if low <= value <= high)]
            values += [] if sample.published is None else _span(sample)
    left = min(230.0, 18 + max(text_width(sample.name) for sample in samples))
    picture = Picture(900, 44 + 24 * len(samples) + 14, left=left)
    scale = Scale.around(values, *picture.across, margin=0.03)
    picture.horizontal_axis(scale, metric.title)
    for place, (sample, box, shown) in enumerate(zip(samples, boxes, near, strict=True)):
        y = picture.top + 24 * place + 12
        parts = [text(left - 10, y + 4, _shortened(sample.name, left - 14), None, "end")]
        if shown:
            parts += _horizontal_box(box, scale, y, _hint(sample, box, metric))
            parts += _published_mark(sample, scale, y, metric)
        else:
            far = f"median {metric.text(box.median)}"
            below = box.median < low
            place_x = picture.across[0] + 6 if below else picture.across[1] - 6
            arrow = f"◀ {far}" if below else f"{far} ▶"
            parts.append(text(place_x, y + 4, arrow, "quiet", "start" if below else "end"))
        picture.add(tag("g", *parts, class_="coin" if sample.is_ours else None))
    best = (max if metric.higher_is_better else min)(range(len(boxes)), key=lambda index: boxes[index].median)
    worst = (min if metric.higher_is_better else max)(range(len(boxes)), key=lambda index: boxes[index].median)
    about = (
        f"Horizontal box plots of the {metric.title} of {len(samples)} methods. Best median: {samples[best].name}, "
        f"{metric.text(boxes[best].median)}. Worst: {samples[worst].name}, {metric.text(boxes[worst].median)}."
    )
    caption = f"{title}: median, quartiles, and the last value within 1.5 times their distance; circles lie beyond."
    if any(sample.published is not None for sample in samples):
        caption += " Hollow diamonds: published mean and standard deviation."
    return picture.figure(title, about, caption)


def time_and_score(
    points: Sequence[tuple[str, float, float]], metric: Metric, title: str, timeless: Sequence[str] = ()
) -> Html:
    """Each method at the seconds of a run (across, by ratio) and its mean score (upwards)."""
    low, high = _fences([(score, None) for _, _, score in points])
    near = [point for point in points if low <= point[2] <= high]
    far = [f"{name} ({metric.text(score)})" for name, _, score in points if not low <= score <= high]
    picture = Picture(900, 440, left=68)
    across = Scale.around([seconds for _, seconds, _ in near], *picture.across, log=True, margin=0.08)
    upwards = Scale.around([score for _, _, score in near], *picture.upwards, margin=0.1)
    picture.vertical_axis(upwards, metric.title)
    picture.horizontal_axis(across, "seconds of a run (by ratio)")
    places = [(across(seconds), upwards(score)) for _, seconds, score in near]
    for (name, seconds, score), (x, y) in zip(near, places, strict=True):
        ours = name.split(" ")[0] == "COIN"
        hint = f"{name}: {metric.text(score)} in {_two_digits(seconds)} s"
        picture.add(circle(x, y, 6 if ours else 4.8, "mark coin" if ours else "mark", hint))
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in places]
    for (name, _, _), (x, y) in zip(near, places, strict=True):
        spot, anchor = _free_spot(name, x, y, taken, picture)
        picture.add(text(*spot, name, "coin" if name.split(" ")[0] == "COIN" else None, anchor))
    caption = f"{title}: the mean of all runs against the mean time of one."
    caption += f" Far from the others and not drawn: {', '.join(far)}." if far else ""
    caption += f" Without a time: {', '.join(timeless)}." if timeless else ""
    fastest = min(near, key=lambda point: point[1])
    pick = max if metric.higher_is_better else min
    best = pick(near, key=lambda point: point[2])
    about = (
        f"Scatter plot of {len(near)} methods. Best: {best[0]} with {metric.text(best[2])} in {_two_digits(best[1])} "
        f"seconds. Fastest: {fastest[0]}, {_two_digits(fastest[1])} seconds."
    )
    return picture.figure(title, about, caption)


def line_chart(
    series: Mapping[str, Sequence[tuple[float, float]]], title: str, across_title: str, upwards_title: str
) -> Html:
    """A line for each name through its points, named at its right end."""
    names = [name for name, points in series.items() if points]
    picture = Picture(900, 430, left=68, right=24 + max(text_width(name) for name in names))
    across = Scale.around([x for name in names for x, _ in series[name]], *picture.across, margin=0.02)
    upwards = Scale.around([y for name in names for _, y in series[name]], *picture.upwards)
    picture.vertical_axis(upwards, upwards_title)
    picture.horizontal_axis(across, across_title)
    ends = [upwards(series[name][-1][1]) for name in names]
    heights = spread_labels(ends, 15.0, picture.top, picture.upwards[0])
    others = [name for name in names if name.split(" ")[0] != "COIN"]
    for name, end, height in zip(names, ends, heights, strict=True):
        ours = name.split(" ")[0] == "COIN"
        colour = "var(--highlight)" if ours else LINE_COLOURS[1 + others.index(name) % (len(LINE_COLOURS) - 1)]
        points = [(across(x), upwards(y)) for x, y in series[name]]
        right = picture.across[1]
        picture.add(polyline(points, "line", colour))
        picture.add(*(circle(x, y, 3.2, "point", f"{name}", colour) for x, y in points))
        picture.add(polyline([(points[-1][0] + 5, end), (right + 10, height)], "leader", colour))
        picture.add(text(right + 13, height + 4, name, "coin" if ours else None))
    highest = max(names, key=lambda name: series[name][-1][1])
    lowest = min(names, key=lambda name: series[name][-1][1])
    about = f"Lines of {len(names)} methods. At the right end {highest} is highest and {lowest} is lowest."
    return picture.figure(title, about, f"{title}.")


def boxes_along(found: Mapping[float, Sequence[float]], metric: Metric, title: str, across_title: str) -> Html:
    """Upright box plots at numbers along an axis."""
    numbers = sorted(found)
    gap = min((b - a for a, b in pairwise(numbers)), default=1.0)
    boxes = {number: Box.of(found[number]) for number in numbers}
    picture = Picture(900, 330, left=68)
    across = Scale(numbers[0] - gap, numbers[-1] + gap, *picture.across)
    upwards = Scale.around([value for values in found.values() for value in values], *picture.upwards)
    picture.vertical_axis(upwards, metric.title)
    picture.horizontal_axis(across, across_title, grid=False, about=10)
    half = 0.3 * (across(gap) - across(0.0))
    for number, box in boxes.items():
        x = across(number)
        hint = f"{tick_text(number)}: median {metric.text(box.median)} of {len(found[number])} runs"
        picture.add(
            line(x, upwards(box.low), x, upwards(box.first), "whisker"),
            line(x, upwards(box.third), x, upwards(box.high), "whisker"),
            rectangle(x - half, upwards(box.third), 2 * half, upwards(box.first) - upwards(box.third), "box", hint),
            line(x - half, upwards(box.median), x + half, upwards(box.median), "median"),
            *(circle(x, upwards(value), 2.4, "outlier") for value in box.outliers),
        )
    pick = max if metric.higher_is_better else min
    best = pick(numbers, key=lambda number: boxes[number].median)
    about = (
        f"Box plots at {len(numbers)} values from {tick_text(numbers[0])} to {tick_text(numbers[-1])}. "
        f"Best median: {metric.text(boxes[best].median)} at {tick_text(best)}."
    )
    return picture.figure(title, about, f"{title}.")


def _horizontal_box(box: Box, scale: Scale, y: float, hint: str) -> list[Html]:
    return [
        line(scale(box.low), y, scale(box.first), y, "whisker"),
        line(scale(box.third), y, scale(box.high), y, "whisker"),
        rectangle(scale(box.first), y - 7, scale(box.third) - scale(box.first), 14, "box", hint),
        line(scale(box.median), y - 7, scale(box.median), y + 7, "median"),
        *(circle(scale(value), y, 2.4, "outlier") for value in box.outliers if scale.holds(value)),
    ]


def _published_mark(sample: Sample, scale: Scale, y: float, metric: Metric) -> list[Html]:
    if sample.published is None:
        return []
    low, high = _span(sample)
    hint = f"published: {metric.spread_text(sample.published, sample.published_std)}"
    return [
        line(scale(low), y, scale(high), y, "published-line"),
        diamond(scale(sample.published), y, 5, "published", hint),
    ]


def _span(sample: Sample) -> list[float]:
    assert sample.published is not None
    spread = sample.published_std or 0.0
    return [sample.published - spread, sample.published + spread]


def _hint(sample: Sample, box: Box, metric: Metric) -> str:
    mean = metric.text(statistics.fmean(sample.values))
    return f"{sample.name}: median {metric.text(box.median)}, mean {mean}, {len(sample.values)} runs"


def _fences(values: Sequence[tuple[float, float | None]]) -> tuple[float, float]:
    """Where the few that are far from the rest begin: three ranges between the quartiles away."""
    medians = [median for median, _ in values]
    if len(medians) < 5:
        return -math.inf, math.inf
    first, third = (float(quartile) for quartile in np.percentile(medians, [25, 75]))
    reach = 3 * (third - first)
    return first - reach, third + reach


def _free_spot(
    name: str, x: float, y: float, taken: list[tuple[float, float, float, float]], picture: Picture
) -> tuple[tuple[float, float], str]:
    """Where a label covers least of what is there; it is added to what is taken."""
    wide = text_width(name)
    spots = [
        (dx, dy, anchor)
        for ring in (0, 1, 2)
        for dx, dy, anchor in (
            (9, 4, "start"),
            (-9, 4, "end"),
            (0, -10 - 13 * ring, "middle"),
            (0, 18 + 13 * ring, "middle"),
            (8, -6 - 13 * ring, "start"),
            (8, 14 + 13 * ring, "start"),
            (-8, -6 - 13 * ring, "end"),
            (-8, 14 + 13 * ring, "end"),
        )
    ]
    best: tuple[float, tuple[float, float, float, float], tuple[float, float], str] | None = None
    for dx, dy, anchor in spots:
        left = x + dx - (0 if anchor == "start" else wide if anchor == "end" else wide / 2)
        box = (left, y + dy - 10, left + wide, y + dy + 3)
        outside = max(0, picture.left - box[0]) + max(0, box[2] - picture.width) + max(0, picture.top - box[1])
        cost = sum(_overlap(box, other) for other in taken) + 50 * outside
        if best is None or cost < best[0] - 1e-9:
            best = cost, box, (x + dx, y + dy), anchor
    assert best is not None
    taken.append(best[1])
    return best[2], best[3]


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _shortened(name: str, room: float) -> str:
    return name if text_width(name) <= room + 20 else name[: int(room / 6.4)] + "…"


def _two_digits(value: float) -> str:
    return tick_text(float(f"{value:.2g}"))
