"""The folder of a sweep: its store, and the files that people read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condiff.files import write_text
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Run
from condiff.reproduce.summary import summarise
from condiff.reproduce.tables import csv_text, latex, markdown

STORE = "runs.sqlite"


def headline(runs: Sequence[Run], metrics: Sequence[str]) -> list[Row]:
    """The rows of these metrics; other metrics stay in the store."""
    return [row for row in summarise(runs) if row.metric in metrics]


def write_results(
    folder: Path,
    rows: Sequence[Row],
    made: dict[str, str],
    *,
    makers: Sequence[dict[str, Any]] = (),
    splits: Sequence[dict[str, Any]] = (),
    texts: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write the summary as JSON, CSV, Markdown and LaTeX, with what made it; each file complete or not at all.

    Parameters
    ----------
    folder, rows
        Where, and the rows of the summary.
    made
        What wrote these files.
    makers
        What made the runs, which may be many commands: see :meth:`Store.makers`.
    splits
        For the record, one line each; those of runs that were made before stay.
    texts
        Files beside these, by name.
    """
    line = f"Made by `{made['command']}` on {made['date']} ({made['machine']}; torch {made['torch']})."
    written = {
        "summary.json": json.dumps([row.to_dict() for row in rows], indent=2, allow_nan=False) + "\n",
        "summary.csv": csv_text(rows),
        "table.md": f"{markdown(rows)}\n\n{line}\n",
        "table.tex": f"% {line}\n{latex(rows)}",
        "provenance.json": json.dumps({**made, "runs_made_by": list(makers)}, indent=2) + "\n",
    }
    if splits:
        written["splits.csv"] = joined_splits(folder / "splits.csv", splits)
    written |= texts or {}
    for name, text in written.items():
        write_text(folder / name, text)
    return [folder / name for name in written]


def joined_splits(path: Path, splits: Sequence[dict[str, Any]]) -> str:
    """A line for each split, after those that the file has of other runs of the folder."""
    header, *lines = [",".join(map(str, each)) for each in (splits[0], *(split.values() for split in splits))]
    before = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    kept = before[1:] if before[:1] == [header] else []
    return "\n".join([header, *dict.fromkeys([*kept, *lines])]) + "\n"
