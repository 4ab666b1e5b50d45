"""A small table in clusters, and sessions on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from condiff.labelling.journal import Journal
from condiff.labelling.learner import Learner
from condiff.labelling.rows import Rows
from condiff.labelling.session import Session
from condiff.readers.tables import read_table

NAMES = ("ash", "elm", "oak")
TRUTH = [NAMES[row % 3] for row in range(90)]
Start = Callable[..., Session]


def write_table(path: Path, labels: dict[int, str] | None = None) -> np.ndarray:
    """Three clusters in the plane, row by row in turn; semicolons and Windows' line ends, as a spreadsheet writes."""
    generator = np.random.default_rng(0)
    points = np.array([[6.0 * (row % 3), 4.0 * (row % 3 == 1)] for row in range(90)]) + generator.normal(size=(90, 2))
    lines = ["x;note;kind;y"]
    for row, (x, y) in enumerate(points):
        lines.append(f"{x:.4f};<b>{row}</b>;{(labels or {}).get(row, '')};{y:.4f}")
    path.write_bytes("\r\n".join([*lines, ""]).encode("utf-8-sig"))
    return np.array([[float(f"{x:.4f}"), float(f"{y:.4f}")] for x, y in points])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a session on the table; the same again goes on where the last one stopped."""
    opened: list[Session] = []

    def started(labels: dict[int, str] | None = None, **options: float | str) -> Session:
        for each in opened:
            each.stop()
            each.journal.close()
        points = write_table(tmp_path / "trees.csv", labels)
        rows = Rows.of(read_table(tmp_path / "trees.csv"), "kind")
        journal = Journal(tmp_path / "trees.labels.jsonl", rows.about, len(rows))
        session = Session(rows, Learner.of(points), journal, **options)  # type: ignore[arg-type]
        session.start()
        opened.append(session)
        return session

    yield started
    for each in opened:
        each.stop()
        each.journal.close()
