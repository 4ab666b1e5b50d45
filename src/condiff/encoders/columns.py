"""What becomes of a column: each kind that there is, how it is turned into numbers, and its plain state.

By hand, and not with scikit-learn's ``OneHotEncoder`` and ``SimpleImputer``: the state is plain JSON that is checked
on loading, a file is read column by column and encoded batch by batch, and nothing but NumPy is imported before the
table is understood. Which kind a column is, is learned in :mod:`condiff.encoders.learning`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.readers.cells import (
    TEXT,
    DateForm,
    Floats,
    NumberForm,
    Text,
    as_number,
    date_of,
    listed,
    truth_values,
)
from condiff.readers.columns import Column


@dataclass(frozen=True)
class ColumnNote:
    """What became of a column, in words.

    Attributes
    ----------
    column
        Its name.
    kind
        What it holds: ``number``, ``true/false``, ``date``, ``category``, ``text``, ``code``, ``id``, ...
    becomes
        What the model sees of it.
    why
        The reason, or what else there is to know.
    """

    column: str
    kind: str
    becomes: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.column!r}: {self.kind}, {self.becomes}" + f" ({self.why})" * bool(self.why)


@dataclass(frozen=True, kw_only=True)
class LearnedColumn:
    """What was learned of a column; ``note`` says it in words."""

    name: str
    note: ColumnNote
    type: ClassVar[str]

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns that this one becomes."""
        return []

    @property
    def one_hot(self) -> bool:
        """Whether at most one of those columns differs from zero."""
        return False

    def encode(self, column: Column, where: str, before: int = 0) -> Any:
        """Rows x features; ``before`` rows of the table come before these, for messages."""
        raise NotImplementedError

    def remarks(self, column: Column, where: str) -> list[str]:
        """What is unusual about further values of the column, in words."""
        return []


@dataclass(frozen=True, kw_only=True)
class DroppedColumn(LearnedColumn):
    """A column that nothing is learned from."""

    type: ClassVar[str] = "dropped"


@dataclass(frozen=True, kw_only=True)
class NumberColumn(LearnedColumn):
    """Numbers, or true and false as 1 and 0: standardised, with a 0/1 column for missing values if ``flag``.

    Attributes
    ----------
    boolean
        Whether the values are true and false.
    form
        How text writes the numbers.
    low, high
        The values that were seen. Further ones are cut where they are past these by more than their distance, so that
        a wild cell cannot decide everything.
    unit
        Values are divided by it first: squares of numbers near the limits of floats overflow.
    median, bend
        Missing values become the median. Where tails are heavy, ``asinh((x - median) / bend)`` pulls them in; it is
        straight in the middle and a logarithm far out. ``bend`` is 0 where they are not.
    centre, scale
        Subtracted, and divided by. A scale of 0 says that all that matters is whether there is a value.
    flag
        Whether missing values get a column.
    """

    type: ClassVar[str] = "number"
    boolean: bool
    form: NumberForm
    low: float
    high: float
    unit: float
    median: float
    bend: float
    centre: float
    scale: float
    flag: bool

    @property
    def feature_names(self) -> list[str]:
        """The values, then whether they are missing."""
        return [self.name] * (self.scale > 0) + [f"{self.name} is missing"] * self.flag

    def encode(self, column: Column, where: str, before: int = 0) -> Floats:
        """Rows x (1 or 2)."""
        values = self.read(column, where, before)
        missing = np.isnan(values)
        parts = []
        if self.scale > 0:
            with np.errstate(over="ignore"):
                reach = self.high / self.unit - self.low / self.unit
                inner = np.where(missing, self.median, values) / self.unit
            inner = np.clip(inner, self.low / self.unit - reach, self.high / self.unit + reach)
            parts.append((bent(inner, self.median / self.unit, self.bend) - self.centre) / self.scale)
        return np.column_stack(parts + [missing.astype(np.float64)] * self.flag)

    def read(self, column: Column, where: str, before: int = 0) -> Floats:
        """The numbers of a column, NaN where missing; a cell that is none is an error that names its row."""
        what = "true or false" if self.boolean else "a number"
        if column.kind == "text":
            values, bad = truth_values(column.values) if self.boolean else self.form.read(column.values)
            refuse(column, bad, what, where, before)
            return values
        fits = column.kind in ("boolean", "number")
        refuse(column, [] if fits else np.flatnonzero(~column.missing)[:1].tolist(), what, where, before)
        values = np.asarray(column.values, dtype=np.float64) if fits else np.full(len(column), np.nan)
        wrong = np.isinf(values)
        if self.boolean:
            wrong |= ~np.isnan(values) & (values != 0) & (values != 1)
        refuse(column, np.flatnonzero(wrong)[:1].tolist(), what, where, before)
        return values

    def remarks(self, column: Column, where: str) -> list[str]:
        """Values far outside of those that were seen."""
        values = self.read(column, where)
        reach = self.high - self.low
        with np.errstate(invalid="ignore"):
            far = (values > self.high + reach) | (values < self.low - reach)
        if self.scale == 0 or not far.any():
            return []
        worst = values[far][np.argmax(np.abs(values[far] - self.median))]
        seen = f"{self.low:.6g} to {self.high:.6g}"
        return [
            f"{self.name!r}: {rows_text(int(far.sum()))} far outside of what was seen ({seen}), such as {worst:.6g}"
        ]


