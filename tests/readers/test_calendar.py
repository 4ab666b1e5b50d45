"""Times: their regular step, those left out, and how they go on."""

from __future__ import annotations

import pytest

from condiff.readers.calendar import IrregularError, calendar_of

GOES_ON: dict[str, tuple[list[str], str, tuple[int, ...] | None, list[str]]] = {
    "days": (["2020-02-27", "2020-02-28"], "daily", (7,), ["2020-02-29", "2020-03-01"]),
    "weeks": (["2020-02-01", "2020-02-08", "2020-02-15"], "weekly", (52,), ["2020-02-22", "2020-02-29"]),
    "first of month": (["2015-05-01", "2015-06-01"], "monthly", (12,), ["2015-07-01", "2015-08-01"]),
    "end of month": (["2015-11-30", "2015-12-31", "2016-01-31"], "monthly", (12,), ["2016-02-29", "2016-03-31"]),
    "a day of the month": (["2015-11-15", "2015-12-15"], "monthly", (12,), ["2016-01-15", "2016-02-15"]),
    "months": (["2015-11", "2015-12"], "monthly", (12,), ["2016-01", "2016-02"]),
    "quarters": (["2015Q3", "2015Q4"], "quarterly", (4,), ["2016Q1", "2016Q2"]),
    "quarters with a dash": (["2015-Q3", "2015-Q4"], "quarterly", (4,), ["2016-Q1", "2016-Q2"]),
    "quarters as dates": (["2015-03-31", "2015-06-30"], "quarterly", (4,), ["2015-09-30", "2015-12-31"]),
    "years as dates": (["2015-01-01", "2016-01-01"], "yearly", (), ["2017-01-01", "2018-01-01"]),
    "years": (["2015", "2016"], "yearly", (), ["2017", "2018"]),
    "days with dots": (["30.01.2024", "31.01.2024"], "daily", (7,), ["01.02.2024", "02.02.2024"]),
    "months first": (["11/1/2015", "12/1/2015", "1/1/2016"], "monthly", (12,), ["2/1/2016", "3/1/2016"]),
    "days first": (["30/01/2024", "31/01/2024", "01/02/2024"], "daily", (7,), ["02/02/2024", "03/02/2024"]),
    "hours of swapped dates": (
        ["31.12.2023 22:00", "31.12.2023 23:00"],
        "hourly",
        (24, 168),
        ["01.01.2024 00:00", "01.01.2024 01:00"],
    ),
    "not a date": (["13/13/2024", "14/13/2024"], "in order", None, ["+1", "+2"]),
    "hours": (["2020-01-01 22:00", "2020-01-01 23:00"], "hourly", (24, 168), ["2020-01-02 00:00", "2020-01-02 01:00"]),
    "seconds": (
        ["2020-01-01T00:00:00", "2020-01-01T00:00:10"],
        "every 10 seconds",
        (8640, 60480),
        ["2020-01-01T00:00:20", "2020-01-01T00:00:30"],
    ),
    "zones": (
        ["2020-01-01T00:00Z", "2020-01-01T00:15Z"],
        "every 15 minutes",
        (96, 672),
        ["2020-01-01T00:30Z", "2020-01-01T00:45Z"],
    ),
    "business days": (
        ["2024-05-02", "2024-05-03", "2024-05-06", "2024-05-07", "2024-05-08", "2024-05-09"],
        "business days",
        (5,),
        ["2024-05-10", "2024-05-13"],
    ),
    "numbers": (["1", "2", "3"], "numbers, 1 apart", None, ["4", "5"]),
    "decimals": (["0.5", "1.0", "1.5"], "numbers, 0.5 apart", None, ["2", "2.5"]),
    "names": (["Monday", "Tuesday"], "in order", None, ["+1", "+2"]),
    "one": (["7"], "numbers, 1 apart", None, ["8", "9"]),
    "the end of time": (["9999-12-30", "9999-12-31"], "daily", (7,), ["+1", "+2"]),
}


@pytest.mark.parametrize("kind", GOES_ON)
def test_calendars_go_on_as_they_are(kind: str) -> None:
    times, step, season, coming = GOES_ON[kind]
    found, places = calendar_of(times)
    assert (found.step, found.season, found.coming(2)) == (step, season, coming)
    assert found.times == tuple(times)
    assert places == list(range(len(times)))


def test_times_that_are_left_out_are_named() -> None:
    found, places = calendar_of(["2015-07-01", "2015-02-01", "2015-04-01", "2015-05-01"])
    assert found.times == ("2015-02-01", "2015-03-01", "2015-04-01", "2015-05-01", "2015-06-01", "2015-07-01")
    assert places == [5, 0, 2, 3]


def test_times_without_a_step_are_refused() -> None:
    with pytest.raises(IrregularError, match="2020-01-01 00:00:07 does not fit"):
        calendar_of(["2020-01-01 00:00:00", "2020-01-01 00:00:07", "2020-01-02 00:00:00", "2020-01-03 00:00:00"])
