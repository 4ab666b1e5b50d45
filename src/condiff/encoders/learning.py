"""Which kind each column of a table is, and what is learned of it.

Whatever a column becomes, it counts about as much in a distance as any other one: two random rows differ by 2 in
squared distance on average, as they do in a standardised column.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from condiff.encoders.columns import (
    CategoryColumn,
    ColumnNote,
    DateColumn,
    DroppedColumn,
    EmbeddedColumn,
    ImageColumn,
    LearnedColumn,
    NumberColumn,
    TextColumn,
    bent,
    folder_of,
    refuse,
    require_images,
    rows_text,
    turn,
)
from condiff.errors import InvalidInputError, MissingDependencyError, did_you_mean
from condiff.readers.cells import (
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
    refuse(column, bad, "a number", where, 0)
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
        refuse(column, bad, "a number", where, 0)
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
        require_images(column.name, files, how.where, 0)
        from condiff.encoders.embedding import strongest_variance
        from condiff.encoders.images import ImageEncoder

        encoder = ImageEncoder(folder_of(how.where))
        rows = encoder.fit_transform(files[~column.missing].tolist())
    except (InvalidInputError, MissingDependencyError) as error:
        # Names of which none is there may name something else; where some are, one that is missing is a mistake.
        there = isinstance(error, InvalidInputError) and any((folder_of(how.where) / file).is_file() for file in files)
        if how.image or there:
            raise
        return _dropped(column.name, "image", str(error))
    gaps = int(column.missing.sum())
    why = "; ".join([encoder.origin] + [f"{gaps} missing as zeros"] * bool(gaps))
    note = ColumnNote(column.name, "image", f"{len(encoder.mean_)} numbers by {encoder.backbone}", why)
    return ImageColumn(
        name=column.name, note=note, embedding=encoder.backbone, key=encoder.key_, mean=encoder.mean_.tolist(),
        strongest=strongest_variance(rows),
    )  # fmt: skip


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
    straight = bent(inner, median / unit, bend)
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
        refuse(column, bad, f"a date ({form.order})", where, 0)
    known = days[~np.isnan(days)]
    flag = len(days) - len(known) > max(1, FLAG_SHARE * len(days))
    low, high, median = float(known.min()), float(known.max()), float(np.median(known))
    turns = {part: len(np.unique(np.round(turn(known, part), 9))) > 1 for part in ("season", "weekday", "hour")}
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


def _disguised(text: Text) -> str:
    """Why a column most of whose cells are numbers is read as words, or nothing."""
    words = [word for word in text.tolist() if word and as_number(word) is None]
    if not words or 2 * len(words) >= int((text != "").sum()):
        return ""
    shown = Counter(words).most_common(1)[0][0]
    return (
        f"read as words because of cells such as {shown!r} ({rows_text(len(words))}); empty them to use it as a number"
    )


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
