"""From columns to numbers: the same at fitting and at prediction, and described in words."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from condiff.encoders import TableEncoder, encoding, is_table
from condiff.encoders import table as module
from condiff.encoders.examples import columns_markdown
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.tables import read_table

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


def dense(encoder: TableEncoder, rows: Any) -> np.ndarray:
    matrix = encoder.transform(rows)
    assert isinstance(matrix, np.ndarray)
    assert matrix.dtype == np.float64
    return matrix


def notes(rows: Any, **options: Any) -> dict[str, str]:
    return {note.column: str(note) for note in TableEncoder(**options).fit(rows).describe()}


def names(encoder: TableEncoder) -> list[str]:
    return list(encoder.get_feature_names_out())


def messy(n: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    age = rng.normal(40, 10, n).round(1)
    age[:5] = np.nan
    return {
        "patient_id": [f"p{i:03}" for i in range(n)],
        "age": age,
        "income": rng.lognormal(10, 2, n),
        "smoker": rng.random(n) > 0.5,
        "city": rng.choice(["Oslo", "Bergen", "Bodø", None], n).tolist(),
        "seen": [f"2024-01-{1 + i % 28:02}" for i in range(n)],
        "price": ["-", *[f"$1,{i:03}.50" for i in range(n - 1)]],
        "name": [f"person {i}" for i in range(n)],
        "photo": [f"photos/{i}.JPG" for i in range(n)],
        "unit": ["cm"] * n,
        "blank": [None] * n,
        "kind": ["cat", "dog", None] * (n // 3),
    }


def test_a_messy_table_in_words() -> None:
    rows = messy()
    encoder = TableEncoder(drop=["kind"]).fit(rows)
    matrix = dense(encoder, rows)
    cities = [name for name in names(encoder) if name.startswith("city=")]
    assert names(encoder) == [
        "age", "age is missing", "income", "smoker", *cities, "city is missing", "seen", "seen weekday sine",
        "seen weekday cosine", "price",
    ]  # fmt: skip
    assert len(cities) == 3
    assert matrix.shape == (60, len(names(encoder)))
    assert np.isfinite(matrix).all()
    lines = {note.column: str(note) for note in encoder.describe()}
    assert lines["age"].startswith("'age': number, standardised (5 missing filled with the median")
    assert lines["age"].endswith("and flagged)")
    assert lines["income"] == "'income': number, standardised, heavy tails pulled in"
    assert lines["smoker"] == "'smoker': true/false, 0/1, scaled"
    assert lines["city"].startswith("'city': category, 3 levels one-hot (")
    assert lines["seen"] == "'seen': date, days since 2024-01-01, weekday"
    assert lines["price"].startswith("'price': number in $, standardised (1 missing filled with the median")
    assert lines["price"].endswith("'-' counts as missing)")
    assert lines["patient_id"] == "'patient_id': id, left out (an id, different in every row)"
    assert lines["name"] == "'name': code, left out (nearly every value is different)"
    assert "row 1: there is no file 'photos/0.JPG'" in lines["photo"]
    assert lines["unit"] == "'unit': constant, left out (the same value in every row)"
    assert lines["blank"] == "'blank': empty, left out (no value in any row)"
    assert "kind" not in lines


def test_blocks_say_which_features_come_from_which_column() -> None:
    encoder = TableEncoder(drop=["kind"]).fit(messy())
    assert [block.column for block in encoder.blocks_] == ["age", "income", "smoker", "city", "seen", "price"]
    assert [block.one_hot for block in encoder.blocks_] == [False, False, False, True, False, False]
    stops = [block.stop for block in encoder.blocks_]
    assert [block.start for block in encoder.blocks_] == [0, *stops[:-1]]
    assert stops[-1] == len(names(encoder))


def test_pandas_polars_arrow_and_columns_are_encoded_alike() -> None:
    pa = pytest.importorskip("pyarrow")
    rows = messy()
    frame = pd.DataFrame(rows)
    frame["age"] = frame["age"].astype("Float64")
    frame["city"] = frame["city"].astype("category")
    expected = dense(TableEncoder().fit(rows), rows)
    for other in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), {c: frame[c] for c in frame}):
        np.testing.assert_allclose(dense(TableEncoder().fit(other), other), expected)
        np.testing.assert_allclose(dense(TableEncoder().fit(rows), other), expected)


def test_names_of_columns_may_be_numbers_but_not_repeat() -> None:
    frame = pd.DataFrame({0: [1.0, 2.0, 3.0], 1: ["a", "b", "a"]})
    assert TableEncoder().fit(frame).get_feature_names_out().tolist() == ["0", "1=a", "1=b"]
    frame.columns = ["a", "a"]
    with pytest.raises(InvalidInputError, match="several columns named 'a'"):
        TableEncoder().fit(frame)


def test_dates_and_times_of_data_frames() -> None:
    days = pd.date_range("2023-11-05 06:00", periods=40, freq="33h")
    expected = TableEncoder().fit({"t": days.astype(str).tolist()})
    matrix = dense(expected, {"t": days.astype(str).tolist()})
    frame = pd.DataFrame({"t": days})
    for other in (frame, pl.from_pandas(frame), frame.assign(t=days.tz_localize("UTC")), {"t": days.to_numpy()}):
        np.testing.assert_allclose(dense(TableEncoder().fit(other), other), matrix)
    spans = pd.DataFrame({"wait": pd.to_timedelta([1.5, 2.5, 9.0], unit="h")})
    seconds = {"wait": [5400.0, 9000.0, 32400.0]}
    for other in (spans, pl.from_pandas(spans)):
        np.testing.assert_allclose(dense(TableEncoder().fit(other), other), dense(TableEncoder().fit(seconds), seconds))


def test_arrays_of_objects_and_of_numbers_with_gaps() -> None:
    X = np.array([["a", 1.0], ["b", None], ["a", 3.0], ["b", 4.0]], dtype=object)
    encoder = TableEncoder().fit(X)
    assert names(encoder) == ["x0=a", "x0=b", "x1"]
    assert dense(encoder, X.tolist()).shape == (4, 3)
    gaps = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, 6.0]])
    assert names(TableEncoder().fit(gaps)) == ["x0", "x1"]


def test_it_works_in_a_pipeline_and_can_be_cloned() -> None:
    rows = pd.DataFrame(messy())
    y = np.arange(60) % 2
    model = make_pipeline(TableEncoder(drop=["kind"]), DecisionTreeClassifier(random_state=0)).fit(rows, y)
    assert (model.predict(rows) == y).all()
    assert clone(TableEncoder(keep=["a"])).keep == ["a"]
    assert TableEncoder().fit_transform(rows).shape == (60, 15)


def test_is_table() -> None:
    numbers = np.arange(6.0).reshape(3, 2)
    frame = pd.DataFrame(numbers, columns=["a", "b"])
    plain_ones: list[Any] = [numbers, numbers.astype(np.float32), numbers.astype(int), numbers.astype(object)]
    plain_ones += [numbers.tolist(), frame, pl.from_pandas(frame), sp.csr_array(numbers), numbers > 2, numbers[0]]
    for plain in [*plain_ones, np.array([[{}]])]:
        assert not is_table(plain), type(plain)
    gaps = np.where(numbers == 3, np.nan, numbers)
    words = frame.assign(c=["x", "y", "z"])
    for other in (gaps, frame.where(frame != 3), pl.from_pandas(frame.where(frame != 3)), words, pl.from_pandas(words),
                  words.to_numpy(), [["a", 1]], {"a": [1]}, pd.DataFrame({"d": pd.date_range("2024", periods=2)}),
                  np.array([["a"]]), np.array([[1.0, None]])):  # fmt: skip
        assert is_table(other), type(other)


# ---- numbers ---------------------------------------------------------------------------------------------------


def test_numbers_are_standardised_and_gaps_filled_with_the_median() -> None:
    rows = {"a": [1.0, 2.0, 3.0, np.nan, 4.0, np.nan]}
    matrix = dense(TableEncoder().fit(rows), rows)
    observed = np.array([1.0, 2.0, 3.0, 4.0])
    expected = (np.array([1.0, 2.0, 3.0, 2.5, 4.0, 2.5]) - observed.mean()) / observed.std()
    np.testing.assert_allclose(matrix[:, 0], expected)
    np.testing.assert_array_equal(matrix[:, 1], [0, 0, 0, 1, 0, 1])


def test_heavy_tails_are_pulled_in_and_stay_in_order() -> None:
    values = np.random.default_rng(0).lognormal(0, 2, 500)
    matrix = dense(TableEncoder().fit({"a": values}), {"a": values})[:, 0]
    np.testing.assert_array_equal(np.argsort(matrix), np.argsort(values))
    np.testing.assert_allclose([matrix.mean(), matrix.std()], [0, 1], atol=1e-9)
    assert matrix.max() < 5 < ((values - values.mean()) / values.std()).max()
    gauss = np.random.default_rng(0).normal(size=500)
    np.testing.assert_allclose(dense(TableEncoder().fit({"a": gauss}), {"a": gauss})[:, 0],
                               (gauss - gauss.mean()) / gauss.std())  # fmt: skip


def test_a_single_gap_is_not_flagged() -> None:
    values = [float(i % 7) + 0.5 for i in range(300)]
    values[7] = np.nan
    assert names(TableEncoder().fit({"a": values})) == ["a"]


def test_one_value_or_nothing_is_a_flag() -> None:
    rows = {"cancelled": [1.0, None, 1.0, None], "a": [0.5, 1, 2, 3]}
    encoder = TableEncoder().fit(rows)
    assert names(encoder) == ["cancelled is missing", "a"]
    np.testing.assert_array_equal(dense(encoder, rows)[:, 0], [0, 1, 0, 1])
    assert "whether there is a value" in str(encoder.describe()[0])


def test_numbers_near_the_limits_of_floats() -> None:
    rows = {"huge": [1.7e308, -1.7e308, 0.0, 1e308], "tiny": [5e-324, 0.0, 0.0, 0.0], "close": [1e9, 1e9 + 1, 1e9, 1e9]}
    matrix = dense(TableEncoder().fit(rows), rows)
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(matrix[:, -1].std(), 1.0, rtol=1e-6)


def test_a_wild_cell_at_prediction_is_cut_and_said() -> None:
    encoder = TableEncoder().fit({"a": [1.0, 2.0, 3.0]})
    wild = dense(encoder, {"a": [1e308, -1e308, 5.0, 2.0]})[:, 0]
    np.testing.assert_allclose(wild, np.array([3.0, -3.0, 3.0, 0.0]) / np.std([1, 2, 3]))
    [note] = encoder.notes_at_predict({"a": [1e308, -1e308, 5.0, 2.0]})
    assert note == "'a': 2 rows far outside of what was seen (1 to 3), such as 1e+308"
    assert encoder.notes_at_predict({"a": [0.0, 4.0, None]}) == []


@pytest.mark.parametrize(
    "cells", [["1", "inf", "3"], ["1,5", "-Infinity", "3,5"], [1.0, np.inf, 3.0], ["1", "1e999", "3"]]
)
def test_infinity_is_an_error_and_not_missing(cells: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"column 'a', row 2: '.*' is infinite: fix the cell"):
        TableEncoder().fit({"a": cells})
    with pytest.raises(InvalidInputError, match="is infinite"):
        TableEncoder().fit({"a": ["1,0", "2,5", "4,5"] if "," in str(cells[0]) else [1.0, 2.5, 4.5]}).transform(
            {"a": cells}
        )


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["$125.73", "$1,200", "$-3"], [125.73, 1200, -3]),
        (["13 %", "7%", "100 %"], [13, 7, 100]),
        (["1,200", "3,400", "950"], [1200, 3400, 950]),
        (["1.234,50 €", "12,00 €", "7 €"], [1234.5, 12, 7]),
        (["1 year", "2 years", "10 years"], [1, 2, 10]),
        (["5", "-", "n/a", "?", "7", "8", "9"], [5, np.nan, np.nan, np.nan, 7, 8, 9]),
        (["(1,200)", "300", "1,000,000"], [-1200, 300, 1e6]),
        (["12 km/h", "7 km/h", "8.5 km/h"], [12, 7, 8.5]),
    ],
)  # fmt: skip
def test_numbers_with_units_and_separators(cells: list[str], values: list[float]) -> None:
    found = dense(TableEncoder().fit({"a": cells}), {"a": cells})
    np.testing.assert_allclose(found, dense(TableEncoder().fit({"a": values}), {"a": values}))


def test_a_table_decides_what_a_comma_means() -> None:
    ambiguous = ["1,250", "3,500", "2,125"]
    alone = TableEncoder().fit({"a": ambiguous})
    np.testing.assert_allclose(dense(alone, {"a": ["1250"]}), dense(alone, {"a": ["1,250"]}))
    rows = {"a": ambiguous, "b": ["0,5", "1,75", "2,0"], "c": ["1.250", "3.500", "2.125"]}
    together = TableEncoder().fit(rows)
    assert "decimal comma" in str(together.describe()[0])
    np.testing.assert_allclose(dense(together, rows)[:, 0], dense(together, rows)[:, 2])
    assert together.notes_at_predict({**rows, "a": ["1250"] * 3, "c": ["1250"] * 3}) == [
        "'a': 3 rows far outside of what was seen (1.25 to 3.5), such as 1250"
    ]


def test_bounds_among_numbers_are_numbers_and_bounds_alone_are_categories() -> None:
    encoder = TableEncoder().fit({"dose": ["<0.5", "0.7", "1.2", "> 9", "3"]})
    assert "bounds such as '<0.5' are read as the number" in str(encoder.describe()[0])
    np.testing.assert_array_equal(
        encoder.transform({"dose": ["<0.5", "≥9", "1.2"]}), encoder.transform({"dose": ["0.5", "9", "1.2"]})
    )
    income = TableEncoder().fit({"income": ["<=50K", ">50K", "<=50K", ">50K"]})
    assert names(income) == ["income=<=50K", "income=>50K"]


@pytest.mark.parametrize("library", ["pandas", "polars", "parquet"])
def test_categories_stay_categories_even_where_they_are_numbers(tmp_path: Path, library: str) -> None:
    codes = [number % 3 for number in range(30)]
    frame: Any = pd.DataFrame({"ward": pd.Categorical(codes)})
    if library == "polars":
        frame = pl.DataFrame({"ward": pl.Series(list(map(str, codes)), dtype=pl.Categorical)})
    elif library == "parquet":
        frame.to_parquet(tmp_path / "t.parquet")
        frame = read_table(tmp_path / "t.parquet")
    encoder = TableEncoder().fit(frame)
    assert names(encoder) == ["ward=0", "ward=1", "ward=2"]
    np.testing.assert_array_equal(dense(encoder, frame), dense(encoder, {"ward": codes}))


def test_a_lazy_frame_is_to_be_collected() -> None:
    with pytest.raises(InvalidInputError, match=r"a lazy frame: pass what its collect\(\) returns"):
        TableEncoder().fit(pl.DataFrame({"a": ["u", "v"]}).lazy())


def test_mixed_units_and_codes_are_no_numbers() -> None:
    for cells in (["5 kg", "300 g", "2 kg"] * 3, ["A1", "A2", "A1"] * 3, ["1,5", "2.5", "3"] * 3, ["1/2", "3/4"] * 3):
        assert "category" in notes({"a": cells})["a"]


def test_a_few_words_among_many_numbers_count_as_missing() -> None:
    cells = [str(i % 17) for i in range(97)] + ["high", "high", "low"]
    encoder = TableEncoder().fit({"a": cells})
    assert "3 cells such as 'high', 'low' count as missing" in str(encoder.describe()[0])
    assert dense(encoder, {"a": ["high", "3"]}).shape == (2, 2)
    with pytest.raises(InvalidInputError, match="'middling' is not a number"):
        encoder.transform({"a": ["middling"]})


def test_numbers_in_disguise_are_mentioned() -> None:
    grades = [str(i % 9) for i in range(30)] + ["A"] * 10
    hint = "read as words because of cells such as 'A' (10 rows); empty them to use it as a number"
    assert hint in notes({"a": grades})["a"]
    years = [str(1800 + i) for i in range(30)] + ["ancient"] * 5
    assert (
        "'a': code, left out (read as words because of cells such as 'ancient' (5 rows)"
        in notes({"a": years, "b": np.arange(35) / 3})["a"]
    )


# ---- dates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-01-01", "2024-01-03", None],
        ["2024-01-01T00:00:00", "2024-01-03 00:00", None],
        ["2024-01-01T00:00:00Z", "2024-01-03T02:00:00+02:00", None],
        ["2024/01/01", "2024/1/3", "-"],
        ["01.01.2024", "3.1.2024", ""],
        ["1/1/24", "3/1/24", "n/a"],
        ["Jan 1, 2024", "January 3, 2024", None],
        ["1-Jan-2024", "03-Jan-24", None],
        ["20240101", "20240103", None],
        [20240101, 20240103, None],
        pd.to_datetime(["2024-01-01", "2024-01-03", None]),
        pd.to_datetime(["2024-01-01", "2024-01-03", None], utc=True),
    ],
)
def test_dates_count_days_whatever_their_form(cells: Any) -> None:
    encoder = TableEncoder().fit({"day": cells})
    assert str(encoder.describe()[0]).startswith("'day': date, days since 2024-01-01")
    np.testing.assert_allclose(dense(encoder, {"day": cells})[:, 0], [-1.0, 1.0, 0.0])


def test_the_order_of_day_and_month_is_found_in_the_column() -> None:
    encoder = TableEncoder().fit({"a": ["01/31/2020", "02/01/2020"], "b": ["31/01/2020", "01/02/2020"]})
    matrix = dense(encoder, {"a": ["01/31/2020", "02/01/2020"], "b": ["31/01/2020", "01/02/2020"]})
    np.testing.assert_allclose(matrix[:, 0], matrix[:, 1])
    assert encoder.describe()[1].why == ""
    assert "the month may come first" in notes({"a": ["01/02/2020", "03/04/2020"]})["a"]


def test_what_varies_in_a_date_is_used() -> None:
    def parts(cells: list[str]) -> list[str]:
        return names(TableEncoder().fit({"t": cells}))

    def circle(part: str) -> list[str]:
        return [f"t {part} sine", f"t {part} cosine"]

    days = [f"2024-{m:02}-{d:02}" for m in (1, 4, 7, 10) for d in (1, 9, 17, 25)]
    assert parts(days) == ["t", *circle("season"), *circle("weekday")]
    assert parts([f"{year}-06" for year in range(2000, 2020)]) == ["t"]
    assert parts(["2024-05", "2024-08", "2024-11"]) == ["t", *circle("season")]
    assert parts([f"2024-01-01 {hour:02}:30" for hour in range(24)]) == ["t", *circle("hour")]
    assert parts([f"{hour}:15" for hour in range(24)]) == circle("hour")
    with pytest.raises(InvalidInputError, match="the same date in every row"):
        parts(["2024-01-01"] * 9)


def test_a_date_counts_as_much_as_a_number() -> None:
    rng = np.random.default_rng(0)
    days = [str(day)[:19] for day in pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.uniform(0, 1500, 3000), unit="D")]
    matrix = dense(TableEncoder().fit({"t": days}), {"t": days})
    assert matrix.shape[1] == 7
    np.testing.assert_allclose(matrix.var(axis=0).sum(), 1.0, rtol=0.1)


def test_dates_far_outside_and_beyond_nanoseconds() -> None:
    encoder = TableEncoder().fit({"until": ["2024-01-01", "2024-02-01", "2024-03-01"]})
    assert encoder.notes_at_predict({"until": ["2031-01-01", "2024-02-02"]}) == [
        "'until': 1 row far outside of what was seen (2024-01-01 to 2024-03-01)"
    ]
    wide = {"until": ["2024-01-01", "9999-12-31", "0001-01-01"]}
    assert np.isfinite(dense(TableEncoder().fit(wide), wide)).all()


# ---- categories ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 10])
def test_a_one_hot_column_weighs_as_much_as_a_standardised_one(levels: int) -> None:
    rows = {"c": [f"level {i % levels}" for i in range(levels * 40)]}
    matrix = dense(TableEncoder().fit(rows), rows)
    assert matrix.shape[1] == levels
    np.testing.assert_allclose(matrix.var(axis=0).sum(), 1.0)


@pytest.mark.parametrize("values", [["a"] * 999 + ["b"], [True] * 999 + [False]])
def test_a_lopsided_column_does_not_shout(values: list[Any]) -> None:
    matrix = dense(TableEncoder().fit({"c": values}), {"c": values})
    assert 2 < np.linalg.norm(matrix[0] - matrix[-1]) < 4.1


def test_rare_levels_are_pooled_and_unseen_ones_are_zero() -> None:
    rows = {"c": ["a"] * 30 + ["b"] * 30 + ["x", "y", "z"] + [None] * 3}
    encoder = TableEncoder().fit(rows)
    assert names(encoder) == ["c=a", "c=b", "c is rare", "c is missing"]
    assert str(encoder.describe()[0]) == "'c': category, 2 levels one-hot, 3 rare pooled (3 missing as a level)"
    new = {"c": ["b", "y", "unseen", None]}
    found = dense(encoder, new) > 0
    np.testing.assert_array_equal(found, np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]) > 0)
    assert encoder.notes_at_predict(new) == ["'c': 1 row with a category that was not there at fitting ('unseen')"]


def test_an_empty_column_at_prediction_is_said() -> None:
    encoder = TableEncoder().fit(messy())
    assert encoder.notes_at_predict({**messy(), "city": [None] * 60}) == ["'city': no value in any row"]
    assert encoder.notes_at_predict(messy()) == []


def test_columns_without_anything_in_common_are_dropped() -> None:
    assert "every value is rare" in notes({"c": list("abcdefgh"), "a": np.arange(8) / 3})["c"]


@pytest.mark.parametrize(
    ("name", "values", "dropped"),
    [
        ("id", range(5, 15), True),
        ("PassengerId", range(892, 902), True),
        ("index", range(10), True),
        ("n", range(1, 31), True),
        ("n", range(5000, 5300), True),
        ("year", range(1990, 2020), False),
        ("n", range(0, 60, 2), False),
    ],
)
def test_whole_numbers_that_only_count_rows(name: str, values: range, dropped: bool) -> None:
    numbers = list(values)
    rows = {name: numbers, "a": np.linspace(0.1, 0.7, len(numbers))}
    encoder = TableEncoder().fit(rows)
    assert (name not in names(encoder)) is dropped
    assert ("left out" in str(encoder.describe()[0])) is dropped
    assert name in names(TableEncoder(keep=[name]).fit(rows))


def test_an_id_that_repeats_is_a_category() -> None:
    rows = {"store_id": [1, 2, 3] * 10, "a": np.arange(30) / 7, "customer_id": list(range(100, 130))}
    assert names(TableEncoder().fit(rows)) == ["store_id=1", "store_id=2", "store_id=3", "a"]


def test_numbers_that_are_names() -> None:
    rows = {"zip": ["01234", "56789", "01234", "99999", "56789", "99999"], "a": np.arange(6) / 7}
    encoder = TableEncoder(categorical=["zip"]).fit(rows)
    assert names(encoder) == ["zip=01234", "zip=56789", "zip=99999", "a"]
    # pandas reads 01234 as 1234.
    np.testing.assert_array_equal(
        dense(encoder, {**rows, "zip": [1234, 56789, 1234.0, 99999, 56789, 99999]}), dense(encoder, rows)
    )


def test_nothing_left_to_learn_from() -> None:
    with pytest.raises(
        InvalidInputError, match=r"the table has no column left to learn from: 'id' \(an id, different in every row\)"
    ):
        TableEncoder(drop=["y"]).fit({"id": [1, 2, 3], "y": [0, 1, None]})
    with pytest.raises(InvalidInputError, match=r"has no column 'colour' \(did you mean 'color'\?\)"):
        TableEncoder(keep=["colour"]).fit({"color": ["a", "b"]})


@pytest.mark.parametrize(
    ("fitted", "given", "expected"),
    [
        ([0.5, 1.5], ["1", "much"], "column 'a', row 2: 'much' is not a number, as the model needs"),
        ([0.5, 1.5], pd.to_datetime(["2024-01-01"] * 2), "row 1: '2024-01-01' is not a number"),
        ([True, False], ["yes", "True"], "row 1: 'yes' is not true or false"),
        ([True, False], [1, 7], "row 2: '7' is not true or false"),
        (["2024-01-01", "2024-01-02"], ["2024-01-01", "1 May"], "row 2: '1 May' is not a date (year-month-day)"),
        (["2024-01-01", "2024-01-02"], [3, 4], "row 1: '3' is not a date"),
    ],
)
def test_cells_of_another_kind_at_prediction(fitted: Any, given: Any, expected: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        TableEncoder().fit({"a": fitted}).transform({"a": given})
    assert expected in str(caught.value)


def test_columns_that_came_back_as_text_are_still_read() -> None:
    assert dense(TableEncoder().fit({"a": [0.0, 2.0]}), {"a": ["2", None]}).tolist() == [[1.0], [0.0]]
    truth = TableEncoder().fit({"a": [True, False]})
    np.testing.assert_array_equal(dense(truth, {"a": ["TRUE", "false"]}), dense(truth, {"a": [True, False]}))
    np.testing.assert_array_equal(dense(truth, {"a": [1, 0]}), dense(truth, {"a": [True, False]}))


def test_columns_are_found_by_name() -> None:
    encoder = TableEncoder().fit({"Age": [0.5, 1.5], "b": [1.5, 3.5]})
    np.testing.assert_allclose(dense(encoder, {"extra": ["q"], "b": [1.5], "Age": [1.5]}), [[1.0, -1.0]])
    with pytest.raises(InvalidInputError, match=r"lacks 'Age' \(did you mean 'age'\?\), which the model needs: add it"):
        encoder.transform({"age": [1.0], "b": [1.0]})


def test_a_csv_and_the_frame_that_pandas_makes_of_it(tmp_path: Path) -> None:
    lines = [
        f"{i % 9},{'TRUE' if i % 2 else 'FALSE'},{'007' if i % 3 else 'A1'},{i * 1.5},2024-01-{i + 1:02},{i:03}"
        for i in range(30)
    ]
    path = tmp_path / "t.csv"
    path.write_text("n,flag,code,x,day,k\n" + "\n".join(lines) + "\n", encoding="utf-8")
    table, frame = read_table(path), pd.read_csv(path)
    encoder = TableEncoder().fit(table)
    np.testing.assert_array_equal(dense(encoder, frame), dense(encoder, table))
    assert names(TableEncoder().fit(frame)) == names(encoder)


def test_a_very_large_one_hot_result_is_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 6000 * 200)
    rng = np.random.default_rng(0)
    rows = {"c": [f"c{i}" for i in rng.integers(0, 300, 6000)], "a": rng.normal(size=6000)}
    encoder = TableEncoder().fit(rows)
    matrix = encoder.transform(rows)
    assert sp.issparse(matrix)
    assert matrix.shape == (6000, len(names(encoder)))
    assert matrix.nnz <= 2 * 6000
    encoder._sparse = False
    np.testing.assert_array_equal(matrix.toarray(), encoder.transform(rows))


def test_levels_of_a_large_table_are_pooled_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"c": [f"c{i % 200}" for i in range(4000)], "d": [f"d{i % 20}" for i in range(4000)]}
    assert len(names(TableEncoder().fit(rows))) == 220
    monkeypatch.setattr("condiff.encoders.learning.MAX_CELLS", 4000 * 100)
    encoder = TableEncoder().fit(rows)
    assert len(names(encoder)) == 62 + 1 + 20  # 1000 is halved until it is below 80
    assert str(encoder.describe()[0]) == "'c': category, 62 levels one-hot, 138 rare pooled"


def test_a_large_result_is_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGE", 100)
    rows = {"a": np.linspace(0, 1, 101)}
    encoder = TableEncoder().fit(rows)
    assert encoder.transform(rows).dtype == np.float32
    assert TableEncoder.from_state(encoder.to_state()).transform({"a": [0.5]}).dtype == np.float32


# ---- what is saved ---------------------------------------------------------------------------------------------


def test_json_round_trip() -> None:
    rows = messy()
    encoder = TableEncoder(drop=["kind"], keep=["unit"]).fit(rows)
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state(), allow_nan=False)))
    np.testing.assert_array_equal(again.transform(rows), encoder.transform(rows))
    assert again.describe() == encoder.describe()
    assert again.blocks_ == encoder.blocks_
    given = {"drop": ["kind"], "keep": ["unit"], "categorical": [], "text": [], "image": [], "embedding": "auto"}
    assert again.get_params() == given
    assert again.to_state() == encoder.to_state()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "condiff.columns/9"),
        (("columns",), None),
        (("columns",), [3]),
        (("columns",), []),
        (("columns", 0, "scale"), float("nan")),
        (("columns", 0, "scale"), -1.0),
        (("columns", 0, "unit"), 0.0),
        (("columns", 0, "low"), 9.0),
        (("columns", 0, "centre"), "0"),
        (("columns", 0, "type"), "colour"),
        (("columns", 0, "surprise"), 1),
        (("columns", 0, "name"), 1),
        (("columns", 0, "form"), {"decimal": "x", "unit": "", "words": []}),
        (("columns", 0, "form"), []),
        (("columns", 1, "levels"), [1, 2]),
        (("columns", 1, "levels"), "ab"),
        (("columns", 1, "missing"), "no"),
        (("columns", 1, "note"), {}),
        (("columns", 2, "parts"), ["moon"]),
        (("columns", 2, "low"), -1e300),
        (("columns", 2, "form"), {"order": "backwards", "words": []}),
        (("sparse",), 1),
        (("keep",), [7]),
    ],
)
def test_a_damaged_state_is_refused(path: tuple[Any, ...], value: Any) -> None:
    rows = {"a": [0.5, 1.5, 2.5, 0.0], "c": list("xxyy"), "d": ["2024-01-01", "2024-01-02"] * 2}
    state = TableEncoder().fit(rows).to_state()
    TableEncoder.from_state(copy.deepcopy(state))
    inner: Any = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InvalidFileError, match=r"the column encoding is .*: fit"):
        TableEncoder.from_state(state)


def test_a_state_that_lacks_a_part_or_is_none_at_all() -> None:
    for state in ({}, {"schema": encoding.SCHEMA}, []):
        with pytest.raises(InvalidFileError, match="the column encoding is damaged"):
            TableEncoder.from_state(state)  # type: ignore[arg-type]


# ---- any table -------------------------------------------------------------------------------------------------

CELLS = {
    "number": st.floats(allow_infinity=False) | st.none(),
    "whole": st.integers(-(2**62), 2**62),
    "text": st.text(max_size=3) | st.none(),
    "level": st.sampled_from(["a", "b", "NA", None]),
    "boolean": st.booleans() | st.none(),
    "day": st.datetimes().map(str) | st.none(),
    "moment": st.datetimes().map(lambda moment: moment.replace(microsecond=0)) | st.none(),
    "written": st.from_regex(r"[-+]?[$€]?[0-9]{1,3}([.,][0-9]{1,3}){0,2} ?(%|kg)?", fullmatch=True),
    "odd": st.sampled_from(["-", "?", "1", "2", "1e5", "1,5", "0x1", "1_0", "٣", "½", "²"]),
}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=4))
    n = draw(st.integers(2, 25))
    columns = {f"c{i}": draw(st.lists(CELLS[kind], min_size=n, max_size=n)) for i, kind in enumerate(kinds)}
    return {**columns, "sure": np.linspace(0.25, 1, n)}


@settings(max_examples=80, deadline=None)
@given(rows=tables(), data=st.data())
def test_any_table_becomes_finite_numbers_whatever_the_order_of_its_columns(
    rows: dict[str, Any], data: st.DataObject
) -> None:
    encoder = TableEncoder().fit(rows)
    matrix = dense(encoder, rows)
    assert np.isfinite(matrix).all()
    assert matrix.shape == (len(rows["sure"]), len(names(encoder)))
    assert encoder.notes_at_predict(rows) == []
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state(), allow_nan=False)))
    np.testing.assert_array_equal(again.transform(rows), matrix)
    shuffled = {name: rows[name] for name in data.draw(st.permutations(list(rows)))}
    np.testing.assert_array_equal(encoder.transform(shuffled), matrix)


def test_the_table_of_the_documentation_is_what_the_encoder_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "columns.md"
    missing = "run docs/update_tables.py"
    assert columns_markdown() in page.read_text(encoding="utf-8"), missing


def test_rows_without_anything_are_said_where_texts_are_read() -> None:
    texts = [f"visit number {row} went quite well" for row in range(40)]
    encoder = TableEncoder(embedding="tfidf").fit({"text": texts, "n": [float(row % 7) for row in range(40)]})
    row = encoder.blank_row()
    assert row.shape == (1, encoder.blocks_[-1].stop)
    notes = encoder.notes_at_predict({"text": ["", "visit", ""], "n": [None, 1.0, 2.0]})
    assert notes[-1] == "1 row without anything to go by: answered as the rows are on average"
    assert not TableEncoder().fit({"n": [1.0, 2.0, None]}).notes_at_predict({"n": [None, 1.0]})
