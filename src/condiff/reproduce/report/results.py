"""The report of a results folder."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from condiff.pages.html import Html, join, tag
from condiff.pages.layout import Card, Section, report_page, settings_text, versions
from condiff.pages.tables import Cell, Column, table
from condiff.reproduce.metrics import metric
from condiff.reproduce.report.charts import Sample, box_plots, boxes_along, line_chart, time_and_score
from condiff.reproduce.report.folders import Results
from condiff.reproduce.rows import Row, dataset_title, labels
from condiff.reproduce.runs import Run
from condiff.reproduce.tables import Grid, lay_out

_TASKS = {
    "node": "Node classification",
    "covid": "COVID-19 in England",
    "prostate": "Prostate cancer",
    "fewshot": "Few-shot classification",
}
_OURS = "COIN"
_MISSING = re.compile(r"-(\d+(?:\.\d+)?)-missing(-causal)?$")
# Beyond this many data sets each has its details folded away.
_UNFOLDED = 3
# More settings of one method than this are a sweep, shown along an axis and not line by line.
_SWEEP = 6


def results_page(found: Results, command: str) -> str:
    """The page of a results folder."""
    tasks = list(dict.fromkeys(row.task for row in found.rows))
    methods = {row.method for row in found.rows}
    datasets = {(row.task, row.dataset, row.condition) for row in found.rows}
    names = [_TASKS.get(task, task) for task in tasks]
    runs = len(found.runs) or max(row.runs for row in found.rows)
    lede = (
        f"{runs:,} runs of {_count(len(methods), 'method')} on {_count(len(datasets), 'data set')}. "
        "Every value stands beside the published one where the paper has it."
    )
    cards: list[Card] = []
    sections: list[Section] = []
    for task in tasks:
        rows = [row for row in found.rows if row.task == task]
        own = [run for run in found.runs if run.task == task]
        prefix = f"{_TASKS.get(task, task)}: " if len(tasks) > 1 else ""
        cards += _cards(rows)
        sections += [Section(prefix + section.title, section.content) for section in _task_sections(rows, own)]
    if found.claims:
        sections.append(Section("Claims", _claims(found.claims)))
    sections.append(Section("How it was made", _provenance(found)))
    return report_page(", ".join(names), f"Results in {found.name}", lede, cards[:8], sections, command)


def _cards(rows: Sequence[Row]) -> list[Card]:
    cards = []
    places = list(dict.fromkeys(row.place for row in rows))
    for place in places:
        here = [(row.mean, row) for row in rows if row.place == place and row.mean is not None]
        if not here:
            continue
        judged = here[0][1].judged
        order = [row for _, row in sorted(here, key=lambda pair: pair[0], reverse=judged.higher_is_better)]
        own = next((row for row in order if row.method == _OURS), order[0])
        about = [f"place {order.index(own) + 1} of {len(order)}"] if len(order) > 1 else []
        if own.published is not None:
            about.append(f"published {judged.text(own.published)} ({own.difference_text()})")
        title = f"{own.method} on {own.title}"
        spread = f"± {judged.text(own.spread)}" if own.spread is not None else ""
        if spread:
            about.append(f"± {own.spread_kind}")
        several = f", {judged.title}" if len({name for *_, name in places}) > 1 else ""
        cards.append(Card(title + several, judged.text(own.mean), "; ".join(about), spread))
    compared = [row for row in rows if row.difference is not None]
    if len(compared) > 1:
        close = sum(not row.misses for row in compared)
        limits = " or ".join(
            f"{metric(name).tolerance:g} in {metric(name).title}" for name in dict.fromkeys(r.metric for r in compared)
        )
        cards.insert(min(len(cards), 6), Card("As published", f"{close} of {len(compared)}", f"values within {limits}"))
    return cards


def _task_sections(rows: Sequence[Row], runs: Sequence[Run]) -> list[Section]:
    grid = lay_out(rows)
    sections = []
    sweep = _sweep(runs)
    if len(grid.columns) > 1 and not sweep:
        sections.append(Section("All methods", _overview(grid)))
    if sweep:
        sections.append(Section("The strength of a layer", sweep))
    places = list(dict.fromkeys(row.place for row in rows))
    details = []
    for place in places:
        here = [row for row in rows if row.place == place]
        title = here[0].title
        title += f": {here[0].judged.title}" if len({name for *_, name in places}) > 1 else ""
        figures = [] if sweep else [_boxes(here, runs, title)]
        details.append((title, join([*figures, _details(here, title)])))
    sections += [Section(title, content) for title, content in details[:_UNFOLDED]]
    if len(details) > _UNFOLDED:
        folded = [tag("details", tag("summary", title), content) for title, content in details[_UNFOLDED:]]
        sections.append(Section("More data sets", join(folded)))
    missing = _missing(rows)
    if missing:
        sections.append(Section("What is missing", missing))
    times = [] if sweep else [_times([row for row in rows if row.place == place]) for place in places[:_UNFOLDED]]
    if any(times):
        sections.append(Section("Score against time", join(times)))
    sections.append(Section("Settings", _settings(rows)))
    return sections


def _overview(grid: Grid) -> Html:
    columns = [Column("method", "text"), *(Column(column.title) for column in grid.columns)]
    rows = []
    for line in grid.lines:
        cells = [Cell(line.label)]
        for column in grid.columns:
            row = grid.cell(line, column)
            if row is None or row.mean is None:
                cells.append(Cell("-"))
                continue
            theirs = ""
            if row.published is not None:
                theirs = f" ({column.metric.text(row.published)})"
            shown = join([row.text(), tag("span", theirs, class_="theirs")])
            cells.append(Cell(shown, row.mean, "best" if grid.is_best(row, column) else None))
        rows.append(cells)
    caption = f"{grid.about().capitalize()}. The best of a column is green."
    if any(row.published is not None for row in grid.cells.values()):
        caption += " In brackets the published mean."
    return table(caption, columns, rows, highlight=[line.method == _OURS for line in grid.lines])


def _details(rows: Sequence[Row], title: str) -> Html:
    judged = rows[0].judged
    compared = any(row.published is not None for row in rows)
    columns = [
        Column("method", "text"),
        Column(judged.title, about="Mean over splits"),
        Column("±", about=f"{rows[0].spread_kind} over all {rows[0].noun}s".capitalize()),
        Column(f"{rows[0].noun}s"),
        *((Column("published"), Column("difference")) if compared else ()),
        Column(f"s per {rows[0].noun}", about="Seconds that training took"),
        Column("s per epoch"),
        Column("MB", about="Memory: the largest peak above what was in use before"),
    ]
    best = (max if judged.higher_is_better else min)((row.mean for row in rows if row.mean is not None), default=None)
    shown = []
    for row, label in zip(rows, labels(rows), strict=True):
        winner = best is not None and row.mean is not None and judged.text(row.mean) == judged.text(best)
        cells = [
            Cell(label),
            Cell(judged.text(row.mean), row.mean, "best" if winner else None),
            Cell(judged.text(row.spread), row.spread),
            Cell(f"{row.runs:,}", row.runs),
        ]
        if compared:
            missed = row.misses
            cells += [
                Cell(row.published_text(), row.published, "theirs"),
                Cell(row.difference_text(), row.difference, "miss" if missed else None),
            ]
        cells += [_quantity(value) for value in (row.seconds_per_run, row.seconds_per_epoch, row.memory_mb)]
        shown.append(cells)
    caption = f"{title}, {judged.title}: mean ± {rows[0].spread_kind} over {rows[0].noun}s."
    caption += f" Differences beyond {judged.tolerance:g} are red." if compared else ""
    return table(caption, columns, shown, highlight=[row.method == _OURS for row in rows])


def _boxes(rows: Sequence[Row], runs: Sequence[Run], title: str) -> Html | None:
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    name = rows[0].metric
    for run in runs:
        if name in run.metrics:
            values[run.dataset, run.method, _key(run.settings)].append(run.metrics[name])
    samples = []
    for row, label in zip(rows, labels(rows), strict=True):
        found = values.get((row.dataset, row.method, _key(row.settings)), [])
        if found:
            samples.append(Sample(label, tuple(found), row.published, row.published_std))
    if not any(len(sample.values) > 1 for sample in samples):
        return None
    return box_plots(samples, rows[0].judged, f"{title}, all runs")


def _times(rows: Sequence[Row]) -> Html | None:
    judged = rows[0].judged
    points, timeless = [], []
    for row, label in zip(rows, labels(rows), strict=True):
        if row.mean is not None:
            seconds = row.seconds_per_run
            if seconds and seconds > 0:
                points.append((label, seconds, row.mean))
            else:
                timeless.append(label)
    if len(points) < 2:
        return None
    title = f"{rows[0].title}: {judged.title} against time"
    return time_and_score(points, judged, title, timeless)


def _sweep(runs: Sequence[Run]) -> Html | None:
    """Box plots along the strength, where a method was run at many of them."""
    found: dict[tuple[str, str, int], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        layers, strength = run.settings.get("layers"), run.settings.get("strength")
        if isinstance(layers, int) and isinstance(strength, int | float) and "accuracy" in run.metrics:
            found[run.dataset, run.method, layers][float(strength)].append(run.metrics["accuracy"])
    if not found or max(len(strengths) for strengths in found.values()) < _SWEEP:
        return None
    task = runs[0].task
    figures = [
        boxes_along(
            strengths,
            metric("accuracy", task),
            f"{method} on {dataset_title(task, dataset)} with {layers} layers",
            "strength of a layer, σ²",
        )
        for (dataset, method, layers), strengths in sorted(found.items())
        if len(strengths) > 1
    ]
    return join(figures)


def _missing(rows: Sequence[Row]) -> Html | None:
    """Lines of the error against what is missing, where the data sets say so in their names."""
    found: dict[bool, dict[str, list[tuple[float, float]]]] = {}
    for row, label in zip(rows, labels(rows), strict=True):
        matched = _MISSING.search(row.dataset)
        if matched and row.mean is not None:
            lines = found.setdefault(bool(matched[2]), {})
            lines.setdefault(label, []).append((float(matched[1]), row.mean))
    judged = rows[0].judged
    figures = []
    for causal, lines in sorted(found.items()):
        if max(len(points) for points in lines.values()) > 2:
            ordered = {name: sorted(points) for name, points in lines.items()}
            about = "standardised by the days of training" if causal else "standardised by all days, as in the paper"
            title = f"{judged.title.capitalize()} against missing data, {about}"
            figures.append(line_chart(ordered, title, "missing (%)", judged.title))
    return join(figures) if figures else None


def _settings(rows: Sequence[Row]) -> Html:
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        place = row.title
        if place not in seen[row.method, _key(row.settings)]:
            seen[row.method, _key(row.settings)].append(place)
    shown = [
        [Cell(method), Cell(", ".join(places)), Cell(settings_text(json.loads(settings)))]
        for (method, settings), places in seen.items()
    ]
    columns = [Column("method", "text"), Column("data sets", "text"), Column("settings", "text")]
    inner = table("Settings of every method, as its runs were made.", columns, shown)
    return tag("details", tag("summary", f"Settings of {_count(len(shown), 'method')}"), inner)


def _claims(claims: Sequence[dict[str, Any]]) -> Html:
    rows = [
        [
            Cell(str(claim.get("claim", ""))),
            Cell(str(claim.get("dataset", ""))),
            Cell(str(claim.get("text", ""))),
            Cell("yes" if claim.get("holds") else "no", style="best" if claim.get("holds") else "miss"),
        ]
        for claim in claims
        if isinstance(claim, dict)
    ]
    columns = [Column(name, "text") for name in ("claim", "data set", "measured", "holds")]
    return table("The paper's findings, tested on these runs.", columns, rows)


def _provenance(found: Results) -> Html:
    parts: list[Html | None] = [versions(found.made) if found.made else None]
    if found.makers:
        rows = [
            [
                Cell(tag("code", maker.get("command", "not recorded"))),
                Cell(f"{maker['runs']:,}", maker["runs"]),
                Cell(maker.get("date", "")),
                Cell(", ".join(f"{name} {maker[name]}" for name in ("condiff", "torch") if name in maker)),
            ]
            for maker in found.makers
        ]
        columns = [Column("command", "text"), Column("runs"), Column("date", "text"), Column("versions", "text")]
        parts.append(table("Every command that made runs.", columns, rows))
    if not any(parts):
        return tag("p", "The folder does not record what made it.")
    return join(parts)


def _quantity(value: float | None) -> Cell:
    if value is None:
        return Cell("-")
    return Cell(f"{value:,.0f}" if value >= 100 else f"{value:.2g}", value)


def _key(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
