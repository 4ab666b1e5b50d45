"""What becomes of a column: how each kind is learned from a table and turned into numbers.

By hand, and not with scikit-learn's ``OneHotEncoder`` and ``SimpleImputer``: the state is plain JSON that is checked
on loading, a file is read column by column and encoded batch by batch, and nothing but NumPy is imported before the
table is understood. Whatever a column becomes, it counts about as much in a distance as any other one: two random rows
differ by 2 in squared distance on average, as they do in a standardised column.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError, MissingDependencyError, did_you_mean
from condiff.readers.cells import (
    TEXT,
    DateForm,
    Floats,
    NumberForm,
    Text,
    as_number,
    date_form,
    date_of,
    either_order,
    id_like,
    is_truth,
    listed,
    packed_dates,
    read_numbers,
    says_decimal,
    truth_values,
)
from condiff.readers.columns import Column, Columns

FLAG_SHARE = 0.01  # missing values in more than this share of the rows, and in two at least, get a 0/1 column
#: Levels that a category keeps, the others being pooled: fewer where the result would have more than so many cells.
MAX_LEVELS, FEWEST_LEVELS, MAX_CELLS = 1000, 32, 1 << 26
MAX_SCALE = 2.0  # a lopsided category or a rare "true" may not drown the rest
# Times the spread of the middle half that the standard deviation of a heavy-tailed column is.
_HEAVY = 1.8
_IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
# Fewer different values than this are categories, and letters that are written without blanks.
_FEWEST_TEXTS, _UNSPACED = 10, re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
# Dates that name no day.
_PERIODS = ("year-month", "month-year", "name-year", "year-quarter", "year-week")
_ROW_NAMES = ("index", "idx", "row", "row_number", "rownum", "unnamed: 0")


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
            parts.append((_bent(inner, self.median / self.unit, self.bend) - self.centre) / self.scale)
        return np.column_stack(parts + [missing.astype(np.float64)] * self.flag)

    def read(self, column: Column, where: str, before: int = 0) -> Floats:
        """The numbers of a column, NaN where missing; a cell that is none is an error that names its row."""
        what = "true or false" if self.boolean else "a number"
        if column.kind == "text":
            values, bad = truth_values(column.values) if self.boolean else self.form.read(column.values)
            _refuse(column, bad, what, where, before)
            return values
        fits = column.kind in ("boolean", "number")
        _refuse(column, [] if fits else np.flatnonzero(~column.missing)[:1].tolist(), what, where, before)
        values = np.asarray(column.values, dtype=np.float64) if fits else np.full(len(column), np.nan)
        wrong = np.isinf(values)
        if self.boolean:
            wrong |= ~np.isnan(values) & (values != 0) & (values != 1)
        _refuse(column, np.flatnonzero(wrong)[:1].tolist(), what, where, before)
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
        return [f"{self.name!r}: {_rows(int(far.sum()))} far outside of what was seen ({seen}), such as {worst:.6g}"]


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
                angle = 2 * np.pi * _turn(days, part)
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
        _refuse(column, bad, f"a date ({self.form.order})", where, before)
        return values

    def remarks(self, column: Column, where: str) -> list[str]:
        """Dates far outside of those that were seen."""
        days, reach = self.read(column, where), max(1.0, self.high - self.low)
        with np.errstate(invalid="ignore"):
            far = int(((days > self.high + reach) | (days < self.low - reach)).sum())
        seen = f"{date_of(self.low)} to {date_of(self.high)}"
        return [f"{self.name!r}: {_rows(far)} far outside of what was seen ({seen})"] if far else []


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
        return [f"{self.name!r}: {_rows(int(unseen.sum()))} with a category that was not there at fitting ({shown})"]


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
        return [f"{self.name!r}: {_rows(unknown)} without a word that was there at fitting"] if unknown > 0 else []


@dataclass(frozen=True, kw_only=True)
class ImageColumn(EmbeddedColumn):
    """Names of image files, relative to the table's folder: see :class:`~condiff.encoders.images.ImageEncoder`."""

    type: ClassVar[str] = "image"

    def encode(self, column: Column, where: str, before: int = 0) -> Floats:
        """Rows x numbers; zeros where there is no image."""
        from condiff.encoders.images import ImageEncoder

        files = column.words()
        _require_images(self.name, files, where, before)
        encoder = ImageEncoder.restored(folder_of(where), self.embedding, self.key, self.mean)
        out = np.zeros((len(files), len(self.mean)))
        there = ~column.missing
        if there.any():
            out[there] = self.scale * encoder.transform(files[there].tolist())
        return out


