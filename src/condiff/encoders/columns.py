"""What a column holds, and how a table's columns become the numbers that a model reads.

The rules are few and said aloud by `ColumnEncoder.report`: numbers and dates are standardised (a skewed column
too: take its logarithm beforehand if that suits it better), booleans are 0/1, text is one-hot, ids are set aside.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError, did_you_mean
from condiff.readers.cells import (
    EPOCH,
    Floats,
    Kind,
    Matrix,
    as_number,
    column_kind,
    days,
    id_like,
    listed,
    read_numbers,
    text_values,
)

if TYPE_CHECKING:
    import pandas as pd

    from condiff.readers.tables import Table


SCHEMA = "condiff.columns/1"
FLAG_SHARE = 0.01  # missing numbers in more than this share of the rows, and in two at least, get a 0/1 column
MAX_LEVELS = 1000
MAX_SCALE = 2.0  # a lopsided one-hot column may not shout
FAR = 1e6  # standardised values are cut here, so that a wild cell at prediction stays finite
_LOCAL_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1(?:\d{2}|\d{4})")
_PUNCTUATED = re.compile(r"[-+]?[$€£]?\s?\d+(?:[., ']\d+)*\s?[$€£%]?")


@dataclass(frozen=True)
class NumberColumn:
    """A numeric, boolean or date column: standardised, with a 0/1 column for missing values if ``flag``.

    Dates count days since ``origin``. ``sd`` is 0 where only whether a value is there says anything.
    """

    name: str
    kind: Kind
    origin: float
    median: float
    mean: float
    sd: float
    flag: bool

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns that this one becomes."""
        return [self.name] * (self.sd > 0) + [f"{self.name} is missing"] * self.flag

    def encode(self, series: pd.Series, path: Path, before: int = 0) -> Floats:
        """Rows x (1 or 2); ``before`` rows of the file come before these."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = read_numbers(series, self.kind, path, before) - self.origin
            missing = ~np.isfinite(values)
            filled = np.where(missing, self.median, values)
            parts = [np.clip((filled - self.mean) / self.sd, -FAR, FAR)] if self.sd > 0 else []
        return np.column_stack(parts + [missing.astype(np.float64)] * self.flag)


@dataclass(frozen=True)
class CategoryColumn:
    """A text column: one 0/``scale`` column a level, one for the pooled rare ones, one for missing."""

    name: str
    levels: list[str]
    pooled: list[str]
    missing: bool
    scale: float

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns that this one becomes."""
        names = [f"{self.name}={level}" for level in self.levels]
        return names + [f"{self.name} is rare"] * bool(self.pooled) + [f"{self.name} is missing"] * self.missing

    def encode(self, series: pd.Series, path: Path, before: int = 0) -> sp.csr_array:
        """Rows x levels; a level that was not there at fitting is a row of zeros."""
        place: dict[str | None, int] = {level: code for code, level in enumerate(self.levels)}
        place.update(dict.fromkeys(self.pooled, len(self.levels)))
        width = len(self.feature_names)
        if self.missing:
            place[None] = width - 1
        codes = np.array([place.get(value, -1) for value in text_values(series)], dtype=np.int64)
        known = codes >= 0
        starts = np.concatenate([[0], np.cumsum(known)])
        data = np.full(int(known.sum()), self.scale)
        return sp.csr_array((data, codes[known], starts), shape=(len(codes), width))