@dataclass(frozen=True, kw_only=True)
class DateColumn(LearnedColumn):
    """Dates: elapsed time, and season, weekday and hour as places on a circle, whichever vary.

    Attributes
    ----------
    form
        How text writes the dates.
    low, high, median
        Days since 1970.
    parts
        Which of ``elapsed``, ``season``, ``weekday`` and ``hour`` are used.
    scale
        Standard deviation of the elapsed days.
    flag
        Whether missing values get a column.
    """

    type: ClassVar[str] = "date"
    form: DateForm
    low: float
    high: float
    median: float
    parts: list[str]
    scale: float
    flag: bool

    @property
    def feature_names(self) -> list[str]:
        """One for the elapsed time, two for each circle."""
        names = []
        for part in self.parts:
            names += [self.name] if part == "elapsed" else [f"{self.name} {part} {way}" for way in ("sine", "cosine")]
        return names + [f"{self.name} is missing"] * self.flag

    def encode(self, column: Column, where: str, before: int = 0) -> Floats:
        """Rows x features."""
        days = self.read(column, where, before)
        missing = np.isnan(days)
        days = np.where(missing, self.median, days)
        reach = self.high - self.low
        out = []
        for part in self.parts:
            if part == "elapsed":
                within = np.clip(days, self.low - reach, self.high + reach)
                out.append((within - self.median) / self.scale)
            else:
                angle = 2 * np.pi * turn(days, part)
                # A missing date is nowhere on the circle.
                out += [np.where(missing, 0.0, np.sin(angle)), np.where(missing, 0.0, np.cos(angle))]
        # However many parts there are, the column counts as one.
        share = 1.0 / math.sqrt(max(1, len(self.parts)))
        return np.column_stack([share * values for values in out] + [missing.astype(np.float64)] * self.flag)

    def read(self, column: Column, where: str, before: int = 0) -> Floats:
        """Days since 1970, NaN where missing; a cell that is no date is an error that names its row."""
        if column.kind == "date":
            return column.values
        values, bad = self.form.read(column.words())
        refuse(column, bad, f"a date ({self.form.order})", where, before)
        return values

    def remarks(self, column: Column, where: str) -> list[str]:
        """Dates far outside of those that were seen."""
        days, reach = self.read(column, where), max(1.0, self.high - self.low)
        with np.errstate(invalid="ignore"):
            far = int(((days > self.high + reach) | (days < self.low - reach)).sum())
        seen = f"{date_of(self.low)} to {date_of(self.high)}"
        return [f"{self.name!r}: {rows_text(far)} far outside of what was seen ({seen})"] if far else []


@dataclass(frozen=True, kw_only=True)
class CategoryColumn(LearnedColumn):
    """Words: one 0/``scale`` column for each level, one for the pooled rare ones, one for missing."""

    type: ClassVar[str] = "category"
    levels: list[str]
    pooled: list[str]
    missing: bool
    scale: float

    @property
    def feature_names(self) -> list[str]:
        """One for each level."""
        names = [f"{self.name}={level}" for level in self.levels]
        return names + [f"{self.name} is rare"] * bool(self.pooled) + [f"{self.name} is missing"] * self.missing

    @property
    def one_hot(self) -> bool:
        """A row has one level."""
        return True

    def codes(self, column: Column) -> NDArray[np.int64]:
        """The feature of every row, -1 for a level that is unknown, -2 for a missing one that has no feature."""
        place = {level: code for code, level in enumerate(self.levels)} | dict.fromkeys(self.pooled, len(self.levels))
        place[""] = len(self.feature_names) - 1 if self.missing else -2
        if column.kind == "number":  # a program may have read the codes 007 and 1.0 as the numbers 7 and 1
            as_numbers = {number: code for level, code in place.items() if (number := as_number(level)) is not None}
            found = [place[""] if v != v else as_numbers.get(v, -1) for v in column.values.tolist()]
        else:
            found = [place.get(word, -1) for word in column.words().tolist()]
        return np.array(found, dtype=np.int64)

    def encode(self, column: Column, where: str, before: int = 0) -> Any:
        """Rows x levels as CSR; a level that was not there at fitting is a row of zeros."""
        import scipy.sparse as sp

        codes = self.codes(column)
        known = codes >= 0
        starts = np.concatenate([[0], np.cumsum(known)])
        data = np.full(int(known.sum()), self.scale)
        return sp.csr_array((data, codes[known], starts), shape=(len(codes), len(self.feature_names)))

    def remarks(self, column: Column, where: str) -> list[str]:
        """Levels that were not there at fitting."""
        unseen = self.codes(column) == -1
        if not unseen.any():
            return []
        words = Counter(column.words()[unseen].tolist())
        shown = listed([word for word, _ in words.most_common(3)], 3)
        return [
            f"{self.name!r}: {rows_text(int(unseen.sum()))} with a category that was not there at fitting ({shown})"
        ]


