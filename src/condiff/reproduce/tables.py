"""Tables of measured rows: laid out as the paper's are, written as Markdown, CSV, LaTeX and for the terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from condiff.errors import InvalidInputError
from condiff.reproduce.metrics import Metric, Style, metric
from condiff.reproduce.published import group
from condiff.reproduce.rows import Row, Spread, describe, labels, method_place, section
from condiff.reproduce.runs import Condition

# With more exceptions than this to the usual number of runs, a sentence does not list them.
_MOST_EXCEPTIONS = 6
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "\n": " ",
}


@dataclass(frozen=True)
class Line:
    """A method's line: its label, and its group in the paper's table (empty if it has none)."""

    label: str
    method: str
    group: str


@dataclass(frozen=True)
class Column:
    """A column: a data set under a condition, by one metric."""

    place: tuple[str, Condition, str]
    title: str
    metric: Metric


@dataclass(frozen=True)
class Grid:
    """The rows of one task by line and column; what was not measured has no cell."""

    task: str
    lines: list[Line]
    columns: list[Column]
    cells: dict[tuple[str, Column], Row]

    def cell(self, line: Line, column: Column) -> Row | None:
        """The cell there, if it was measured."""
        return self.cells.get((line.label, column))

    def is_best(self, row: Row, column: Column) -> bool:
        """Whether a row's mean is the best of its column as it is printed: all that print the same count as best."""
        return row.mean is not None and column.metric.text(row.mean) == self.best(column)

    def best(self, column: Column) -> str:
        """The best mean of a column, as it is printed."""
        return self._best.get(column, "")

    @cached_property
    def _best(self) -> dict[Column, str]:
        means: dict[Column, list[float]] = defaultdict(list)
        for (_, column), row in self.cells.items():
            if row.mean is not None:
                means[column].append(row.mean)
        better = {column: max if column.metric.higher_is_better else min for column in means}
        return {column: column.metric.text(better[column](found)) for column, found in means.items()}

    @property
    def spread_kind(self) -> Spread:
        """The kind of spread beside the means."""
        return next(iter(self.cells.values())).spread_kind

    def about(self) -> str:
        """A description of the spread, and the number of runs."""
        return f"mean ± {self.spread_kind} over {self.runs_text()}"

    def runs_text(self) -> str:
        """Over how many runs the values are, with the exceptions to what most of them share."""
        usual, exceptions = self._exceptions()
        if self.is_uneven:
            runs = [row.runs for row in self.cells.values()]
            return f"{min(runs):,} to {max(runs):,} {next(iter(self.cells.values())).noun}s"
        return "; ".join([usual, *(f"{', '.join(names)}: {text}" for text, names in exceptions.items())])

    @property
    def is_uneven(self) -> bool:
        """Whether the numbers of runs differ too much for a sentence."""
        return sum(map(len, self._exceptions()[1].values())) > _MOST_EXCEPTIONS

    def _exceptions(self) -> tuple[str, dict[str, list[str]]]:
        """The number of runs that most cells share, and which cells have another."""
        texts = {key: _runs_text(row) for key, row in self.cells.items()}
        usual = Counter(texts.values()).most_common(1)[0][0]
        exceptions: dict[str, list[str]] = defaultdict(list)
        for line in self.lines:
            found = {column: texts[line.label, column] for column in self.columns if (line.label, column) in texts}
            if len(set(found.values())) == 1:
                exceptions[next(iter(found.values()))].append(line.label)
                continue
            for column, text in found.items():
                exceptions[text].append(f"{line.label} on {column.title}")
        exceptions.pop(usual, None)
        return usual, exceptions


def lay_out(rows: Sequence[Row]) -> Grid:
    """Lay out the rows of one task; methods in the paper's order, then others by name."""
    if not rows:
        raise InvalidInputError("there are no results to show")
    task = rows[0].task
    if any(row.task != task for row in rows):
        raise InvalidInputError(f"one table shows one task, not {', '.join(sorted({row.task for row in rows}))}")
    columns = _columns(rows)
    names = labels(rows)
    named = sorted(zip(names, rows, strict=True), key=lambda pair: method_place(task, pair[1].method))
    lines = dict.fromkeys(Line(name, row.method, group(task, row.method)) for name, row in named)
    cells = {(name, columns[row.place]): row for name, row in zip(names, rows, strict=True)}
    return Grid(task, list(lines), list(columns.values()), cells)


