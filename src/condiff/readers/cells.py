"""What is written in the cells of a table: numbers, dates, yes and no, and the many ways to write a missing value.

A column of text is read as a whole, because a single cell is ambiguous: ``1,200`` is a number with a
decimal comma in one table and with a thousands separator in another, ``02/03/2024`` a day in February or in March. The
form that was found, a :class:`NumberForm` or :class:`DateForm`, is kept, so that further rows are read in the same way.
Only NumPy is needed here: errors in a file are reported before anything large is imported.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError

Floats: TypeAlias = NDArray[np.float64]
#: Text of any length, stored without a Python object for each cell; "" is a cell without a value.
TEXT = np.dtypes.StringDType()
Text: TypeAlias = NDArray[Any]

#: Cells without a value, in any column. "None" and "-" are left out on purpose: in real tables they are values.
MISSING_CELLS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>", "#N/A", "NaT")
_NOTHING = r"""- -- --- — ? ?? ??? . .. ... * na n.a. n.a n/a n/d nd nan nat nil none null unknown missing
undefined tbd #n/a #value! #div/0! #ref! #num! #name? #null! \n not_available not_applicable not_known no_data"""
#: Words for a missing value, in lower case: they are values in a column of words, and missing among numbers and dates.
NO_VALUE = frozenset(word.replace("_", " ") for word in _NOTHING.split()) | {"\u2013"}
# The share of non-empty cells that must be numbers or dates: higher where the others are not known missing words.
_MOST, _NEARLY_ALL = 0.5, 0.95
_FEW = 1000  # cells that decide a table's decimal mark
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ID_NAME = re.compile(r"(?:^|[_\s.-])(?:ids?|uuid|guid)$")
_CURRENCY = r"(?:[$€£¥₹]|US\$|USD|EUR|GBP|CHF|JPY|CAD|AUD|CNY|INR|Rs\.?)"
_GROUPS = "'\u2019 \u00a0\u202f"  # between thousands
_MINUS = "-\u2212"
_BODY = rf"(?:\d[\d.,{_GROUPS}]*|[.,]\d+)(?:[eE][+-]?\d+)?"
_CELL = re.compile(
    rf"(?P<bound>[<>≤≥]=?\s*)?(?P<open>\()?(?P<sign>[{_MINUS}+])?\s*(?:(?P<prefix>{_CURRENCY})\s*(?P<sign2>[{_MINUS}+])?)?(?P<body>{_BODY})"
    r"\s*(?P<suffix>[^\W\d_%]*[%‰°€$£¥₹]?[^\W\d_]*(?:[/ .][^\W\d_]+)?[²³]?\.?)(?(open)\))"
)
_WITH_POINT = re.compile(
    rf"(?:\d+|[1-9]\d{{0,2}}(?P<s>[,{_GROUPS}])\d{{3}}(?:(?P=s)\d{{3}})*|[1-9]\d?(?:,\d\d)+,\d{{3}})?(?:\.\d*)?"
)
_WITH_COMMA = re.compile(rf"(?:\d+|[1-9]\d{{0,2}}(?P<s>[.{_GROUPS}])\d{{3}}(?:(?P=s)\d{{3}})*)?(?:,\d*)?")
_NOT_DIGITS = re.compile(r"[^\d.]")


def clean(cells: Sequence[str] | Text) -> Text:
    """Text without the blanks around it, and "" for every cell of :data:`MISSING_CELLS`."""
    text: Text = np.strings.strip(np.asarray(cells, dtype=TEXT))
    text[np.isin(text, np.array(MISSING_CELLS, dtype=TEXT))] = ""
    return text