# ---- learning ----------------------------------------------------------------------------------------------


def learn_columns(
    table: Columns,
    *,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
    categorical: Collection[str] = (),
    text: Collection[str] = (),
    image: Collection[str] = (),
    embedding: str = "auto",
    needed: bool = True,
) -> list[LearnedColumn]:
    """Learn the encoding of every column from all rows, labelled and unlabelled.

    Parameters
    ----------
    table
        The rows.
    drop
        Columns to leave out without a word: the target, and whatever must not be learned from.
    keep
        Columns that must not be taken for ids; a text column among them is one-hot encoded.
    categorical
        Columns whose numbers are names, such as post codes.
    text, image
        Columns that hold texts, and names of image files, even where they do not look like it.
    embedding
        What embeds texts: see :class:`~condiff.encoders.text.TextEncoder`.
    needed
        Whether it is an error that nothing is left to learn from.
    """
    for name in [*drop, *keep, *categorical, *text, *image]:
        if name not in table.columns:
            hint = did_you_mean(name, table.columns)
            raise InvalidInputError(f"{table.source} has no column {name!r}{hint}; it has {listed(table.columns)}")
    names = [name for name in table.columns if name not in drop]
    marks = Counter(mark for name in names if (mark := _decimal_of(table.column(name))) is not None)
    decimal = marks.most_common(1)[0][0] if marks else None

    embedded: dict[str, LearnedColumn] = {}

    def learn(levels: int) -> list[LearnedColumn]:
        found = []
        for name in names:
            if name not in embedded:
                how = How(
                    name in keep,
                    name in categorical,
                    name in text,
                    name in image,
                    embedding,
                    decimal,
                    table.source,
                    levels,
                )
                found.append(_learn(table.column(name), how))
                if isinstance(found[-1], EmbeddedColumn):
                    embedded[name] = found[-1]
            else:
                found.append(embedded[name])
        return found

    def cells(columns: list[LearnedColumn]) -> int:
        return table.n_rows * sum(len(each.feature_names) for each in columns if each.name not in embedded)

    levels, found = MAX_LEVELS, learn(MAX_LEVELS)
    while levels > FEWEST_LEVELS and cells(found) > MAX_CELLS:
        levels //= 2
        found = learn(levels)
    if needed and all(isinstance(column, DroppedColumn) for column in found):
        reasons = (
            "; ".join(f"{column.name!r} ({column.note.why})" for column in found[:5]) or "there is no other column"
        )
        raise InvalidInputError(f"{table.source} has no column left to learn from: {reasons}")
    return balanced(found)


def balanced(columns: list[LearnedColumn]) -> list[LearnedColumn]:
    """Scale texts and images so that nothing drowns the rest.

    The strongest direction of a text or an image counts as much as one column, so that it counts for as many columns as
    it has directions: some tens. By total variance alone, each of its directions would be drowned by a single number.
    Texts and images by themselves stay of length one: directions are all that matters then.
    """
    if all(isinstance(each, DroppedColumn | EmbeddedColumn) for each in columns):
        return columns
    return [replace(each, scale=each.strongest**-0.5) if isinstance(each, EmbeddedColumn) else each for each in columns]


def require_columns(names: Collection[str], table: Columns) -> None:
    """Raise where a table lacks columns that a model reads."""
    given = set(table.columns)
    lacking = [name for name in names if name not in given]
    if lacking:
        hint = did_you_mean(lacking[0], table.columns)
        raise InvalidInputError(f"{table.source} lacks {listed(lacking)}{hint}, which the model needs: add it")


