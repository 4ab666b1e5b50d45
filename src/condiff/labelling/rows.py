"""The rows that are labelled: how a person reads them, what a model sees of them, and how they are written again."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.encoders.columns import DroppedColumn, ImageColumn, LearnedColumn, TextColumn, folder_of
from condiff.errors import CondiffError, InvalidInputError, did_you_mean
from condiff.estimators.inputs import fingerprints
from condiff.files import atomic_path
from condiff.labelling.journal import Decision, Journal
from condiff.readers.delimited import open_binary, read_records, text_form
from condiff.readers.tables import Table
from condiff.readers.targets import RECORD, infer_task, record_columns

#: The sides of the pictures of rows and of neighbours, in pixels.
_LARGE, _SMALL = 384, 56
# Letters of a text that stand for it among neighbours, and cells.
_LETTERS, _CELLS = 120, 4
# A matrix without names whose rows are this wide or wider, and square, is shown as pictures.
_NARROWEST = 36
#: What an export calls what was said where no label was given.
NOTES = {"unsure": "not sure", "none": "none of these", "skip": "skipped"}


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a table at one moment.

    Attributes
    ----------
    words
        One for every row, "" where there is none.
    fair
        Which rows are a fair sample: drawn at random, or labelled by the table itself.
    """

    words: tuple[str, ...]
    fair: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(bool, self.words))


