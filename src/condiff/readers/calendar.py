"""Times of series: which regular step they have, which are left out, and how they go on.

Dates (``2024-05-31``, ``31.05.2024``, ``5/31/2024``), times (``2024-05-31 14:30``), months (``2024-05``), quarters
(``2024Q2``), years and numbers are understood. Calendar months stay months, at their beginning, their end or any day of
them, and five days a week stay business days. Other names have only their order.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from condiff.readers.cells import as_number

_DAY = 86_400
_FIRST = datetime.datetime(1, 1, 1)
_MONTH, _QUARTER = re.compile(r"(\d{4})-(\d{2})"), re.compile(r"(\d{4})-?[Qq]([1-4])")
_SWAPPED = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(.*)")
# Whole numbers that are taken for years.
_YEARS = range(1700, 2201)
# Steps of the regular calendar at most for each time that is there: more, and the times are not regular.
_SPARSEST = 25
_WORDS = {
    _DAY: "daily",
    7 * _DAY: "weekly",
    3600: "hourly",
    1800: "half-hourly",
    60: "by the minute",
    1: "by the second",
}


class IrregularError(ValueError):
    """Times without a regular step; says which one does not fit."""


@dataclass(frozen=True)
class Calendar:
    """Regular times.

    Attributes
    ----------
    times
        Their names, from the first to the last, those that were left out among them.
    step
        What a step is, in words: ``monthly``, ``daily``, ``every 3 hours``.
    season
        The usual seasons in steps, the shortest first; empty where none is usual, None for times without a calendar.
    """

    times: tuple[str, ...]
    step: str
    season: tuple[int, ...] | None
    _name: Callable[[int], str]

    def coming(self, count: int) -> list[str]:
        """The names of the times after the last one."""
        try:
            return [self._name(len(self.times) - 1 + ahead) for ahead in range(1, count + 1)]
        except (OverflowError, ValueError):  # past the last year that there is
            return [f"+{ahead}" for ahead in range(1, count + 1)]


def calendar_of(names: Sequence[str]) -> tuple[Calendar, list[int]]:
    """The calendar of different times in any order, and the place of each in it."""
    for read in (_months, _moments, _swapped, _numbers):
        found = read(names)
        if found is not None:
            return found
    return Calendar(tuple(names), "in order", None, lambda place: f"+{place - len(names) + 1}"), list(range(len(names)))


_Read = tuple[Calendar, list[int]]


def _regular(
    names: Sequence[str],
    places: Sequence[int],
    name: Callable[[int], str],
    words: Callable[[int], tuple[str, tuple[int, ...] | None]],
) -> _Read:
    """The calendar of whole numbers, ``name`` being that of such a number."""
    first = min(places)
    gaps = [place - first for place in places if place != first]
    step = reduce(math.gcd, gaps) if gaps else 1
    rows = (max(places) - first) // step + 1
    if rows > _SPARSEST * len(names) + 100:
        ordered = sorted(zip(places, names, strict=True))
        usual = sorted(b[0] - a[0] for a, b in pairwise(ordered))[len(ordered) // 2]
        odd = next((n for p, n in ordered if (p - first) % usual), ordered[-1][1])
        raise IrregularError(f"the times have no regular step: {odd} does not fit the others")
    known = dict(zip(places, names, strict=True))
    times = tuple(known.get(first + step * row) or name(first + step * row) for row in range(rows))
    what, season = words(step)
    return Calendar(times, what, season, lambda row: name(first + step * row)), [(p - first) // step for p in places]


def _month_words(step: int) -> tuple[str, tuple[int, ...] | None]:
    words = {1: "monthly", 3: "quarterly", 12: "yearly"}
    season = (12 // step,) if step < 12 and 12 % step == 0 and step <= 6 else ()
    return words.get(step, f"every {step} months"), season


def _months(names: Sequence[str]) -> _Read | None:
    """Months and quarters that are written as such."""
    found = [_MONTH.fullmatch(name) for name in names]
    if all(found):
        places = [int(m[1]) * 12 + int(m[2]) - 1 for m in found if m]
        if all(1 <= int(m[2]) <= 12 for m in found if m):
            return _regular(names, places, lambda p: f"{p // 12:04d}-{p % 12 + 1:02d}", _month_words)
    quarters = [_QUARTER.fullmatch(name) for name in names]
    if all(quarters):
        dash = "-" if "-" in names[0] else ""
        places = [int(m[1]) * 4 + int(m[2]) - 1 for m in quarters if m]
        return _regular(names, places, lambda p: f"{p // 4:04d}{dash}Q{p % 4 + 1}", lambda step: _month_words(3 * step))
    return None


def _moments(names: Sequence[str]) -> _Read | None:
    """Dates and times of day."""
    moments = [_moment(name) for name in names]
    if any(moment is None for moment in moments):
        return None
    known = [moment for moment in moments if moment is not None]
    write = _writer(names[0], known)
    if (months := _calendar_months(names, known, write)) is not None:
        return months
    seconds = [round((moment - _FIRST).total_seconds()) for moment in known]
    weekdays = {moment.weekday() for moment in known}
    step = reduce(math.gcd, [place - min(seconds) for place in seconds])
    if step == _DAY and weekdays <= set(range(5)) and len(weekdays) > 1 and max(seconds) - min(seconds) >= 7 * _DAY:
        # Whole weeks have five steps.
        days = [(moment - _FIRST).days for moment in known]
        places = [5 * (day // 7) + day % 7 for day in days]
        part = (known[0] - _FIRST).seconds

        def business(place: int) -> str:
            return write(_FIRST + datetime.timedelta(days=7 * (place // 5) + place % 5, seconds=part))

        return _regular(names, places, business, lambda step: ("business days", (5,) if step == 1 else ()))
    return _regular(names, seconds, lambda place: write(_FIRST + datetime.timedelta(seconds=place)), _second_words)


def _swapped(names: Sequence[str]) -> _Read | None:
    """Dates with the year last. Between slashes either day or month is first: as the fewest times are left out."""
    parts = [match for match in map(_SWAPPED.fullmatch, names) if match]
    if len(parts) < len(names) or len({match[2] for match in parts}) > 1:
        return None
    mark, padded = parts[0][2], all(len(match[1]) == len(match[3]) == 2 for match in parts)
    found = []
    for month, day in ((3, 1),) if mark == "." else ((1, 3), (3, 1)):
        try:
            read = _moments([f"{m[4]}-{int(m[month]):02d}-{int(m[day]):02d}{m[5]}" for m in parts])
        except IrregularError:
            continue
        if read is not None:
            found.append((read, month == 1))
    if not found:
        return None
    (calendar, places), month_first = min(found, key=lambda each: len(each[0][0].times))

    def written(iso: str) -> str:
        moment = datetime.date.fromisoformat(iso[:10])
        first, second = (moment.month, moment.day) if month_first else (moment.day, moment.month)
        width = 2 if padded else 1
        return f"{first:0{width}d}{mark}{second:0{width}d}{mark}{moment.year:04d}{iso[10:]}"

    times = tuple(map(written, calendar.times))
    return Calendar(times, calendar.step, calendar.season, lambda row: written(calendar._name(row))), places


def _calendar_months(
    names: Sequence[str], known: Sequence[datetime.datetime], write: Callable[[datetime.datetime], str]
) -> _Read | None:
    """Dates of one day of the month, or all of its last day."""
    ends = all((moment + datetime.timedelta(days=1)).day == 1 for moment in known)
    days = {moment.day for moment in known}
    places = [12 * moment.year + moment.month - 1 for moment in known]
    if len(known) < 2 or len({moment.time() for moment in known}) > 1 or len(set(places)) < len(places):
        return None
    if not ends and len(days) > 1:
        return None
    first = known[0]

    def named(place: int) -> str:
        year, month = divmod(place, 12)
        last = ((datetime.date(year, month + 1, 28) + datetime.timedelta(days=4)).replace(day=1)) - datetime.timedelta(
            1
        )
        return write(first.replace(year=year, month=month + 1, day=last.day if ends else min(first.day, last.day)))

    return _regular(names, places, named, _month_words)


def _second_words(step: int) -> tuple[str, tuple[int, ...] | None]:
    if step in _WORDS:
        words = _WORDS[step]
    else:
        size, unit = next(
            (s, u) for s, u in ((_DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds")) if step % s == 0
        )
        words = f"every {step // size} {unit}"
    if step == 7 * _DAY:
        return words, (52,)
    if step == _DAY:
        return words, (7,)
    if step < _DAY and _DAY % step == 0:
        per_day = _DAY // step
        return words, (per_day, 7 * per_day)
    return words, ()


def _moment(name: str) -> datetime.datetime | None:
    if "-" not in name:
        return None
    try:
        moment = datetime.datetime.fromisoformat(name)
    except ValueError:
        return None
    return moment.replace(tzinfo=None)


def _writer(example: str, known: Sequence[datetime.datetime]) -> Callable[[datetime.datetime], str]:
    """Writes times as the example is written."""
    if len(example) <= 10:
        return lambda moment: moment.date().isoformat()
    between = example[10]
    zone = (
        example[-1] if example.endswith("Z") else (example[-6:] if re.search(r"[+-]\d\d:\d\d$", example[10:]) else "")
    )
    unit = "seconds" if example.count(":") - zone.count(":") >= 2 else "minutes"
    return lambda moment: moment.isoformat(between, unit) + zone


def _numbers(names: Sequence[str]) -> _Read | None:
    numbers = [as_number(name) for name in names]
    if any(number is None for number in numbers):
        return None
    known = [number for number in numbers if number is not None]
    size = 10 ** max((len(name.partition(".")[2]) for name in names), default=0)
    places = [round(number * size) for number in known]
    if len(set(places)) < len(places) or any(
        abs(p / size - n) > 1e-9 * max(abs(n), 1) for p, n in zip(places, known, strict=True)
    ):
        return None
    years = size == 1 and len(places) > 1 and all(place in _YEARS for place in places)

    def words(step: int) -> tuple[str, tuple[int, ...] | None]:
        return _month_words(12) if years and step == 1 else (f"numbers, {step / size:g} apart", None)

    return _regular(names, places, lambda place: f"{place / size:g}" if size > 1 else f"{place}", words)