def numbers_of(column: Column, where: str) -> Floats:
    """The finite numbers of a column of which no cell may be missing; one that is none is an error that names it."""
    if column.kind == "text":
        values, bad = truth_values(column.values) if is_truth(column.values) else NumberForm().read(column.values)
    else:
        values, bad = np.asarray(column.values, dtype=np.float64), []
    _refuse(column, bad, "a number", where, 0)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0]) + 1
        what = "missing" if np.isnan(values[row - 1]) else "infinite"
        raise InvalidInputError(
            f"{where}, column {column.name!r}, row {row}: the number is {what}, which the model cannot read: fill it in"
        )
    return values


def _decimal_of(column: Column) -> str | None:
    """What a column of numbers as text says about the decimal mark of the table."""
    return says_decimal(column.values) if column.kind == "text" else None


@dataclass(frozen=True)
class How:
    """How a column is to be learned: what the user says of it, and what the table says."""

    keep: bool
    categorical: bool
    text: bool
    image: bool
    embedding: str
    decimal: str | None
    where: str
    levels: int


def _learn(column: Column, how: How) -> LearnedColumn:
    name, keep, categorical, where, levels = column.name, how.keep, how.categorical, how.where, how.levels
    if column.missing.all():
        return _dropped(name, "empty", "no value in any row")
    if how.text:
        return _learn_texts(column, how)
    if how.image:
        return _learn_images(column, how)
    if categorical or column.names:
        return _learn_category(name, column.words(), keep or categorical, levels)
    if column.kind == "date":
        return _learn_dates(column, DateForm("year-month-day"), where)
    if column.kind == "boolean":
        return _learn_number(column, column.values, NumberForm(), True)
    if column.kind == "text" and is_truth(column.values):
        return _learn_number(column, truth_values(column.values)[0], NumberForm(), True)
    found: tuple[NumberForm, Floats, list[int]] | None
    if column.kind == "number":
        values = np.asarray(column.values, dtype=np.float64)
        found = NumberForm(), values, np.flatnonzero(np.isinf(values))[:1].tolist()
    else:
        found = read_numbers(column.values, how.decimal)
    if found is not None:
        form, values, bad = found
        _refuse(column, bad, "a number", where, 0)
        known = values[~np.isnan(values)]
        if not form.unit and packed_dates(known):
            return _learn_dates(column, DateForm("yyyymmdd"), where)
        whole = bool(len(known)) and bool((known == np.round(known)).all())
        if whole and not keep and id_like(name):
            return _learn_category(name, column.words(), keep, levels)
        if whole and not keep and _counts_rows(name, known):
            return _dropped(name, "row number", "it only numbers the rows")
        return _learn_number(column, values, form, False)
    dates = date_form(column.values)
    if dates is not None:
        return _learn_dates(column, dates, where)
    hint = _disguised(column.values)
    if not keep and not hint and not id_like(name):
        kind = _many_words(column.values)
        if kind == "text":
            return _learn_texts(column, how)
        if kind == "image":
            return _learn_images(column, how)
    return _learn_category(name, column.values, keep, levels, hint)


def _learn_texts(column: Column, how: How) -> LearnedColumn:
    name = column.name
    known = column.values[~column.missing]
    numbers = column.kind != "text" or read_numbers(known, how.decimal) is not None or date_form(known) is not None
    if numbers:
        raise InvalidInputError(
            f"{how.where}: the column {name!r} holds {_plural(column)} such as {column.cell(_first(column))!r}, "
            "no text: leave it out of the text columns"
        )
    from condiff.encoders.embedding import strongest_variance
    from condiff.encoders.text import TextEncoder

    texts = column.values.tolist()
    encoder = TextEncoder(how.embedding)
    try:
        rows = encoder.fit_transform(texts)
    except InvalidInputError as error:
        if how.text or how.embedding != "auto":
            raise
        return _dropped(name, "text", str(error))
    note = ColumnNote(name, "text", encoder.describe(), "; ".join(encoder.remarks(texts)))
    return TextColumn(
        name=name, note=note, embedding=encoder.embedding_, key=encoder.key_, mean=encoder.mean_.tolist(),
        strongest=strongest_variance(rows), words=encoder.words_, idf=encoder.idf_.tolist(),
    )  # fmt: skip