@dataclass(frozen=True)
class ColumnEncoder:
    """A table as a matrix, the same way at fitting and at prediction.

    Made by `fit` or `from_dict`. ``width`` is the number of NPZ features, which are used as they are, or None
    for a table of columns. ``single`` says that the matrix is one of float32, as it is where Parquet was fitted on: the
    file may be large, and is then never there as a whole.
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]
    id_column: str | None
    sparse: bool
    width: int | None
    lines: tuple[str, ...]
    single: bool = False

    @classmethod
    def fit(cls, table: Table, exclude: Collection[str] = (), keep: Collection[str] = ()) -> ColumnEncoder:
        """Learn the encoding from all rows, labelled and unlabelled.

        Parameters
        ----------
        table
            The rows.
        exclude
            Columns to leave out: the target, and whatever must not be learnt from.
        keep
            Columns that must not be taken for ids; a text column among them is one-hot encoded.
        """
        names = table.other_columns(exclude)
        if table.matrix is not None:
            ids = "ids" if "ids" in table.named else None
            line = f"{table.matrix.shape[1]} features used as they are"
            return cls((), ids, sp.issparse(table.matrix), int(table.matrix.shape[1]), (line,))
        columns: list[NumberColumn | CategoryColumn] = []
        id_column, notes = None, _Notes()
        for name in names:
            try:
                columns.append(_fit_column(table.column(name), name in keep, table.path, notes))
            except _Dropped as reason:
                notes.dropped.setdefault(str(reason), []).append(name)
                if id_column is None and id_like(name):
                    id_column = name
        if not columns:
            reasons = "; ".join(notes.lines()) or "there is no other column"
            raise InvalidInputError(f"{table.path} has no column left to learn from: {reasons}")
        filled = sum(1 if isinstance(c, CategoryColumn) else len(c.feature_names) for c in columns)
        total = sum(len(c.feature_names) for c in columns)
        if id_column is not None:
            notes.other.append(f"{id_column!r} names the rows in the output")
        sparse = total >= 256 and filled < 0.1 * total
        return cls(tuple(columns), id_column, sparse, None, tuple(notes.lines()), single=table.file is not None)

    @property
    def feature_names(self) -> list[str]:
        """The names of the matrix's columns; for NPZ features their numbers."""
        if self.width is not None:
            return [f"X[{column}]" for column in range(self.width)]
        return [name for column in self.columns for name in column.feature_names]

    @property
    def text_columns(self) -> list[str]:
        """What to give to ``read_table(path, as_text=...)``, so that a level ``007`` is read as it was."""
        return [column.name for column in self.columns if isinstance(column, CategoryColumn)]

    def transform(self, table: Table) -> Matrix:
        """Rows x features, every value finite; columns are found by name, further ones are ignored."""
        if (table.matrix is not None) != (self.width is not None):
            kind = "NPZ features" if self.width is not None else "the columns of a CSV or Parquet file"
            raise InvalidInputError(f"{table.path} does not fit the model, which reads {kind}: give such a file")
        features: Any = table.matrix
        if self.width is not None:
            if features.shape[1] != self.width:
                found = f"{features.shape[1]} features, the model reads {self.width}"
                raise InvalidInputError(f"{table.path} has {found}: give the features that it was fitted on")
            if self.sparse:
                return sp.csr_array(features)
            return np.asarray(features if isinstance(features, np.ndarray) else features.toarray())
        given = set(table.columns)
        lacking = [column.name for column in self.columns if column.name not in given]
        if lacking:
            hint = did_you_mean(lacking[0], table.columns)
            raise InvalidInputError(f"{table.path} lacks {listed(lacking)}{hint}, which the model needs: add it")
        dtype = np.float32 if self.single else np.float64
        batches = table.batches([column.name for column in self.columns])
        if self.sparse:
            parts = [
                sp.hstack([sp.csr_array(c.encode(rows[c.name], table.path, before)) for c in self.columns])
                for before, rows in batches
            ]
            return sp.csr_array(sp.vstack(parts, format="csr"), dtype=dtype)
        out = np.zeros((table.n_rows, len(self.feature_names)), dtype)
        for before, rows in batches:
            left = 0
            for column in self.columns:
                block = column.encode(rows[column.name], table.path, before)
                here = slice(before, before + block.shape[0]), slice(left, left + block.shape[1])
                out[here] = block if isinstance(block, np.ndarray) else block.toarray()
                left = here[1].stop
        return out

    def row_ids(self, table: Table) -> list[int | str]:
        """The rows' ids for output: the id column if the table has one, otherwise 1, 2, 3, ..."""
        used = {column.name for column in self.columns}
        names = [self.id_column, *(name for name in table.columns if id_like(name) and name not in used)]
        name = next((name for name in names if name in table.columns), None)
        if name is None:
            return list(range(1, table.n_rows + 1))
        if table.matrix is not None:
            ids = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in table.named[name].tolist()]
            return [v if isinstance(v, int | str) else str(v) for v in ids]
        return ["" if value is None else value for value in text_values(table.column(name))]

    def report(self) -> list[str]:
        """What was done with the columns, in lines for people."""
        return list(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything that `from_dict` needs, as plain JSON values."""
        return {"schema": SCHEMA, **dataclasses.asdict(self), "columns": [dataclasses.asdict(c) for c in self.columns]}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> ColumnEncoder:
        """The encoder that `to_dict` described; anything else is an `InvalidFileError`."""
        try:
            if state["schema"] != SCHEMA:
                raise InvalidFileError(
                    f"the column encoding is {state['schema']!r}, not {SCHEMA!r}: fit the model again"
                )
            columns = tuple(_column_from_dict(column) for column in state["columns"])
            single = state.get("single", False)  # models of earlier versions do not say it
            encoder = cls(columns, state["id_column"], state["sparse"], state["width"], tuple(state["lines"]), single)
            sound = isinstance(encoder.sparse, bool) and isinstance(single, bool)
            sound &= isinstance(encoder.id_column, str | None)
            sound &= all(isinstance(line, str) for line in encoder.lines)
            sound &= isinstance(encoder.width, int) and encoder.width > 0 if not columns else encoder.width is None
            if not sound:
                raise TypeError("a field has the wrong type")
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidFileError(f"the column encoding is damaged ({error}): fit the model again") from error
        return encoder


class _Dropped(Exception):
    """Why a column is not used."""


class _Notes:
    """Collects what `report` says: the common cases are counted, the rest is said one by one."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.other: list[str] = []
        self.dropped: dict[str, list[str]] = {}

    def lines(self, most: int = 20) -> list[str]:
        plural = {"number": "numeric", "date": "date", "boolean": "boolean"}
        deeds = {"number": "standardised", "date": "standardised as days", "boolean": "as 0/1"}
        lines = [
            f"{count} {plural[kind]} column{'s' * (count > 1)} {deeds[kind]}" for kind, count in self.counts.items()
        ]
        lines += self.other[:most]
        if len(self.other) > most:
            lines.append(f"and {len(self.other) - most} more such notes")
        return lines + [f"{listed(names, 5)} dropped: {reason}" for reason, names in self.dropped.items()]


def _fit_column(series: pd.Series, keep: bool, path: Path, notes: _Notes) -> NumberColumn | CategoryColumn:
    name, kind = str(series.name), column_kind(series)
    if series.isna().all():
        raise _Dropped("no value in any row")
    if kind == "text":
        text = text_values(series)
        if all(value is None or days(value) is not None for value in text) and any(text):
            kind = "date"
    if kind in ("number", "boolean", "date"):
        values = read_numbers(series, kind, path)
        known = values[np.isfinite(values)]
        whole = kind == "number" and bool((known == np.round(known)).all())
        if whole and id_like(name) and not keep:
            text = text_values(series)
        elif whole and not keep and _counts_rows(name, known):
            raise _Dropped("it only numbers the rows")
        else:
            return _fit_number(name, kind, values, notes)
    return _fit_category(name, text, keep, notes)


def _counts_rows(name: str, known: Floats) -> bool:
    distinct = len(np.unique(known)) == len(known)
    if name.lower() in ("index", "idx", "row", "row_number", "rownum", "unnamed: 0"):
        return distinct
    # Years also follow one another; so a run that starts elsewhere than at 0 or 1 must be a long one.
    run = distinct and len(known) > 1 and known.max() == known.min() + len(known) - 1
    return run and ((known.min() in (0, 1) and len(known) >= 20) or len(known) >= 200)


def _fit_number(name: str, kind: Kind, values: Floats, notes: _Notes) -> NumberColumn:
    finite = np.isfinite(values)
    n_missing = int((~finite).sum())
    flag = n_missing > max(1, FLAG_SHARE * len(values))
    if not finite.any():
        raise _Dropped("no finite value in any row")
    origin = float(values[finite].min()) if kind == "date" else 0.0
    known = values[finite] - origin
    # Scaled by the largest first: squares of numbers near the float limits overflow.
    largest = float(np.abs(known).max()) or 1.0
    unit = known / largest
    constant = unit.min() == unit.max()
    median = float(np.median(unit)) * largest
    mean, sd = float(unit.mean()) * largest, 0.0 if constant else float(unit.std()) * largest
    if kind == "boolean" and not constant:
        median, mean, sd = float(known.mean() > 0.5), 0.0, 1.0
    if sd == 0 and not flag:
        raise _Dropped("the same value in every row")
    notes.counts[kind] += 1
    since = f"days since {(EPOCH + timedelta(days=origin)).date()}" if kind == "date" else ""
    if since:
        notes.other.append(f"{name!r}: {since}")
    if n_missing:
        deed = "flagged" if sd == 0 else f"filled with the median {median:.6g}" + " and flagged" * flag
        notes.other.append(f"{name!r}: {n_missing} missing {deed}")
    return NumberColumn(name, kind, origin, median, mean, sd, flag)


def _fit_category(name: str, text: NDArray[np.object_], keep: bool, notes: _Notes) -> CategoryColumn:
    counts = Counter(value for value in text if value is not None)
    known, n_missing = counts.total(), len(text) - counts.total()
    if hint := _disguised(text):
        notes.other.append(f"{name!r}: {hint}")
    if not keep:
        if id_like(name) and 1 < known == len(counts):
            raise _Dropped("an id, different in every row")
        if known >= 20 and len(counts) > 0.5 * known:
            raise _Dropped("nearly every value is different")
    enough = max(2, min(10, math.ceil(0.01 * len(text))))
    ranked = sorted(counts, key=lambda level: (-counts[level], level))
    levels = [level for level in ranked if counts[level] >= enough][:MAX_LEVELS]
    if len(ranked) == len(levels) + 1:
        levels = ranked
    pooled = ranked[len(levels) :]
    sizes = [counts[level] for level in levels] + [sum(counts[level] for level in pooled), n_missing]
    spread = 1.0 - sum((size / len(text)) ** 2 for size in sizes)
    if max(sizes) == len(text):
        raise _Dropped("every value is rare" if pooled else "the same value in every row")
    parts = f"{len(levels)} level{'s' * (len(levels) > 1)} one-hot" + f", {len(pooled)} rare pooled" * bool(pooled)
    notes.other.append(f"{name!r}: {parts}" + f", {n_missing} missing as a level" * bool(n_missing))
    # Two random rows then differ as much as in a standardised column: by 2 in squared distance, on average.
    return CategoryColumn(name, levels, pooled, n_missing > 0, min(MAX_SCALE, spread**-0.5))


def _disguised(text: NDArray[np.object_]) -> str | None:
    cells = [(row, value) for row, value in enumerate(text, start=1) if value is not None]
    others = [(row, value) for row, value in cells if as_number(value) is None]
    if not others or not cells:
        return None
    row, value = others[0]
    if len(others) < 0.5 * len(cells):
        return f"read as text because of cells such as {value!r} (row {row}); empty them to use it as a number"
    if all(_LOCAL_DATE.fullmatch(value) for _, value in cells):
        return f"read as text because {value!r} (row {row}) may be two dates; write dates as 2024-12-31"
    if all(_PUNCTUATED.fullmatch(value) for _, value in cells):
        return f"read as text because of the punctuation in {value!r} (row {row}); write plain numbers such as 1234.5"
    return None


def _column_from_dict(state: Mapping[str, Any]) -> NumberColumn | CategoryColumn:
    column = (CategoryColumn if "levels" in state else NumberColumn)(**state)
    if isinstance(column, CategoryColumn):
        sound = all(isinstance(level, str) for level in [*column.levels, *column.pooled])
        numbers, flag = [column.scale], column.missing
    else:
        sound = column.kind in ("number", "boolean", "date") and column.sd >= 0
        numbers, flag = [column.origin, column.median, column.mean, column.sd], column.flag
    sound &= isinstance(column.name, str) and isinstance(flag, bool) and all(math.isfinite(v) for v in numbers)
    if not sound:
        raise TypeError(f"column {state.get('name')!r}")
    return column
