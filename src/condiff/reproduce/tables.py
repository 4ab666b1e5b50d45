"""Tables of measured rows, as Markdown, CSV, LaTeX and for the terminal, and their place in a document."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from condiff.errors import InvalidInputError
from condiff.reproduce.grid import Column, Grid, Line, dataset_title, lay_out, run_noun, spread
from condiff.reproduce.metrics import metric
from condiff.reproduce.summary import labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from condiff.reproduce.summary import Row

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


def markdown(rows: Sequence[Row]) -> str:
    """A line a method and a column a data set: ours, in brackets the published value and the difference."""
    grid = lay_out(rows)
    lines = [
        _markdown_line(["method", *(column.title for column in grid.columns)]),
        "| --- |" + " ---: |" * len(grid.columns),
        *(
            _markdown_line([line.label, *(_cell_text(grid, line, column) for column in grid.columns)])
            for line in grid.lines
        ),
        "",
        f"{_metric_text(grid)}: {grid.about()}.",
    ]
    if any(row["published"] is not None for row in rows):
        lines[-1] += " In brackets: the published value and the difference from it."
    return "\n".join(lines)


def csv_text(rows: Sequence[Row]) -> str:
    """Every column of the summary in full precision; nothing where a value is None, settings as JSON."""
    if not rows:
        raise InvalidInputError("there are no results to show")
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "settings": json.dumps(row["settings"], sort_keys=True)} for row in rows)
    return stream.getvalue()


def latex(rows: Sequence[Row]) -> str:
    """The paper's layout: grouped, the best of a column in bold; for booktabs and multirow."""
    grid = lay_out(rows)
    titles = [_escape_latex(column.title) for column in grid.columns]
    caption = f"{_metric_text(grid)}: {grid.about()}. The best of a column is bold."
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
    """A line a row: ours, runs, the published value and the difference; one beyond the metric's tolerance is marked."""
    if not rows:
        raise InvalidInputError("there are no results to show")
    several = len({row["metric"] for row in rows}) > 1
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left", caption_style="dim")
    table.add_column("data set")
    table.add_column("method")
    if several:
        table.add_column("metric")
    value_title = "value" if several else metric(rows[0]["metric"], rows[0]["task"]).title
    compared = any(row["published"] is not None for row in rows)
    noun = run_noun(rows[0])
    for title in (value_title, f"{noun}s", f"s a {noun}", *(("published", "difference") if compared else ())):
        table.add_column(title, justify="right", no_wrap=True)
    before = None
    for row, label in zip(rows, labels(rows), strict=True):
        judged = metric(row["metric"], row["task"])
        name = dataset_title(row["task"], row["dataset"])
        cells: list[str | Text] = [
            judged.spread_text(row["mean"], spread(row)),
            f"{row['runs']:,}",
            _seconds_text(row["seconds_per_run"]),
        ]
        if compared:
            cells += [judged.spread_text(row["published"], row["published_std"]), _difference(row)]
        style = "bold" if row["method"] == "COIN" else ""
        table.add_row(Text("" if name == before else name), Text(label, style), *([judged.title] * several), *cells)
        before = name
    if any(metric(row["metric"], row["task"]).misses(row["difference"]) for row in rows):
        tolerances = {metric(row["metric"]).title: metric(row["metric"]).tolerance for row in rows}
        limits = ", ".join(f"{limit:g} in {title}" for title, limit in tolerances.items())
        table.caption = f"▲ ▼ further from the published value than {limits}"
    return table


def demo_markdown(rows: list[dict[str, Any]]) -> str:
    """The demo's accuracies: a row a method, a column a number of labels."""
    numbers = sorted({row["labels_per_class"] for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["method"], row["labels_per_class"]): f"{row['mean']:.1f} ± {row['std']:.1f}" for row in rows}
    lines = [
        "| labels a class | " + " | ".join(str(number) for number in numbers) + " |",
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


def _metric_text(grid: Grid) -> str:
    titles = dict.fromkeys(column.metric.title for column in grid.columns)
    text = ", ".join(titles)
    return text[0].upper() + text[1:]


def _cell_text(grid: Grid, line: Line, column: Column) -> str:
    row = grid.cell(line, column)
    if row is None:
        return "-"
    ours = column.metric.spread_text(row["mean"], spread(row))
    if row["published"] is None:
        return ours
    theirs = column.metric.spread_text(row["published"], row["published_std"])
    return f"{ours} ({theirs}, {column.metric.difference_text(row['difference'])})"


def _markdown_line(cells: list[str]) -> str:
    escaped = (re.sub(r"([\\|*_`<\[])", r"\\\1", " ".join(cell.split())) for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _latex_cell(grid: Grid, line: Line, column: Column) -> str:
    row = grid.cell(line, column)
    if row is None or row["mean"] is None:
        return "--"
    mean = column.metric.text(row["mean"])
    shown = rf"\textbf{{{mean}}}" if mean == grid.best(column) else mean
    return shown if spread(row) is None else rf"{shown} $\pm$ {column.metric.text(spread(row))}"


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _seconds_text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.2g}"


def _difference(row: Row) -> Text:
    judged, difference = metric(row["metric"], row["task"]), row["difference"]
    text = judged.difference_text(difference)
    if not judged.misses(difference):
        return Text(f"{text}  ")
    better = (difference > 0) == judged.higher_is_better
    return Text(f"{text} {'▲' if difference > 0 else '▼'}", style="green" if better else "red")