def _learn_images(column: Column, how: How) -> LearnedColumn:
    files = column.words()
    try:
        _require_images(column.name, files, how.where, 0)
        from condiff.encoders.embedding import strongest_variance
        from condiff.encoders.images import ImageEncoder

        encoder = ImageEncoder(folder_of(how.where))
        rows = encoder.fit_transform(files[~column.missing].tolist())
    except (InvalidInputError, MissingDependencyError) as error:
        if how.image:
            raise
        return _dropped(column.name, "image", str(error))
    gaps = int(column.missing.sum())
    why = "; ".join([encoder.origin] + [f"{gaps} missing as zeros"] * bool(gaps))
    note = ColumnNote(column.name, "image", f"{len(encoder.mean_)} numbers by {encoder.backbone}", why)
    return ImageColumn(
        name=column.name, note=note, embedding=encoder.backbone, key=encoder.key_, mean=encoder.mean_.tolist(),
        strongest=strongest_variance(rows),
    )  # fmt: skip


def folder_of(where: str) -> Path:
    """What names of files in a table are relative to: its own folder, or the current one if it is in memory."""
    return Path(where).parent if Path(where).is_file() else Path()


def _require_images(name: str, files: Text, where: str, before: int) -> None:
    folder = folder_of(where)
    for row, file in enumerate(files.tolist()):
        if file and not (folder / file).is_file():
            raise InvalidInputError(
                f"{where}, column {name!r}, row {before + row + 1}: there is no file {file!r}: name images relative to "
                f"the table's folder"
            )


def _first(column: Column) -> int:
    return int(np.flatnonzero(~column.missing)[0])


def _plural(column: Column) -> str:
    return {"boolean": "true and false", "date": "dates"}.get(column.kind, "numbers or dates")


def _dropped(name: str, kind: str, why: str) -> DroppedColumn:
    return DroppedColumn(name=name, note=ColumnNote(name, kind, "left out", why))


def _counts_rows(name: str, known: Floats) -> bool:
    distinct = len(np.unique(known)) == len(known)
    if name.lower() in _ROW_NAMES:
        return distinct
    # Years also follow one another; so a run that starts elsewhere than at 0 or 1 must be a long one.
    run = distinct and len(known) > 1 and known.max() == known.min() + len(known) - 1
    return bool(run and ((known.min() in (0, 1) and len(known) >= 20) or len(known) >= 200))


def _learn_number(column: Column, values: Floats, form: NumberForm, boolean: bool) -> LearnedColumn:
    known = values[~np.isnan(values)]
    if not len(known):
        return _dropped(column.name, "empty", "no value in any row")
    gaps = len(values) - len(known)
    flag = gaps > max(1, FLAG_SHARE * len(values))
    low, high = float(known.min()), float(known.max())
    if low == high and not flag:
        return _dropped(column.name, "constant", "the same value in every row")
    unit = max(abs(low), abs(high)) or 1.0
    inner = known / unit
    middle = float(np.median(inner))
    median = (float(known.mean() > 0.5) if boolean else middle * unit) if low < high else low
    bend = 0.0 if boolean else _bend(inner, middle)
    straight = _bent(inner, median / unit, bend)
    centre, scale = float(straight.mean()), float(straight.std()) if low < high else 0.0
    if boolean:
        scale = max(scale, 0.5 / MAX_SCALE) if scale else 0.0
    kind = "true/false" if boolean else f"number in {form.unit}" if form.unit else "number"
    becomes = "whether there is a value, as 0/1"
    if scale > 0:
        becomes = "0/1, scaled" if boolean else "standardised" + ", heavy tails pulled in" * (bend > 0)
    comma = form.decimal == "," and bool((np.strings.find(column.values, ",") >= 0).any())
    remarks = ["decimal comma"] * comma + _bounds(column)
    remarks += ["leading zeros are lost; if these are codes, call the column --categorical"] * _padded(column)
    remarks += _gap_notes(column, values, median, scale > 0, flag)
    note = ColumnNote(column.name, kind, becomes, "; ".join(remarks))
    return NumberColumn(
        name=column.name, note=note, boolean=boolean, form=form, low=low, high=high, unit=unit, median=median,
        bend=bend, centre=centre, scale=scale, flag=flag,
    )  # fmt: skip


