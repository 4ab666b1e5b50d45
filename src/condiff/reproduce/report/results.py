"""The report of a results folder."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from condiff.pages.report import (
    Block,
    Card,
    Cell,
    Code,
    Column,
    Fold,
    Picture,
    Report,
    Section,
    Table,
    Text,
    picture,
    settings_code,
    versions,
)
from condiff.reproduce import figures
from condiff.reproduce.curves import mean_curve
from condiff.reproduce.figures.methods import SIDE_BY_SIDE, Sample, draw_boxes
from condiff.reproduce.figures.times import draw_score_against_time
from condiff.reproduce.metrics import metric
from condiff.reproduce.protocols import PROTOCOLS, protocol
from condiff.reproduce.report.folders import Results
from condiff.reproduce.rows import Row, dataset_title, labels
from condiff.reproduce.runs import Run
from condiff.reproduce.tables import Grid, lay_out

_OURS = "COIN"
# Beyond this many data sets each has its details folded away.
_UNFOLDED = 3
# More settings of one method than this are a sweep, shown along an axis and not line by line.
_SWEEP = 6


def results_report(found: Results) -> Report:
    """The report of a results folder."""
    tasks = list(dict.fromkeys(row.task for row in found.rows))
    methods = {row.method for row in found.rows}
    datasets = {(row.task, row.dataset, row.condition) for row in found.rows}
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
        prefix = f"{_task_title(task)}: " if len(tasks) > 1 else ""
        cards += _cards(rows)
        sections += [Section(prefix + title, blocks) for title, blocks in _TaskReport(rows, own).sections() if blocks]
    if found.claims:
        sections.append(Section("Claims", [_claims(found.claims)]))
    sections.append(Section("How it was made", _provenance(found)))
    title = ", ".join(_task_title(task) for task in tasks)
    return Report(title, f"Results in {found.name}", lede, cards[:8], sections)


def _cards(rows: Sequence[Row]) -> list[Card]:
    cards = []
    metrics = {row.metric for row in rows}
    for here in _places([row for row in rows if row.mean is not None]):
        judged = here[0].judged
        order = sorted(here, key=lambda row: row.mean or 0.0, reverse=judged.higher_is_better)
        own = next((row for row in order if row.method == _OURS), order[0])
        about = [f"place {order.index(own) + 1} of {len(order)}"] if len(order) > 1 else []
        if own.published is not None:
            about.append(f"published {judged.text(own.published)} ({own.difference_text()})")
        title = f"{own.method} on {own.title}" + (f", {judged.title}" if len(metrics) > 1 else "")
        half = f"± {judged.text(own.spread)}" if own.spread is not None else ""
        cards.append(Card(title, judged.text(own.mean), "; ".join(about), half))
    compared = [row for row in rows if row.difference is not None]
    if len(compared) > 1:
        close = sum(not row.misses for row in compared)
        known = [metric(name) for name in dict.fromkeys(row.metric for row in compared)]
        limits = " or ".join(f"{each.tolerance:g} in {each.title}" for each in known)
        cards.insert(min(len(cards), 6), Card("As published", f"{close} of {len(compared)}", f"values within {limits}"))
    return cards


class _TaskReport:
    """The rows and runs of one task."""

    def __init__(self, rows: Sequence[Row], runs: Sequence[Run]) -> None:
        self.rows = rows
        self.runs = runs
        self.task = rows[0].task
        self.grid = lay_out(rows)
        self.sweep = self.strengths()
        self.places = _places(rows)

    def sections(self) -> list[tuple[str, list[Block]]]:
        found: list[tuple[str, list[Block]]] = []
        if self.sweep:
            found.append(("The strength of a layer", [*self.sweep]))
        elif len(self.grid.columns) > 1:
            found.append(("All methods", self.overview()))
        details = [self.details(rows) for rows in self.places]
        found += details[:_UNFOLDED]
        if len(details) > _UNFOLDED:
            found.append(("More data sets", [Fold(title, blocks) for title, blocks in details[_UNFOLDED:]]))
        found.append(("What is missing", [*self.missing()]))
        found.append(("Unbalanced queries", [*self.balance()]))
        found.append(("Curves", [*self.curves()]))
        if not self.sweep:
            times = [self.times(rows) for rows in self.places[:_UNFOLDED]]
            found.append(("Score against time", [each for each in times if each is not None]))
        found.append(("Settings", [self.settings()]))
        return found

    def overview(self) -> list[Block]:
        grid = self.grid
        rows = []
        for line in grid.lines:
            cells = [Cell(line.label)]
            for column in grid.columns:
                row = grid.cell(line, column)
                if row is None or row.mean is None:
                    cells.append(Cell("-"))
                    continue
                best = "best" if grid.is_best(row, column) else ""
                theirs = "" if row.published is None else f"({column.metric.text(row.published)})"
                cells.append(Cell(row.text(), row.mean, best, theirs))
            rows.append(cells)
        caption = f"{_sentence(grid.about())} The best of a column is green."
        published = any(row.published is not None for row in grid.cells.values())
        caption += " In brackets the published mean." if published else ""
        columns = [Column("method", "text"), *(Column(column.title) for column in grid.columns)]
        blocks: list[Block] = [Table(caption, columns, rows, _stand_out([line.method for line in grid.lines]))]
        if len(grid.columns) <= SIDE_BY_SIDE:
            about = f"{_sentence(grid.about())} {_best_of(grid)}"
            title = "Means beside the published ones" if published else "Means of all methods"
            blocks.append(picture(figures.draw_intervals(self.rows), title, about, f"{title}: {grid.about()}."))
        return blocks

    def details(self, rows: Sequence[Row]) -> tuple[str, list[Block]]:
        """Of one data set and metric: the box plots of its runs, and a table of all that was measured."""
        judged, noun, grid = rows[0].judged, rows[0].noun, lay_out(rows)
        title = rows[0].title + (f": {judged.title}" if len({row.metric for row in self.rows}) > 1 else "")
        compared = any(row.published is not None for row in rows)
        columns = [
            Column("method", "text"),
            Column(judged.title, about=_sentence(grid.about())),
            Column(f"{noun}s"),
            *((Column("published"), Column("difference")) if compared else ()),
            Column(f"s per {noun}", about="Seconds that training took"),
            Column("s per epoch"),
            Column("MB", about="Memory: the largest peak above what was in use before"),
        ]
        shown = []
        for row, label in zip(rows, labels(rows), strict=True):
            style = "best" if grid.is_best(row, grid.columns[0]) else ""
            cells = [Cell(label), Cell(row.text(), row.mean, style)]
            cells.append(Cell(f"{row.runs:,}", row.runs))
            if compared:
                cells.append(Cell(row.published_text(), row.published, "theirs"))
                cells.append(Cell(row.difference_text(), row.difference, "miss" if row.misses else ""))
            cells += [_quantity(value) for value in (row.seconds_per_run, row.seconds_per_epoch, row.memory_mb)]
            shown.append(cells)
        caption = f"{title}, {judged.title}: {grid.about()}."
        caption += f" Differences beyond {judged.tolerance:g} are red." if compared else ""
        blocks: list[Block] = [Table(caption, columns, shown, _stand_out([row.method for row in rows]))]
        if not self.sweep and (boxes := self.boxes(rows, title)):
            blocks.insert(0, boxes)
        return title, blocks

    def boxes(self, rows: Sequence[Row], title: str) -> Picture | None:
        values: dict[tuple[object, ...], list[float]] = defaultdict(list)
        judged = rows[0].judged
        for run in self.runs:
            if rows[0].metric in run.metrics:
                values[run.dataset, run.condition, run.method, _key(run.settings)].append(run.metrics[rows[0].metric])
        samples = []
        for row, label in zip(rows, labels(rows), strict=True):
            if found := values.get((row.dataset, row.condition, row.method, _key(row.settings))):
                samples.append(Sample(label, tuple(found), row.published, row.published_std))
        if not any(len(sample.values) > 1 for sample in samples):
            return None
        order = sorted(samples, key=lambda each: statistics.median(each.values), reverse=judged.higher_is_better)
        best, worst = (f"{each.name}, {judged.text(statistics.median(each.values))}" for each in (order[0], order[-1]))
        about = f"Box plots of the {judged.title} of {len(samples)} methods. Best median: {best}. Worst: {worst}."
        runs = "runs" if rows[0].noun == "run" else "blocks of tasks"
        caption = f"{title}, all {runs}: median, quartiles, whiskers to 1.5 times their distance, and values beyond."
        if any(sample.published is not None for sample in samples):
            caption += " Hollow diamonds: published mean and its spread."
        return picture(draw_boxes(samples, judged, runs), f"{title}, all {runs}", about, caption)

    def times(self, rows: Sequence[Row]) -> Picture | None:
        judged = rows[0].judged
        named = [(label, row) for label, row in zip(labels(rows), rows, strict=True) if row.mean is not None]
        points = [(label, row.seconds_per_run, row.mean or 0.0) for label, row in named if row.seconds_per_run]
        if len(points) < 2:
            return None
        figure, far = draw_score_against_time(points, judged)
        timeless = [label for label, row in named if not row.seconds_per_run]
        title = f"{rows[0].title}: {judged.title} against time"
        caption = f"{title}: the mean of all {rows[0].noun}s against the mean time of one."
        caption += f" Far from the others and not drawn: {', '.join(far)}." if far else ""
        caption += f" Without a time: {', '.join(timeless)}." if timeless else ""
        near = [point for point in points if point[0] not in far]
        best = (max if judged.higher_is_better else min)(near, key=lambda point: point[2])
        fastest = min(near, key=lambda point: point[1])
        about = (
            f"Scatter plot of {len(near)} methods. Best: {best[0]} with {judged.text(best[2])} in {best[1]:.2g} "
            f"seconds. Fastest: {fastest[0]}, {fastest[1]:.2g} seconds."
        )
        return picture(figure, title, about, caption)

    def strengths(self) -> list[Picture]:
        """Box plots along the strength, where COIN was run at many of them."""
        found: dict[tuple[str, int], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in self.runs:
            layers, strength = run.settings.get("layers"), run.settings.get("strength")
            if isinstance(layers, int) and isinstance(strength, int | float) and "accuracy" in run.metrics:
                found[run.dataset, layers][float(strength)].append(run.metrics["accuracy"])
        if not found or max(map(len, found.values())) < _SWEEP:
            return []
        said = []
        for (dataset, layers), values in sorted(found.items()):
            medians = {strength: statistics.median(own) for strength, own in values.items()}
            best = max(medians, key=lambda strength: medians[strength])
            where = f"{dataset_title(self.task, dataset)} with {layers} layers"
            said.append(f"{where}: best median {metric('accuracy', self.task).text(medians[best])} at {best:g}")
        title = "Accuracy against the strength of a layer"
        caption = f"{title}, σ². Boxes are quartiles over all runs. {'; '.join(said)}."
        return [picture(figures.draw_strength(self.runs), title, "; ".join(said) + ".", caption)]

    def missing(self) -> list[Picture]:
        """The error against what is missing, where that was varied."""
        rows = [row for row in self.rows if "missing" in row.condition]
        # The paper's variant and the causal one each have a panel, where at least three rates were run.
        variants = [[row for row in rows if bool(row.condition.get("causal")) == causal] for causal in (False, True)]
        shown = [row for some in variants if len({row.condition for row in some}) > 2 for row in some]
        if not shown:
            return []
        judged = shown[0].judged
        last = [row for row in shown if row.place == shown[-1].place and row.mean is not None]
        order = sorted(last, key=lambda row: row.mean or 0.0, reverse=judged.higher_is_better)
        title = f"{judged.title.capitalize()} against missing data"
        about = f"Lines of {len(last)} methods. At the right end {order[0].method} is best"
        about += f" and {order[-1].method} is worst."
        return [picture(figures.draw_missing(shown), title, about, f"{title}. Bands: one standard error over masks.")]

    def balance(self) -> list[Picture]:
        if not (pairs := figures.with_and_without_balance(self.rows)):
            return []
        names = [dataset_title(self.task, dataset, condition) for (dataset, condition, _), _ in pairs]
        title = "From balanced to unbalanced queries"
        about = f"What every method loses on {'; '.join(names)} where the classes' shares of the queries are drawn."
        return [picture(figures.draw_balance(self.rows), title, about, f"{title}. {about}")]

    def curves(self) -> list[Picture]:
        if not any(mean_curve([run], "roc") for run in self.runs):
            return []
        title = "ROC and precision-recall curves"
        return [
            picture(
                figures.draw_curves(self.runs), title, "Mean curves of every method; their areas are in the tables."
            )
        ]

    def settings(self) -> Fold:
        seen: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for row in self.rows:
            seen[row.method, _key(row.settings)][row.title] = None
        shown = [
            [Cell(method), Cell(", ".join(places)), Cell(settings_code(json.loads(settings)))]
            for (method, settings), places in seen.items()
        ]
        columns = [Column("method", "text"), Column("data sets", "text"), Column("settings", "text")]
        inner = Table("Settings of every method, as its runs were made.", columns, shown)
        return Fold(f"Settings of {_count(len(shown), 'method')}", [inner])


def _claims(claims: Sequence[dict[str, Any]]) -> Table:
    rows = [
        [
            *(Cell(str(claim.get(name, ""))) for name in ("claim", "dataset", "text")),
            Cell("yes", style="best") if claim.get("holds") else Cell("no", style="miss"),
        ]
        for claim in claims
        if isinstance(claim, dict)
    ]
    columns = [Column(name, "text") for name in ("claim", "data set", "measured", "holds")]
    return Table("The paper's findings, tested on these runs.", columns, rows)


def _provenance(found: Results) -> list[Block]:
    blocks: list[Block] = [versions(found.made)] if found.made else []
    if found.makers:
        rows = [
            [
                Cell(Code(str(maker.get("command", "not recorded")))),
                Cell(f"{maker['runs']:,}", maker["runs"]),
                Cell(str(maker.get("date", ""))),
                Cell(", ".join(f"{name} {maker[name]}" for name in ("condiff", "torch") if name in maker)),
            ]
            for maker in found.makers
        ]
        columns = [Column("command", "text"), Column("runs"), Column("date", "text"), Column("versions", "text")]
        blocks.append(Table("Every command that made runs.", columns, rows))
    return blocks or [Text("The folder does not record what made it.")]


def _task_title(task: str) -> str:
    return protocol(task).title if task in PROTOCOLS else task


def _best_of(grid: Grid) -> str:
    """Who is best where."""
    said = []
    for column in grid.columns:
        rows = ((line, grid.cell(line, column)) for line in grid.lines)
        winners = [line.label for line, row in rows if row is not None and grid.is_best(row, column)]
        said.append(f"Best on {column.title}: {', '.join(winners)}, {grid.best(column)}.")
    return " ".join(said)


def _places(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that are compared with each other, together."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.place].append(row)
    return list(found.values())


def _stand_out(methods: Sequence[str]) -> list[bool]:
    """COIN among others."""
    return [method == _OURS and len(set(methods)) > 1 for method in methods]


def _quantity(value: float | None) -> Cell:
    if value is None:
        return Cell("-")
    return Cell(f"{value:,.0f}" if value >= 100 else f"{value:.2g}", value)


def _key(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