@dataclass(frozen=True, kw_only=True)
class EmbeddedColumn(LearnedColumn):
    """Texts or images: rows of length one times ``scale``.

    Attributes
    ----------
    embedding, key
        The network that made them, and digits of its content.
    mean
        Of the rows that were there at fitting.
    strongest
        Their variance in the direction in which it is largest.
    scale
        What rows are multiplied by; see :func:`balanced`.
    """

    embedding: str
    key: str
    mean: list[float]
    strongest: float
    scale: float = 1.0

    @property
    def feature_names(self) -> list[str]:
        """Numbers from 0."""
        return [f"{self.name}[{number}]" for number in range(len(self.mean))]


@dataclass(frozen=True, kw_only=True)
class TextColumn(EmbeddedColumn):
    """Texts, by a sentence model or by their words: see :class:`~condiff.encoders.text.TextEncoder`."""

    type: ClassVar[str] = "text"
    words: list[str]
    idf: list[float]

    @property
    def feature_names(self) -> list[str]:
        """The words that are counted, or numbers from 0."""
        return [f"{self.name}: {word}" for word in self.words] or super().feature_names

    @property
    def sparse(self) -> bool:
        """Whether most of a row is zeros."""
        return bool(self.words)

    def encode(self, column: Column, where: str, before: int = 0) -> Any:
        """Rows x numbers, CSR of words."""
        from condiff.encoders.text import TextEncoder

        encoder = TextEncoder.restored(self.embedding, self.key, self.mean, self.words, self.idf)
        return self.scale * encoder.transform(column.words().tolist())

    def remarks(self, column: Column, where: str) -> list[str]:
        """Texts of which no word is known."""
        if not self.words:
            return []
        unknown = int((np.diff(self.encode(column, where).indptr) == 0).sum() - column.missing.sum())
        return [f"{self.name!r}: {rows_text(unknown)} without a word that was there at fitting"] if unknown > 0 else []


@dataclass(frozen=True, kw_only=True)
class ImageColumn(EmbeddedColumn):
    """Names of image files, relative to the table's folder: see :class:`~condiff.encoders.images.ImageEncoder`."""

    type: ClassVar[str] = "image"

    def encode(self, column: Column, where: str, before: int = 0) -> Floats:
        """Rows x numbers; zeros where there is no image."""
        from condiff.encoders.images import ImageEncoder

        files = column.words()
        require_images(self.name, files, where, before)
        encoder = ImageEncoder.restored(folder_of(where), self.embedding, self.key, self.mean)
        out = np.zeros((len(files), len(self.mean)))
        there = ~column.missing
        if there.any():
            out[there] = self.scale * encoder.transform(files[there].tolist())
        return out


def folder_of(where: str) -> Path:
    """What names of files in a table are relative to: its own folder, or the current one if it is in memory.

    A folder of images is a table too: names in it are relative to itself.
    """
    path = Path(where)
    return path if path.is_dir() else path.parent if path.is_file() else Path()


def require_images(name: str, files: Text, where: str, before: int) -> None:
    """Refuse a column of image files of which one is missing."""
    folder = folder_of(where)
    for row, file in enumerate(files.tolist()):
        if file and not (folder / file).is_file():
            raise InvalidInputError(
                f"{where}, column {name!r}, row {before + row + 1}: there is no file {file!r}: name images relative to "
                f"the table's folder"
            )