def _bounds(column: Column) -> list[str]:
    """A remark where cells are bounds, such as ``<0.5``."""
    if column.kind != "text":
        return []
    cells = [cell for cell in set(column.values.tolist()) if cell[:1] in ("<", ">", "≤", "≥")]
    return [f"bounds such as {min(cells)!r} are read as the number"] if cells else []


def _padded(column: Column) -> bool:
    """Whether whole numbers are written with leading zeros, as codes are."""
    if column.kind != "text":
        return False
    text = column.values
    return bool((np.strings.startswith(text, "0") & np.strings.isdigit(text) & (np.strings.str_len(text) > 1)).any())


def _bend(inner: Floats, middle: float) -> float:
    """The unit of the arsinh that pulls heavy tails in, or 0 where there are none."""
    spread = float(np.subtract(*np.quantile(inner, [0.75, 0.25]))) / 1.349
    heavy = spread > 0 and inner.std() > _HEAVY * spread
    return spread if heavy else 0.0


def _bent(inner: Floats, middle: float, bend: float) -> Floats:
    return np.arcsinh((inner - middle) / bend) if bend else inner


def _gap_notes(column: Column, values: Floats, fill: float | str, used: bool, flag: bool) -> list[str]:
    gaps = int(np.isnan(values).sum())
    if not gaps:
        return []
    shown = f"{fill:.6g}" if isinstance(fill, float) else fill
    deed = (f"filled with the median {shown}" + " and flagged" * flag) if used else "flagged"
    notes = [f"{gaps} missing {deed}"]
    if column.kind == "text":
        strays = Counter(column.values[np.isnan(values) & ~column.missing].tolist())
        if strays:
            shown = listed([word for word, _ in strays.most_common(3)], 3)
            many = f"{strays.total()} cells such as {shown} count" if strays.total() > 1 else f"{shown} counts"
            notes.append(f"{many} as missing")
    return notes


def _learn_dates(column: Column, form: DateForm, where: str) -> LearnedColumn:
    name = column.name
    if column.kind == "date":
        days: Floats = column.values
    else:
        days, bad = form.read(column.words())
        _refuse(column, bad, f"a date ({form.order})", where, 0)
    known = days[~np.isnan(days)]
    flag = len(days) - len(known) > max(1, FLAG_SHARE * len(days))
    low, high, median = float(known.min()), float(known.max()), float(np.median(known))
    turns = {part: len(np.unique(np.round(_turn(known, part), 9))) > 1 for part in ("season", "weekday", "hour")}
    whole = np.floor(known)
    months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
    turns["season"] &= len(np.unique(months)) > 1 and high - low >= 60  # days; below that the elapsed time says as much
    turns["weekday"] &= form.order not in _PERIODS and len(np.unique(whole)) > 6
    scale = float(known.std())
    elapsed = scale > 0 and form.order != "time of day"
    parts = ["elapsed"] * elapsed + [part for part, varies in turns.items() if varies]
    if not parts and not flag:
        return _dropped(name, "constant", "the same date in every row")
    words = {"elapsed": f"days since {date_of(low)}", "hour": "hour of the day"}
    becomes = ", ".join(words.get(part, part) for part in parts) or "whether there is a date, as 0/1"
    either = column.kind == "text" and form.order == "day-month-year" and either_order(column.values)
    remarks = ["read with the day first, but the month may come first: write dates as 2024-12-31"] * either
    remarks += _gap_notes(column, days, date_of(median), bool(parts), flag)
    kind = "time of day" if form.order == "time of day" else "date"
    return DateColumn(
        name=name, note=ColumnNote(name, kind, becomes, "; ".join(remarks)), form=form, low=low, high=high,
        median=median, parts=parts, scale=scale or 1.0, flag=flag,
    )  # fmt: skip


