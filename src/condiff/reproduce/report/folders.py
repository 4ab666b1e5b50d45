"""Reading a results folder for its report, without changing a byte of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import read_json, refusing
from condiff.reproduce.metrics import METRICS
from condiff.reproduce.results import STORE
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Run
from condiff.reproduce.store import Store
from condiff.reproduce.summary import summarise

SUMMARY = "summary.json"
_NEEDED = ("task", "dataset", "method", "metric", "mean", "std", "runs", "published", "difference", "settings")


def require_folder(folder: Path) -> None:
    """Refuse what is no folder."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InvalidInputError(f"{folder} {what}: name a folder of results or of a model")


@dataclass(frozen=True)
class Results:
    """The results of a sweep.

    Attributes
    ----------
    name
        The folder's.
    rows, runs
        The summary, and every run where the store is there.
    made, makers
        What wrote the folder, and what made the runs.
    claims
        Findings that were tested, where there are any.
    """

    name: str
    rows: list[Row]
    runs: list[Run] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)
    makers: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)


def is_results(folder: Path) -> bool:
    """Whether the folder has runs or a summary of them."""
    return (folder / STORE).is_file() or (folder / SUMMARY).is_file()


def read_results(folder: Path) -> Results:
    """Read the store, the summary, the claims and what made them, as far as they are there."""
    summary = _rows(folder / SUMMARY) if (folder / SUMMARY).is_file() else []
    runs, makers = _runs(folder / STORE) if (folder / STORE).is_file() else ([], [])
    rows = summary
    if runs:
        # The store may hold more than the last summary; which metrics matter is for the summary to say.
        wanted = {row.metric for row in summary} or set(METRICS)
        rows = [row for row in summarise(runs) if row.metric in wanted]
    if not rows:
        raise InvalidFileError(f"{folder} holds no finished run: run its command first, and this one again")
    unknown = next((row.metric for row in rows if row.metric not in METRICS), None)
    if unknown is not None:
        raise InvalidFileError(f"{folder} measures {unknown!r}, which this version of condiff does not know")
    made = _json(folder / "provenance.json", dict) if (folder / "provenance.json").is_file() else {}
    claims = _json(folder / "claims.json", list) if (folder / "claims.json").is_file() else []
    return Results(folder.resolve().name, rows, runs, made, makers, claims)


def _json(path: Path, kind: type) -> Any:
    content = read_json(path, "make the results again")
    if not isinstance(content, kind):
        raise InvalidFileError(f"{path} is not a JSON {'object' if kind is dict else 'list'}: make the results again")
    return content


def _rows(path: Path) -> list[Row]:
    rows: list[dict[str, Any]] = _json(path, list)
    for row in rows:
        missing = [name for name in _NEEDED if not isinstance(row, dict) or name not in row]
        if missing:
            raise InvalidFileError(f"{path} is no summary of runs: a row lacks {missing[0]!r}; make the results again")
    with refusing(path, "a summary of runs", "make the results again"):
        return [Row.from_dict(row) for row in rows]


def _runs(path: Path) -> tuple[list[Run], list[dict[str, Any]]]:
    with Store.snapshot(path) as store:
        return store.runs(), store.makers()
