"""Rows of a summary laid out as the paper's tables are: a line a method, a column a data set."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from condiff.errors import InvalidInputError
from condiff.reproduce.metrics import Metric, metric
from condiff.reproduce.published import datasets
from condiff.reproduce.summary import group, labels, method_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from condiff.reproduce.summary import Row


# More than this many methods with other numbers of runs than the rest make no sentence.
_MOST_EXCEPTIONS = 6


@dataclass(frozen=True)
class Line:
    """A method's line: how it is called there, and its group in the paper's table (empty where it is not in it)."""

    label: str
    method: str
    group: str


@dataclass(frozen=True)
class Column:
    """A data set's column, for one metric."""

    dataset: str
    metric_name: str
    title: str
    task: str

    @property
    def metric(self) -> Metric:
        """How its values are rounded and judged."""
        return metric(self.metric_name, self.task)


@dataclass(frozen=True)
class Grid:
    """The rows of one task by line and column; where something was not measured there is no cell."""

    task: str
    lines: list[Line]
    columns: list[Column]
    cells: dict[tuple[str, Column], Row]

    def cell(self, line: Line, column: Column) -> Row | None:
        """What was measured there."""
        return self.cells.get((line.label, column))

    def best(self, column: Column) -> str:
        """The best mean of a column, as it is printed: all that print the same share the honour."""
        means = [row["mean"] for (_, place), row in self.cells.items() if place == column and row["mean"] is not None]
        best = max if column.metric.higher_is_better else min
        return column.metric.text(best(means)) if means else ""

    def about(self) -> str:
        """What the numbers beside the means are, and over how many runs."""
        kind = "95 % interval" if any("interval" in row for row in self.cells.values()) else "standard deviation"
        return f"mean ± {kind} over {self.runs_text()}"

    def runs_text(self) -> str:
        """Over how many runs the values are, with the exceptions to what most of them share."""
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
        if sum(map(len, exceptions.values())) > _MOST_EXCEPTIONS:
            runs = [row["runs"] for row in self.cells.values()]
            return f"{min(runs):,} to {max(runs):,} {run_noun(next(iter(self.cells.values())))}s"
        return "; ".join([usual, *(f"{', '.join(names)}: {text}" for text, names in exceptions.items())])


def lay_out(rows: Sequence[Row]) -> Grid:
    """Lay out the rows of one task; methods in the paper's order, then others by name."""
    if not rows:
        raise InvalidInputError("there are no results to show")
    task = rows[0]["task"]
    if any(row["task"] != task for row in rows):
        raise InvalidInputError(f"one table shows one task, not {', '.join(sorted({row['task'] for row in rows}))}")
    places = list(dict.fromkeys((row["dataset"], row["metric"]) for row in rows))
    columns = {place: Column(*place, _title(task, *place, places), task) for place in places}
    names = labels(rows)
    named = sorted(zip(names, rows, strict=True), key=lambda pair: method_place(task, pair[1]["method"]))
    lines = dict.fromkeys(Line(name, row["method"], group(task, row["method"])) for name, row in named)
    cells = {(name, columns[row["dataset"], row["metric"]]): row for name, row in zip(names, rows, strict=True)}
    return Grid(task, list(lines), list(columns.values()), cells)


def dataset_title(task: str, dataset: str) -> str:
    """The paper's data sets with a capital; a user's as it is called."""
    return dataset.capitalize() if dataset in datasets(task) else dataset


def _title(task: str, dataset: str, name: str, places: list[tuple[str, str]]) -> str:
    if len({metric_name for _, metric_name in places}) == 1:
        return dataset_title(task, dataset)
    if len({dataset_name for dataset_name, _ in places}) == 1:
        return metric(name).title
    return f"{dataset_title(task, dataset)}, {metric(name).title}"


def spread(row: Row) -> float | None:
    """What stands beside a row's mean: as in the paper, the 95 % interval over few-shot tasks, else the deviation."""
    found: float | None = row["interval"] if "interval" in row else row["std"]
    return found


def run_noun(row: Row) -> str:
    """What one of a row's runs is called."""
    return "task" if "interval" in row else "run"


def _runs_text(row: Row) -> str:
    if "interval" in row:
        return f"{row['runs']:,} {run_noun(row)}s"
    if row["runs"] != row["splits"] * row["inits"]:
        return f"{row['runs']} runs"
    each = " each" if row["splits"] > 1 else ""
    return f"{_count(row['splits'], 'split')} with {_count(row['inits'], 'initialisation')}{each}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