def as_number(text: str) -> float | None:
    """The finite number in a cell, as programs write it, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def as_words(values: Floats) -> Text:
    """Numbers as text, whole ones without a decimal point; "" for NaN."""
    words = ["" if math.isnan(v) else str(int(v)) if v.is_integer() else str(v) for v in values.tolist()]
    return np.array(words, dtype=TEXT)


# ---- numbers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberForm:
    """How a column writes its numbers.

    Attributes
    ----------
    decimal
        ``.`` or ``,``; the other one, a blank or an apostrophe separates thousands.
    unit
        What stands before or after the number, such as ``$`` or ``kg``.
    words
        Other cells, which count as missing.
    """

    decimal: str = "."
    unit: str = ""
    words: tuple[str, ...] = ()

    def read(self, text: Text) -> tuple[Floats, list[int]]:
        """The numbers, NaN where there is none, and the places of cells that are neither number nor missing."""
        if not self.unit and self.decimal == ".":
            plain = _plain_numbers(text)
            if plain is not None:
                return plain, np.flatnonzero(np.isinf(plain)).tolist()
        return _read(text, self._cell)

    def _cell(self, cell: str) -> float | None:
        return self._value(cell, _parts(cell))

    def _value(self, cell: str, parts: _Parts | None) -> float | None:
        if parts is None or (parts.unit and _same(parts.unit) != _same(self.unit)):
            return math.nan if cell in self.words or cell.lower() in NO_VALUE else None
        return parts.with_comma if self.decimal == "," else parts.with_point


@dataclass(frozen=True)
class _Parts:
    """A cell as a number: its value under either convention, None where that does not fit, and its unit.

    ``bound`` says that the true value is below or above, as in ``<0.5``.
    """

    with_point: float | None
    with_comma: float | None
    unit: str
    bound: bool = False


def read_numbers(text: Text, decimal: str | None = None) -> tuple[NumberForm, Floats, list[int]] | None:
    """How a column of text writes numbers, and these as :meth:`NumberForm.read` gives them; None for other columns.

    Parameters
    ----------
    text
        Cells, cleaned.
    decimal
        The decimal mark in the rest of the table, to read ``1,200``; by default it is a thousands separator.
    """
    plain = _plain_numbers(text)
    if plain is not None and decimal != ",":
        return NumberForm(), plain, np.flatnonzero(np.isinf(plain)).tolist()
    counts = _counted(text)
    found = {cell: parts for cell in counts if (parts := _parts(cell)) is not None}
    form = _number_form(counts, found, decimal)
    return None if form is None else (form, *_read(text, lambda cell: form._value(cell, found.get(cell))))


def _number_form(counts: Counter[str], found: Mapping[str, _Parts], decimal: str | None) -> NumberForm | None:
    bounds = sum(counts[cell] for cell, parts in found.items() if parts.bound)
    if bounds >= _MOST * sum(counts[cell] for cell in found):  # <30 and >60 are categories, <0.5 among numbers is not
        found = {cell: parts for cell, parts in found.items() if not parts.bound}
    with_unit = sum(counts[cell] for cell, parts in found.items() if parts.unit)
    if with_unit < _MOST * sum(counts[cell] for cell in found):  # 136A among numbers of families is no unit
        found = {cell: parts for cell, parts in found.items() if not parts.unit}
    words = tuple(sorted(cell for cell in counts if cell not in found))
    unknown = tuple(word for word in words if word.lower() not in NO_VALUE)
    enough = _NEARLY_ALL if unknown else _MOST
    if not found or sum(counts[cell] for cell in found) < enough * counts.total():
        return None
    units = Counter(parts.unit for parts in found.values() if parts.unit)
    points = any(parts.with_comma is None for parts in found.values())
    commas = any(parts.with_point is None for parts in found.values())
    if len({_same(unit) for unit in units}) > 1 or (points and commas):
        return None
    unit = units.most_common(1)[0][0] if units else ""
    return NumberForm("," if commas else "." if points else (decimal or "."), unit, unknown)


def says_decimal(text: Text) -> str | None:
    """``,`` or ``.`` where the first cells of a column of numbers show which of them is the decimal mark, else None."""
    counts = _counted(text[:_FEW])
    found = {cell: parts for cell in counts if (parts := _parts(cell)) is not None}
    if _number_form(counts, found, None) is None:
        return None
    points = any(parts.with_comma is None for parts in found.values())
    commas = any(parts.with_point is None for parts in found.values())
    return "," if commas and not points else "." if points else None


def _plain_numbers(text: Text) -> Floats | None:
    """Cells as programs write numbers, NaN where empty, or None where any is not."""
    if (np.strings.find(text, "_") >= 0).any():
        return None
    values = np.full(text.shape, np.nan)
    filled = text != ""
    try:
        values[filled] = text[filled].astype(np.float64)
    except ValueError:
        return None
    return values


def _parts(cell: str) -> _Parts | None:
    match = _CELL.fullmatch(cell)
    if match is None:
        return _infinite(cell)
    body, mark, power = match["body"].strip().lower().partition("e")
    exponent = mark + power
    point = float(_NOT_DIGITS.sub("", body) + exponent) if _WITH_POINT.fullmatch(body) else None
    comma = None
    if _WITH_COMMA.fullmatch(body):
        comma = float(_NOT_DIGITS.sub("", body.replace(".", "").replace(",", ".")) + exponent)
    if point is None and comma is None:
        return None
    negative = match["open"] or any(sign and sign in _MINUS for sign in (match["sign"], match["sign2"]))
    sign = -1.0 if negative else 1.0
    unit = (match["prefix"] or "") + match["suffix"]
    return _Parts(point and sign * point, comma and sign * comma, unit, bool(match["bound"]))


def _same(unit: str) -> str:
    """One spelling for the variants of a unit: one year, two Years."""
    return unit.lower().removesuffix("s") if len(unit) > 3 else unit.lower()


def _infinite(cell: str) -> _Parts | None:
    bare = cell.lstrip("+" + _MINUS).lower()
    return _Parts(math.inf, math.inf, "") if bare in ("inf", "infinity", "∞") else None


# ---- dates -------------------------------------------------------------------------------------------------

_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), start=1)}
_YEAR, _MONTH, _DAY, _NAME = r"(?P<y>\d{4})", r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})", r"(?P<b>[A-Za-z]{3,9})\.?"
_SHORT_YEAR, _SEPARATOR, _SAME = r"(?P<y>\d{4}|\d{2})", r"(?P<s>[-/. ])", r"(?P=s)"
_CLOCK = (
    r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d+))?)?\s*(?P<p>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<z>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
)
_TIME = rf"(?:(?:T|,?\s+){_CLOCK})?"
_DATES = {
    "year-month-day": rf"{_YEAR}{_SEPARATOR}{_MONTH}{_SAME}{_DAY}{_TIME}",
    "day-month-year": rf"{_DAY}{_SEPARATOR}{_MONTH}{_SAME}{_SHORT_YEAR}{_TIME}",
    "month-day-year": rf"{_MONTH}{_SEPARATOR}{_DAY}{_SAME}{_SHORT_YEAR}{_TIME}",
    "day-name-year": rf"(?:[A-Za-z]{{3,9}},? )?{_DAY}(?:st|nd|rd|th|\.)?[-/ ]{_NAME},?[-/ ]{_SHORT_YEAR}{_TIME}",
    "name-day-year": rf"(?:[A-Za-z]{{3,9}},? )?{_NAME} {_DAY}(?:st|nd|rd|th)?,? {_YEAR}{_TIME}",
    "year-month": rf"{_YEAR}[-/]{_MONTH}",
    "month-year": rf"{_MONTH}[-/]{_YEAR}",
    "name-year": rf"{_NAME},?[-/ ]{_YEAR}",
    "year-quarter": rf"{_YEAR}[- ]?Q(?P<q>[1-4])",
    "year-week": rf"{_YEAR}-?W(?P<w>\d{{2}})",
    "yyyymmdd": r"(?P<y>(?:19|20)\d{2})(?P<m>\d{2})(?P<d>\d{2})",
    "time of day": _CLOCK,
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _DATES.items()}


@dataclass(frozen=True)
class DateForm:
    """How a column writes its dates: one of a few orders of year, month and day, with or without a time."""

    order: str
    words: tuple[str, ...] = ()

    def read(self, text: Text) -> tuple[Floats, list[int]]:
        """Days since 1970, NaN where there is no date, and the places of cells that are neither date nor missing."""
        return _read(text, self._cell)

    @property
    def known(self) -> bool:
        """Whether this form exists."""
        return self.order in _PATTERNS

    def _cell(self, cell: str) -> float | None:
        if cell in self.words or cell.lower() in NO_VALUE:
            return math.nan
        found = days(cell, self.order)
        # A program that has saved the table again writes 2024-12-31, which is the same in any order.
        return days(cell) if found is None and self.order != "time of day" else found


def date_form(text: Text, order: str | None = None) -> DateForm | None:
    """The one form in which a column of text writes dates, or None where it holds something else.

    Where ``02/03/2024`` may be either, ``order`` decides, by default the day comes first.
    """
    counts = _counted(text)
    some = next((cell for cell in counts if cell.lower() not in NO_VALUE), None)
    orders = sorted(_PATTERNS, key=lambda name: name != order)
    for name in orders if some is not None else ():
        if not _PATTERNS[name].fullmatch(some or ""):
            continue
        words = tuple(sorted(cell for cell in counts if days(cell, name) is None))
        read = sum(count for cell, count in counts.items() if cell not in set(words))
        if read >= _MOST * sum(counts.values()) and all(word.lower() in NO_VALUE for word in words):
            return DateForm(name)
    return None


def either_order(text: Text) -> bool:
    """Whether every date of a column could be read with the day first and with the month first."""
    cells = [cell for cell in _counted(text) if cell.lower() not in NO_VALUE]
    orders = ("day-month-year", "month-day-year")
    return all(days(cell, order) is not None for cell in cells for order in orders)


@functools.lru_cache(maxsize=65536)
def days(cell: str, order: str = "year-month-day") -> float | None:
    """Days since 1970 of a date in a given form, or None."""
    match = _PATTERNS[order].fullmatch(cell)
    if match is None:
        return None
    part = match.groupdict()
    try:
        year = int(part.get("y") or 1970)
        if part.get("w"):
            return float((datetime.fromisocalendar(year, int(part["w"]), 1).replace(tzinfo=UTC) - _EPOCH).days)
        month = _MONTHS[part["b"][:3].lower()] if part.get("b") else int(part.get("m") or 1)
        month = 3 * int(part["q"]) - 2 if part.get("q") else month
        if len(part.get("y") or "1970") == 2:
            year += 1900 if year >= 50 else 2000
        hour = int(part.get("H") or 0)
        if half := (part.get("p") or "").lower()[:1]:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + 12 * (half == "p")
        moment = datetime(
            year, month, int(part.get("d") or 1), hour, int(part.get("M") or 0), int(part.get("S") or 0), tzinfo=UTC
        )
        micro = int((part.get("f") or "0").ljust(6, "0")[:6])
        moment = moment.replace(microsecond=micro, tzinfo=_zone(part.get("z")))
        return (moment - _EPOCH).total_seconds() / 86_400
    except (KeyError, ValueError, OverflowError):
        return None


def date_of(day: float) -> str:
    """A number of days since 1970 as ``2024-12-31``."""
    return (_EPOCH + timedelta(days=day)).date().isoformat()


def packed_dates(values: Floats) -> bool:
    """Whether whole numbers are dates as 20241231, all of them."""
    known = values[~np.isnan(values)]
    if not len(known) or (known != np.round(known)).any() or known.min() < 19_000_101 or known.max() > 20_991_231:
        return False
    month, day = known // 100 % 100, known % 100
    return bool((month >= 1).all() and (month <= 12).all() and (day >= 1).all() and (day <= 31).all())


def _zone(text: str | None) -> timezone:
    if text is None or not text.startswith(("+", "-")):
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    return timezone((1 if text[0] == "+" else -1) * timedelta(hours=hours, minutes=minutes))


# ---- yes and no, ids, names --------------------------------------------------------------------------------


def truth_values(text: Text) -> tuple[Floats, list[int]]:
    """1 for true, 0 for false, NaN where empty, and the places of cells that are none of these."""
    return _read(text, lambda cell: {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}.get(cell.lower()))


def is_truth(text: Text) -> bool:
    """Whether a column of text holds true and false only."""
    words = np.array(["true", "false", ""], dtype=TEXT)
    return all(np.isin(np.strings.lower(part), words).all() for part in (text[:_FEW], text))


def id_like(name: str) -> bool:
    """Whether a column's name says that it identifies rows: ``id``, ``patient_id``, ``PassengerId``."""
    return _ID_NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()) is not None


def listed(names: Collection[str], most: int = 12) -> str:
    """Quoted names, the first few of them."""
    shown = ", ".join(repr(name) for name in list(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def no_duplicates(path: object, names: Sequence[str]) -> None:
    """Raise where two columns of a file have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidFileError(f"{path} has more than one column named {listed(twice, 3)}: give each its own name")


def _counted(text: Text) -> Counter[str]:
    counts = Counter(text.tolist())
    counts.pop("", None)
    return counts


def _read(text: Text, read: Callable[[str], float | None]) -> tuple[Floats, list[int]]:
    """Read every different cell once; infinite and unreadable ones are named by their places."""
    cells = text.tolist()
    known: dict[str, float | None] = {cell: read(cell) if cell else math.nan for cell in dict.fromkeys(cells)}
    bad = {cell for cell, value in known.items() if value is None or math.isinf(value)}
    values = np.array([math.nan if (value := known[cell]) is None else value for cell in cells], dtype=np.float64)
    return values, [place for place, cell in enumerate(cells) if cell in bad] if bad else []