def _columns(rows: Sequence[Row]) -> dict[Any, Column]:
    places = {row.place: row for row in rows}
    parts = {row.place[:2]: describe(row.task, *row.place[:2]) for row in rows}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    titles = {place: ", ".join([part for part in each if part not in shared] or each) for place, each in parts.items()}
    metrics = {row.metric for row in rows}
    found = {}
    for place, row in places.items():
        title = titles[place[:2]]
        if len(metrics) > 1:
            title = row.judged.title if len(titles) == 1 else f"{title}, {row.judged.title}"
        found[place] = Column(place, title, row.judged)
    return found


def markdown(rows: Sequence[Row]) -> str:
    """One line per method and one column per data set: ours, in brackets the published value and the difference.

    Where the task's protocol divides its rows into sections, there is a table for each.
    """
    texts = [f"{f'## {title}' + chr(10) * 2 if title else ''}{_markdown(own)}" for title, own in _sections(rows)]
    return "\n\n".join(texts)


def _sections(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    if not rows:
        raise InvalidInputError("there are no results to show")
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[section(row)].append(row)
    return list(found.items())


def _markdown(rows: Sequence[Row]) -> str:
    grid = lay_out(rows)
    about = f"mean ± {grid.spread_kind}" if grid.is_uneven else grid.about()
    lines = [*_markdown_grid(grid, _cell_text), "", f"{_metric_text(grid)}: {about}."]
    if any(row.published is not None for row in rows):
        lines[-1] += " In brackets: the published value and the difference from it."
    if grid.is_uneven:
        lines[-1] += f" The {rows[0].noun}s behind each mean, and its standard error:"
        lines += ["", *_markdown_grid(grid, _count_text)]
    return "\n".join(lines)


def _markdown_grid(grid: Grid, text: Callable[[Row | None], str]) -> list[str]:
    return [
        _markdown_line(["method", *(column.title for column in grid.columns)]),
        "| --- |" + " ---: |" * len(grid.columns),
        *(
            _markdown_line([line.label, *(text(grid.cell(line, column)) for column in grid.columns)])
            for line in grid.lines
        ),
    ]


def _count_text(row: Row | None) -> str:
    if row is None:
        return "-"
    error = "" if row.stderr is None else f", ± {row.judged.text(row.stderr)}"
    return f"{row.runs:,}{error}"


def csv_text(rows: Sequence[Row]) -> str:
    """Every column of the summary in full precision; empty where a value is None, settings and condition as JSON."""
    if not rows:
        raise InvalidInputError("there are no results to show")
    stream = io.StringIO()
    plain = [row.to_dict() for row in rows]
    writer = csv.DictWriter(stream, list(plain[0]), lineterminator="\n")
    writer.writeheader()
    for row in plain:
        texts = {name: json.dumps(row[name], sort_keys=True) for name in ("settings", "condition")}
        writer.writerow({**row, **texts})
    return stream.getvalue()


def latex(rows: Sequence[Row]) -> str:
    """The paper's layout: grouped, the best of a column in bold; for booktabs, multirow. A table for each section."""
    return "\n".join(_latex(own, title) for title, own in _sections(rows))


def _latex(rows: Sequence[Row], title: str) -> str:
    grid = lay_out(rows)
    titles = [_escape_latex(column.title) for column in grid.columns]
    caption = f"{title + '. ' if title else ''}{_metric_text(grid)}: {grid.about()}. The best of a column is bold."
    body = []
    for name, members in groupby(grid.lines, key=lambda line: line.group):
        lines = list(members)
        body.append(r"\midrule")
        # A group of one method that bears its name, as COIN does, needs no heading.
        heading = "" if name in (lines[0].label, "") else rf"\multirow{{{len(lines)}}}{{*}}{{{_escape_latex(name)}}}"
        for number, line in enumerate(lines):
            cells = [_latex_cell(grid, line, column) for column in grid.columns]
            body.append(" & ".join(["" if number else heading, _escape_latex(line.label), *cells]).lstrip() + r" \\")
    return "\n".join(
        [
            r"% In the preamble: \usepackage{booktabs,multirow}",
            r"\begin{table}[htbp]",
            r"\centering",
            rf"\caption{{{_escape_latex(caption)}}}",
            rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', grid.task.lower())}}}",
            rf"\begin{{tabular}}{{ll{'c' * len(grid.columns)}}}",
            r"\toprule",
            " & ".join(["", "Method", *titles]).lstrip() + r" \\",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def terminal_table(rows: Sequence[Row]) -> Table:
    """One line per row: ours, runs, the published value and the difference, marked beyond the metric's tolerance."""
    if not rows:
        raise InvalidInputError("there are no results to show")
    several = len({row.metric for row in rows}) > 1
    first = rows[0]
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left", caption_style="dim")
    table.add_column("data set")
    table.add_column("method")
    if several:
        table.add_column("metric")
    compared = any(row.published is not None for row in rows)
    headings = ["value" if several else first.judged.title, f"{first.noun}s", f"s per {first.noun}"]
    for heading in (*headings, *(("published", "difference") if compared else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    before = None
    for row, label in zip(rows, labels(rows), strict=True):
        cells: list[str | Text] = [row.text(), f"{row.runs:,}", _seconds_text(row.seconds_per_run)]
        if compared:
            cells += [row.published_text(), _difference(row)]
        style = "bold" if row.method == "COIN" else ""
        name = Text("" if row.title == before else row.title)
        table.add_row(name, Text(label, style), *([row.judged.title] * several), *cells)
        before = row.title
    table.caption = f"mean ± {first.spread_kind}"
    if any(row.misses for row in rows):
        tolerances = {metric(row.metric).title: metric(row.metric).tolerance for row in rows}
        limits = ", ".join(f"{limit:g} in {title}" for title, limit in tolerances.items())
        table.caption += f"\n▲ ▼ further from the published value than {limits}"
    return table


def demo_markdown(rows: list[dict[str, Any]]) -> str:
    """The demo's accuracies: one row per method, one column per number of labels."""
    numbers = sorted({row["labels_per_class"] for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["method"], row["labels_per_class"]): f"{row['mean']:.1f} ± {row['std']:.1f}" for row in rows}
    lines = [
        "| labels per class | " + " | ".join(str(number) for number in numbers) + " |",
        "| --- |" + " --- |" * len(numbers),
    ]
    lines += [f"| {method} | " + " | ".join(cells[method, number] for number in numbers) + " |" for method in methods]
    return "\n".join(lines)


def put_table(document: str, name: str, table: str) -> str:
    """The document with the table between the comments ``<!-- name -->`` and ``<!-- end of name -->``."""
    pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end of {re.escape(name)} -->)", re.DOTALL)
    if not pattern.search(document):
        raise InvalidInputError(f"the document has no place for the table {name!r}: add its two comments")
    return pattern.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", document)


def _runs_text(row: Row) -> str:
    if row.spread_kind is Spread.INTERVAL:
        return f"{row.runs:,} tasks"
    if row.runs != row.splits * row.inits:
        return f"{row.runs} runs"
    each = " each" if row.splits > 1 else ""
    return f"{_count(row.splits, 'split')} with {_count(row.inits, 'initialisation')}{each}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _metric_text(grid: Grid) -> str:
    titles = dict.fromkeys(column.metric.title for column in grid.columns)
    text = ", ".join(titles)
    return text[0].upper() + text[1:]


def _cell_text(row: Row | None, style: Style = "plain") -> str:
    if row is None:
        return "-"
    if row.published is None:
        return row.text(style)
    return f"{row.text(style)} ({row.published_text(style)}, {row.difference_text()})"


def _markdown_line(cells: list[str]) -> str:
    escaped = (re.sub(r"([\\|*_`<\[])", r"\\\1", " ".join(cell.split())) for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _latex_cell(grid: Grid, line: Line, column: Column) -> str:
    row = grid.cell(line, column)
    return "--" if row is None else row.text("latex", bold=grid.is_best(row, column))


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _seconds_text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.2g}"


def _difference(row: Row) -> Text:
    text = row.difference_text()
    if not row.misses:
        return Text(f"{text}  ")
    assert row.difference is not None
    better = (row.difference > 0) == row.judged.higher_is_better
    return Text(f"{text} {'▲' if row.difference > 0 else '▼'}", style="green" if better else "red")