@dataclass(frozen=True, eq=False)
class Rows:
    """A table and the column of it that is filled.

    Attributes
    ----------
    table, target
        The rows, and the name of the column.
    given
        What the column holds, "" where nothing is known.
    learned
        What became of the other columns.
    """

    table: Table
    target: str
    given: tuple[str, ...]
    learned: tuple[LearnedColumn, ...] = ()

    @classmethod
    def of(cls, table: Table, target: str, unlabelled: Iterable[str] = ()) -> Rows:
        """Read the labels that are there already; a column that is not there will be a new one."""
        if target in table.columns:
            values = table.labels(target, list(unlabelled))
            if values is None or (infer_task(values) == "regression" and np.isfinite(values).any()):
                raise InvalidInputError(
                    f"target column {target!r} of {table.source} holds values, and labels are classes: choose another "
                    "column, or name a new one"
                )
            missing = set(unlabelled)
            words = table.column(target).words().tolist()
            known = [value is not None and value == value for value in values.tolist()]
            given = tuple(w if k and w not in missing else "" for w, k in zip(words, known, strict=True))
            return cls(table, target, given)
        if hint := did_you_mean(target, table.columns):
            raise InvalidInputError(
                f"{table.source} has no column {target!r}{hint}: if it is to be a new one, name it less alike, or add "
                "it to the table, empty"
            )
        return cls(table, target, ("",) * table.n_rows)

    def __len__(self) -> int:
        return len(self.given)

    @property
    def about(self) -> dict[str, Any]:
        """What identifies the rows: everything but the labels."""
        digest = hashlib.sha256()
        if self.table.matrix is not None:
            digest.update(fingerprints(self.table.matrix).tobytes())
        for name in self._others:
            digest.update("\0".join([name, *self.table.column(name).words().tolist()]).encode("utf-8", "replace"))
        return {"target": self.target, "rows": len(self), "content": digest.hexdigest()}

    @property
    def _others(self) -> list[str]:
        return [name for name in self.table.columns if name != self.target]

    @property
    def _shown(self) -> list[str]:
        """What a person reads: not what an earlier export has written beside the labels."""
        record = record_columns(self.target, self.table.columns)
        return [name for name in self._others if name not in record]

    # ---- as a person reads them -----------------------------------------------------------------------------------

    def look(self, row: int) -> dict[str, Any]:
        """All of a row: its texts, its cells, its picture or its pixels."""
        texts = {column.name for column in self.learned if isinstance(column, TextColumn)}
        cells = self._cells(row)
        return {
            "name": f"row {row + 1}",
            "texts": [[name, value] for name, value in cells if name in texts and value],
            "cells": [[name, value] for name, value in cells if name not in texts and name not in self._images],
            "picture": self.picture(row, _LARGE),
            "file": self.table.column(self._images[0]).cell(row) if self._images else "",
            "pixels": self._pixels(row),
        }

    def brief(self, row: int) -> dict[str, Any]:
        """A line that stands for a row, and a small picture."""
        texts = [column.name for column in self.learned if isinstance(column, TextColumn)]
        cells = self._cells(row, texts or self._images or self._telling)
        # A number says nothing without its name.
        plain = bool(texts or self._images)
        words = " · ".join(value if plain else f"{name} {value}" for name, value in cells if value)
        words = words if len(words) <= _LETTERS else f"{words[:_LETTERS].rsplit(' ', 1)[0]} …"
        return {"row": row, "text": words, "picture": self.picture(row, _SMALL), "pixels": self._pixels(row)}

    @property
    def _telling(self) -> list[str]:
        """The first columns that are learned from, which make rows neighbours; any where none are."""
        used = [column.name for column in self.learned if not isinstance(column, DroppedColumn)]
        return (used or self._shown)[:_CELLS]

    @property
    def _images(self) -> list[str]:
        return [column.name for column in self.learned if isinstance(column, ImageColumn)]

    def _cells(self, row: int, names: Iterable[str] | None = None) -> list[tuple[str, str]]:
        return [(name, self.table.column(name).cell(row)) for name in (self._shown if names is None else names)]

    def picture(self, row: int, side: int) -> str:
        """A row's image as an address of data; "" where it has none, or none that can be read."""
        if not self._images:
            return ""
        from condiff.encoders.images import thumbnail

        file = self.table.column(self._images[0]).cell(row)
        try:
            return thumbnail(folder_of(self.table.source) / file, side) if file else ""
        except (CondiffError, OSError):
            return ""

    def _pixels(self, row: int) -> list[list[float]] | None:
        """A row of numbers as a square picture, from 0 to 1, where it may be one."""
        matrix = self.table.matrix
        if matrix is None or not isinstance(matrix, np.ndarray) or self.table.feature_names:
            return None
        side = math.isqrt(matrix.shape[1])
        values = np.asarray(matrix[row], dtype=np.float64)
        if side * side < _NARROWEST or side * side != matrix.shape[1] or values.min() < 0 or not values.max() > 0:
            return None
        return np.round(values / values.max(), 2).reshape(side, side).tolist()  # type: ignore[no-any-return]

    # ---- as they are written again --------------------------------------------------------------------------------

    def export(self, out: Path, journal: Journal) -> int:
        """Write the table with what the journal says, in its own order and dialect; returns the number of labels.

        The column is filled; behind it come when each label was given, what was there before, and what was said where
        there is none.
        """
        header, records, form = self._records(out)
        # A table that was written so before has these columns already, and what they say stands until it is changed.
        beside = record_columns(self.target, header) or [_new(self.target + ending, header) for ending in RECORD]
        names = [self.target, *beside]
        wide = [*header, *(name for name in names if name not in header)]
        places = [wide.index(name) for name in names]
        lines = io.StringIO(newline="")
        lines.write(form.preface)
        writer = csv.writer(lines, delimiter=form.delimiter, lineterminator=form.line_end)
        writer.writerow(wide)
        count = 0
        for row, cells in enumerate(records):
            said = self._said(row, journal) or (self.given[row],)
            count += bool(said[0])
            filled = [*cells, *[""] * (len(wide) - len(cells))]
            for place, cell in zip(places, said, strict=False):
                filled[place] = cell
            writer.writerow(filled)
        text = lines.getvalue()
        try:
            content = text.encode(form.encoding)
        except UnicodeEncodeError:
            content = text.encode("utf-8")
        with atomic_path(out) as temporary:
            temporary.write_bytes(content)
        return count

    def _said(self, row: int, journal: Journal) -> tuple[str, str, str, str] | None:
        """The label of a row, when it was given, what was there before, and a note; None where nothing was said."""
        last = journal.last.get(row)
        if last is None or last.kind == "open":
            return None
        before = journal.decisions[last.before - 1] if last.before else None
        return self.label(row, last), last.time, self.label(row, before), NOTES.get(last.kind, "")

    def label(self, row: int, decision: Decision | None) -> str:
        """The label of a row after a decision; "" where there is none."""
        if decision is None or decision.kind == "open":
            return self.given[row]
        return decision.label if decision.kind == "label" else ""

    def labels(self, journal: Journal) -> Labels:
        """The labels of all rows, and which of them are a fair sample."""
        words = tuple(self.label(row, journal.last.get(row)) for row in range(len(self)))
        return Labels(words, np.array([journal.is_fair(row) for row in range(len(self))], dtype=bool))

    def _records(self, out: Path) -> tuple[list[str], Iterator[list[str]], _Dialect]:
        path = self.table.path
        if path.is_dir():  # names of images are relative to the folder, and will be to the table that names them
            files = (path / file for file in self.table.column("file").words().tolist())
            rows = ([Path(os.path.relpath(file, out.parent)).as_posix()] for file in files)
            return ["file"], rows, _Dialect()
        form = text_form(path) if path.is_file() else None
        if form is not None:
            records = read_records(path)
            header = ["" if name.startswith("\0") else name for name in next(records)[1]]
            return header, (cells for _, cells in records), _Dialect.of(path, form.encoding, form.delimiter, form.skip)
        names = [] if self.table.matrix is not None else list(self.table.columns)
        header = names or ["row", self.target]
        columns: Mapping[str, Any] = {name: self.table.column(name).words().tolist() for name in names}
        cells = ([columns[name][row] for name in names] if names else [str(row + 1), ""] for row in range(len(self)))
        return header, cells, _Dialect()


def _new(name: str, header: Sequence[str]) -> str:
    """A name that no column has."""
    while name in header:
        name += "_"
    return name


@dataclass(frozen=True)
class _Dialect:
    """How a text file is written: what comes before its header, its encoding, what ends a cell and a line."""

    preface: str = ""
    encoding: str = "utf-8"
    delimiter: str = ","
    line_end: str = "\n"

    @classmethod
    def of(cls, path: Path, encoding: str, delimiter: str, skip: int) -> _Dialect:
        with open_binary(path) as stream:
            marked = stream.read(3) == b"\xef\xbb\xbf"
        codec = encoding if marked or encoding != "utf-8-sig" else "utf-8"
        with open_binary(path) as raw, io.TextIOWrapper(raw, encoding, errors="replace", newline="") as stream:
            preface = "".join(stream.readline() for _ in range(skip))
            first = stream.readline()
        return cls(preface, codec, delimiter, "\r\n" if first.endswith("\r\n") else "\n")


def codes_of(labels: Iterable[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Different labels in order, and the place of each among them."""
    given = list(labels)
    names = sorted(set(given))
    place = {name: code for code, name in enumerate(names)}
    return names, np.array([place[label] for label in given], dtype=np.int64)