def _turn(days: Floats, part: str) -> Floats:
    """The share of a year, a week or a day that has gone by."""
    if part == "hour":
        return days - np.floor(days)
    if part == "weekday":
        return (np.floor(days) + 3) % 7 / 7  # the first of January 1970 was a Thursday
    whole = np.floor(days).astype("datetime64[D]")
    passed = (whole - whole.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64)
    return np.asarray(passed / 365.2425)


def _disguised(text: Text) -> str:
    """Why a column most of whose cells are numbers is read as words, or nothing."""
    words = [word for word in text.tolist() if word and as_number(word) is None]
    if not words or 2 * len(words) >= int((text != "").sum()):
        return ""
    shown = Counter(words).most_common(1)[0][0]
    return f"read as words because of cells such as {shown!r} ({_rows(len(words))}); empty them to use it as a number"


def _learn_category(name: str, text: Text, keep: bool, most: int, hint: str = "") -> LearnedColumn:
    return category_of(name, Counter(text.tolist()), keep, most, hint)


def category_of(name: str, counts: Counter[str], keep: bool, most: int, hint: str = "") -> LearnedColumn:
    """A category from how often each of its words occurs, "" where missing; ``most`` levels are kept."""
    n_rows = counts.total()
    gaps = counts.pop("", 0)
    known = counts.total()
    if not keep:
        if id_like(name) and 1 < known == len(counts):
            return _dropped(name, "id", "an id, different in every row")
        if known >= 20 and len(counts) > 0.5 * known:
            return _dropped(name, "code", hint or "nearly every value is different")
    enough = max(2, min(10, math.ceil(0.01 * n_rows)))
    ranked = sorted(counts, key=lambda level: (-counts[level], level))
    levels = [level for level in ranked if counts[level] >= enough][:most]
    if len(ranked) == len(levels) + 1:
        levels = ranked
    pooled = ranked[len(levels) :]
    sizes = [counts[level] for level in levels] + [sum(counts[level] for level in pooled), gaps]
    spread = 1.0 - sum((size / n_rows) ** 2 for size in sizes)
    if max(sizes) == n_rows:
        kind, why = ("category", "every value is rare") if pooled else ("constant", "the same value in every row")
        return _dropped(name, kind, why)
    becomes = f"{len(levels)} level{'s' * (len(levels) > 1)} one-hot" + f", {len(pooled)} rare pooled" * bool(pooled)
    why = "; ".join(filter(None, [f"{gaps} missing as a level" * bool(gaps), hint]))
    note = ColumnNote(name, "category", becomes, why)
    return CategoryColumn(
        name=name, note=note, levels=levels, pooled=pooled, missing=gaps > 0, scale=min(MAX_SCALE, spread**-0.5)
    )


def _many_words(text: Text) -> str:
    """``text`` or ``image`` where a column holds many different texts or names of image files, else nothing.

    Texts are of three words or more in the mean, and nearly all different; of five words or more, some may repeat. What
    is written without blanks, such as Chinese, counts as a word for every two characters.
    """
    known = [word for word in text.tolist() if word]
    words = set(known)
    if len(known) < 20 or len(words) <= max(_FEWEST_TEXTS, 0.1 * len(known)):
        return ""
    distinct = len(words) > 0.5 * len(known)
    if distinct and all(word.lower().endswith(_IMAGES) for word in words):
        return "image"
    length = sum(word.count(" ") + len(_UNSPACED.findall(word)) / 2 for word in words) / len(words)
    if length >= (2 if distinct else 4) and any(word.split()[0].isalpha() for word in words):
        return "text"
    return ""


def _refuse(column: Column, bad: list[int], wanted: str, where: str, before: int) -> None:
    if not bad:
        return
    cell = column.cell(bad[0])
    infinite = wanted == "a number" and NumberForm().read(np.array([cell], dtype=TEXT))[0][0] in (math.inf, -math.inf)
    problem = "is infinite" if infinite else f"is not {wanted}, as the model needs"
    place = f"{where}, column {column.name!r}, row {before + bad[0] + 1}"
    raise InvalidInputError(f"{place}: {cell!r} {problem}: fix the cell or leave it empty")


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


# ---- to JSON and back --------------------------------------------------------------------------------------

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