def bent(inner: Floats, middle: float, bend: float) -> Floats:
    """Values with their tails pulled in, where there is a bend."""
    return np.arcsinh((inner - middle) / bend) if bend else inner


def turn(days: Floats, part: str) -> Floats:
    """The share of a year, a week or a day that has gone by."""
    if part == "hour":
        return days - np.floor(days)
    if part == "weekday":
        return (np.floor(days) + 3) % 7 / 7  # the first of January 1970 was a Thursday
    whole = np.floor(days).astype("datetime64[D]")
    passed = (whole - whole.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64)
    return np.asarray(passed / 365.2425)


def refuse(column: Column, bad: list[int], wanted: str, where: str, before: int) -> None:
    """Name the first of some cells that are not what is wanted, if there is any."""
    if not bad:
        return
    cell = column.cell(bad[0])
    infinite = wanted == "a number" and NumberForm().read(np.array([cell], dtype=TEXT))[0][0] in (math.inf, -math.inf)
    problem = "is infinite" if infinite else f"is not {wanted}, as the model needs"
    place = f"{where}, column {column.name!r}, row {before + bad[0] + 1}"
    raise InvalidInputError(f"{place}: {cell!r} {problem}: fix the cell or leave it empty")


def rows_text(count: int) -> str:
    """How many rows, in words."""
    return f"{count} row{'s' * (count != 1)}"


# ---- to JSON and back ----------------------------------------------------------------------------------------------

_TYPES: dict[str, type[LearnedColumn]] = {
    kind.type: kind for kind in (DroppedColumn, NumberColumn, DateColumn, CategoryColumn, TextColumn, ImageColumn)
}


def to_dict(column: LearnedColumn) -> dict[str, Any]:
    """A learned column as plain JSON values."""
    return {"type": column.type, **asdict(column)}


def from_dict(state: Any) -> LearnedColumn:
    """The inverse of :func:`to_dict`; every value is checked, because a file may hold anything."""
    values = dict(state)
    kind = _TYPES[values.pop("type")]
    values["note"] = ColumnNote(**values["note"])
    if "form" in values:
        form = dict(values["form"])
        form["words"] = tuple(form["words"])
        values["form"] = (NumberForm if kind is NumberColumn else DateForm)(**form)
    column = kind(**values)
    _check(column)
    return column


def _check(column: LearnedColumn) -> None:
    strings = [column.name, *vars(column.note).values()]
    numbers: list[Any] = []
    flags: list[Any] = []
    sound = True
    if isinstance(column, NumberColumn):
        numbers = [getattr(column, name) for name in ("low", "high", "unit", "median", "bend", "centre", "scale")]
        flags = [column.boolean, column.flag]
        strings += [column.form.unit, *column.form.words]
        sound = column.form.decimal in (".", ",")
    elif isinstance(column, DateColumn):
        numbers, flags = [column.low, column.high, column.median, column.scale], [column.flag]
        strings += column.form.words
        sound = isinstance(column.parts, list) and set(column.parts) <= {"elapsed", "season", "weekday", "hour"}
        sound = sound and DateForm(column.form.order).known
    elif isinstance(column, CategoryColumn):
        numbers, flags = [column.scale], [column.missing]
        sound = isinstance(column.levels, list) and isinstance(column.pooled, list)
        strings += [*column.levels, *column.pooled]
    elif isinstance(column, EmbeddedColumn):
        lists = [column.mean, *([column.words, column.idf] if isinstance(column, TextColumn) else [])]
        sound = all(isinstance(each, list) for each in lists) and any(lists)
        strings += [column.embedding, column.key]
        if isinstance(column, TextColumn):
            sound = sound and len(column.words) == len(column.idf)
            strings, numbers = strings + column.words, [*column.idf]
        numbers = [*numbers, column.scale, column.strongest, *column.mean]
    sound = sound and all(isinstance(value, str) for value in strings)
    sound = sound and all(isinstance(value, bool) for value in flags)
    sound = sound and all(isinstance(v, int | float) and math.isfinite(v) for v in numbers)
    if sound and isinstance(column, NumberColumn):
        sound = column.unit > 0 and column.scale >= 0 and column.bend >= 0 and column.low <= column.high
    if sound and isinstance(column, DateColumn):
        sound = column.scale > 0 and column.low <= column.high
        # What can be a date at all.
        sound = sound and column.low > -719_163 and column.high < 2_932_897
    if sound and isinstance(column, CategoryColumn | EmbeddedColumn):
        sound = column.scale > 0
    if sound and isinstance(column, EmbeddedColumn):
        sound = column.strongest > 0
    if not sound:
        raise TypeError(f"column {column.name!r}")
