"""What cells mean: whatever way a column writes its numbers and dates, all of them are read alike, or none."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.readers.cells import (
    MISSING_CELLS,
    NO_VALUE,
    DateForm,
    NumberForm,
    clean,
    date_form,
    days,
    either_order,
    is_truth,
    packed_dates,
    read_numbers,
    says_decimal,
    truth_values,
)


def numbers(*cells: str, decimal: str | None = None) -> tuple[NumberForm, list[float]] | None:
    found = read_numbers(clean(cells), decimal)
    if found is None:
        return None
    assert found[2] == []
    return found[0], [None if math.isnan(value) else value for value in found[1].tolist()]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("cells", "form", "values"),
    [
        (("1", "2.5", "-3e4"), NumberForm(), [1, 2.5, -3e4]),
        (("+5", "\u22127", ""), NumberForm(), [5, -7, None]),
        (("1,5", "2", "1.000,25"), NumberForm(","), [1.5, 2, 1000.25]),
        (("1,000", "2.5"), NumberForm(), [1000, 2.5]),
        (("1 000 000", "2 500,5"), NumberForm(","), [1e6, 2500.5]),
        (("1'000.5", "2\u2019000"), NumberForm(), [1000.5, 2000]),
        (("12,34,567", "1,00,000.5"), NumberForm(), [1234567, 100000.5]),
        (("0,125", "0,250"), NumberForm(","), [0.125, 0.25]),
        (("$5", "-$7", "$-8", "(9)"), NumberForm(unit="$"), [5, -7, -8, -9]),
        (("5 EUR", "7,5 EUR"), NumberForm(",", "EUR"), [5, 7.5]),
        (("1.5e3 m", "2 m"), NumberForm(unit="m"), [1500, 2]),
        (("3 °C", "-7.5 °C", "n/a"), NumberForm(unit="°C"), [3, -7.5, None]),
        (("1 Day", "2 days", "3 days"), NumberForm(unit="days"), [1, 2, 3]),
        (("1", "-", "?", "n.a.", "#DIV/0!", "2", "3", "4", "5"), NumberForm(), [1, None, None, None, None, 2, 3, 4, 5]),
    ],
)
def test_ways_to_write_numbers(cells: tuple[str, ...], form: NumberForm, values: list[float]) -> None:
    assert numbers(*cells) == (form, values)


@pytest.mark.parametrize(
    "cells",
    [
        ("a", "b"), ("1", "two"), ("1_000", "2"), ("0x10", "0x11"), ("1.2.3", "1.2.4"), ("192.168.0.1",), ("1-2",),
        ("5 kg", "3 g"), ("1,5", "2.5"), ("1,23,4",), ("--5",), ("5 5",), ("½", "²"), ("12:30", "13:00"), ("1/2",),
        ("A5", "A6"), ("5%%",), ("$", "€"), ("1st", "2nd", "3rd"), ("+49 151 2345",),
    ],
)  # fmt: skip
def test_what_is_no_column_of_numbers(cells: tuple[str, ...]) -> None:
    assert numbers(*cells) is None


def test_an_ambiguous_comma_is_settled_by_the_table() -> None:
    assert numbers("1,200", "3,400") == (NumberForm("."), [1200, 3400])
    assert numbers("1,200", "3,400", decimal=",") == (NumberForm(","), [1.2, 3.4])
    assert numbers("1.200", "3.400", decimal=",") == (NumberForm(","), [1200, 3400])
    assert [says_decimal(clean(cells)) for cells in (["1,5"], ["1.5"], ["1,500"], ["15"], ["x"])] == [
        ",", ".", None, None, None,
    ]  # fmt: skip


def test_a_letter_behind_one_number_is_no_unit() -> None:
    cells = [str(number) for number in range(30)]
    assert numbers(*cells, "136A") == (NumberForm(words=("136A",)), [*map(float, range(30)), None])
    assert numbers("1", "2", "3A") is None


def test_cells_that_cannot_be_read_are_named() -> None:
    values, bad = NumberForm(",", "€", ("gratis",)).read(clean(["1,5 €", "2.5 €", "gratis", "?", "much", "inf", ""]))
    assert bad == [1, 4, 5]
    np.testing.assert_array_equal(values[[0, 2, 3, 6]], [1.5, np.nan, np.nan, np.nan])
    assert NumberForm().read(clean(["1", "inf"]))[1] == [1]
    assert NumberForm().read(clean(["1", "1e999"]))[1] == [1]


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1))
def test_what_a_program_writes_is_read_exactly(values: list[float]) -> None:
    found = read_numbers(clean([repr(value) for value in values]))
    assert found is not None
    np.testing.assert_array_equal(found[1], values)


@given(
    st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1),
    st.sampled_from([(".", ","), (",", "."), (",", " "), (".", "'"), (",", "\u00a0"), (".", "")]),
    st.sampled_from([("", ""), ("$", ""), ("", " €"), ("", "%"), ("", " km/h"), ("", " m²")]),
)
def test_what_people_write_is_read_as_they_mean_it(values: list, marks: tuple[str, str], unit: tuple[str, str]) -> None:
    decimal, thousands = marks
    cells = []
    for value in values:
        text = f"{abs(value):,.2f}".replace(",", "\0").replace(".", decimal).replace("\0", thousands)
        cells.append(("-" if value < 0 else "") + unit[0] + text + unit[1])
    found = read_numbers(clean(cells))
    assert found is not None, cells
    form, read, bad = found
    assert bad == []
    assert form.decimal == decimal
    np.testing.assert_allclose(read, [float(value) for value in values], rtol=1e-12)
    np.testing.assert_array_equal(form.read(clean(cells))[0], read)


@settings(max_examples=300)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=8))
def test_any_text_is_read_or_not_without_a_stumble(cells: list[str]) -> None:
    text = clean(cells)
    found = read_numbers(text)
    if found is not None:
        assert len(found[1]) == len(text)
        again, bad = found[0].read(text)
        np.testing.assert_array_equal(again, found[1])
        assert bad == found[2]
    form = date_form(text)
    if form is not None:
        assert form.read(text)[1] == []
    is_truth(text)
    truth_values(text)


# ---- dates -----------------------------------------------------------------------------------------------------

FORMS = {
    "year-month-day": ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
    "day-month-year": ["%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y %H:%M"],
    "month-day-year": ["%m/%d/%Y", "%m/%d/%Y %I:%M %p"],
    "day-name-year": ["%d %b %Y", "%d-%B-%Y", "%a, %d %b %Y"],
    "name-day-year": ["%b %d, %Y", "%B %d %Y"],
    "year-month": ["%Y-%m"],
    "name-year": ["%B %Y"],
    "yyyymmdd": ["%Y%m%d"],
}
moments = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2099, 12, 31)).map(
    lambda moment: moment.replace(second=0, microsecond=0)
)


@given(moments, st.sampled_from([(order, form) for order, forms in FORMS.items() for form in forms]))
def test_dates_are_read_as_they_were_written(moment: datetime.datetime, written: tuple[str, str]) -> None:
    order, form = written
    text = moment.strftime(form)
    meant = datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC)
    found = days(text, order)
    assert found is not None
    assert abs(found - (meant - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).total_seconds() / 86400) < 1e-9


@given(st.lists(moments, min_size=2), st.sampled_from(["%d/%m/%Y", "%m/%d/%Y"]))
def test_the_order_is_found_where_the_column_shows_it(values: list[datetime.datetime], form: str) -> None:
    text = clean([value.strftime(form) for value in values])
    found = date_form(text)
    assert found is not None
    if any(value.day > 12 for value in values):
        assert found.order == ("day-month-year" if form.startswith("%d") else "month-day-year")
        assert not either_order(text)
    else:
        assert found.order == "day-month-year"
        assert either_order(text)
        assert date_form(text, "month-day-year") == DateForm("month-day-year")


@pytest.mark.parametrize(
    "cells",
    [
        ("2024-02-30",), ("2024-13-01",), ("31/31/2024",), ("31/01/2024", "2024-01-31"), ("13:61",), ("25:00",),
        ("2024-01-01", "soon"), ("1 Mai 2024",), ("May",), ("12",), ("13:00 pm",), ("2024-1-1-1",), ("",), ("?", "-"),
    ],
)  # fmt: skip
def test_what_is_no_column_of_dates(cells: tuple[str, ...]) -> None:
    assert date_form(clean(cells)) is None


def test_two_digits_of_a_year_and_zones() -> None:
    assert days("1/1/70", "day-month-year") == 0
    assert days("1/1/50", "day-month-year") == -7305
    assert days("1/1/49", "day-month-year") == 28855
    assert days("1970-01-02T01:00:00.5+02:00") == pytest.approx((23 * 3600 + 0.5) / 86400)
    assert days("1970-01-01 00:00 Z") == 0


def test_dates_that_look_like_numbers() -> None:
    assert packed_dates(np.array([20240131, np.nan, 19991231]))
    for values in ([20241301], [20240132], [2024], [20240131.5], [np.nan], [18991231]):
        assert not packed_dates(np.array(values, dtype=float))


def test_missing_words_are_not_case_sensitive_where_they_stand_among_numbers() -> None:
    assert clean([*MISSING_CELLS, " NA ", "None", "-"]).tolist() == [""] * (len(MISSING_CELLS) + 1) + ["None", "-"]
    assert all(word == word.lower() for word in NO_VALUE)
    assert numbers("1", "2", "UNKNOWN", "None", "3") == (NumberForm(), [1, 2, None, None, 3])
