"""From columns to numbers: the same at fitting and at prediction, and said in words."""

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

pd = pytest.importorskip("pandas")

from condiff.encoders.columns import CategoryColumn, ColumnEncoder  # noqa: E402
from condiff.errors import InvalidFileError, InvalidInputError  # noqa: E402
from condiff.readers.tables import Table, read_table  # noqa: E402


def table(**columns: Any) -> Table:
    return Table(Path("t.csv"), frame=pd.DataFrame(columns))


def dense(encoder: ColumnEncoder, rows: Table) -> np.ndarray:
    matrix = encoder.transform(rows)
    assert isinstance(matrix, np.ndarray)
    assert matrix.dtype == np.float64
    return matrix


def messy(n: int = 60) -> Table:
    rng = np.random.default_rng(0)
    age = rng.normal(40, 10, n).round(1)
    age[:5] = np.nan
    return table(
        patient_id=[f"p{i:03}" for i in range(n)],
        age=age,
        income=rng.lognormal(10, 1, n),
        smoker=rng.random(n) > 0.5,
        city=rng.choice(["Oslo", "Bergen", "Bodø", None], n).tolist(),
        seen=[f"2024-01-{1 + i % 28:02}" for i in range(n)],
        name=[f"person {i}" for i in range(n)],
        unit=["cm"] * n,
        blank=[None] * n,
        kind=["cat", "dog", None] * (n // 3),
    )


def test_a_messy_table_and_its_report() -> None:
    rows = messy()
    encoder = ColumnEncoder.fit(rows, exclude=["kind"])
    matrix = dense(encoder, rows)
    assert encoder.feature_names == [
        "age",
        "age is missing",
        "income",
        "smoker",
        *[f"city={level}" for level in encoder.columns[3].levels],
        "city is missing",
        "seen",
    ]
    assert matrix.shape == (60, len(encoder.feature_names))
    assert np.isfinite(matrix).all()
    lines = encoder.report()
    assert lines[0] == "2 numeric columns standardised"
    assert "1 boolean column as 0/1" in lines
    assert "1 date column standardised as days" in lines
    assert "'seen': days since 2024-01-01" in lines
    assert any(
        line.startswith("'age': 5 missing filled with the median") and line.endswith("flagged") for line in lines
    )
    assert any(line.startswith("'city': 3 levels one-hot, ") for line in lines)
    assert "'patient_id' names the rows in the output" in lines
    assert "'patient_id' dropped: an id, different in every row" in lines
    assert "'name' dropped: nearly every value is different" in lines
    assert "'unit' dropped: the same value in every row" in lines
    assert "'blank' dropped: no value in any row" in lines
    assert encoder.row_ids(rows)[:2] == ["p000", "p001"]
    assert encoder.text_columns == ["city"]


def test_numbers_are_standardised_and_gaps_filled_with_the_median() -> None:
    rows = table(a=[1.0, 2.0, 3.0, np.nan, 10.0, np.inf])
    matrix = dense(ColumnEncoder.fit(rows), rows)
    observed = np.array([1.0, 2.0, 3.0, 10.0])
    expected = (np.array([1.0, 2.0, 3.0, 2.5, 10.0, 2.5]) - observed.mean()) / observed.std()
    np.testing.assert_allclose(matrix[:, 0], expected)
    np.testing.assert_array_equal(matrix[:, 1], [0, 0, 0, 1, 0, 1])


def test_a_single_gap_is_not_flagged() -> None:
    values = [float(i % 7) + 0.5 for i in range(300)]
    values[7] = np.nan
    assert ColumnEncoder.fit(table(a=values)).feature_names == ["a"]


def test_one_value_or_nothing_is_a_flag() -> None:
    rows = table(cancelled=[1.0, None, 1.0, None], a=[0.5, 1, 2, 3])
    encoder = ColumnEncoder.fit(rows)
    assert encoder.feature_names == ["cancelled is missing", "a"]
    np.testing.assert_array_equal(dense(encoder, rows)[:, 0], [0, 1, 0, 1])


def test_numbers_near_the_limits_of_floats() -> None:
    rows = table(huge=[1.7e308, -1.7e308, 0.0, 1e308], tiny=[5e-324, 0.0, 0.0, 0.0], close=[1e9, 1e9 + 1, 1e9, 1e9])
    matrix = dense(ColumnEncoder.fit(rows), rows)
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(matrix[:, -1].std(), 1.0, rtol=1e-6)


def test_a_wild_cell_at_prediction_stays_finite() -> None:
    encoder = ColumnEncoder.fit(table(a=[1e-300, 2e-300, 3e-300]))
    assert np.isfinite(dense(encoder, table(a=[1e308, -1e308, np.inf]))).all()


@pytest.mark.parametrize("levels", [2, 3, 10])
def test_a_one_hot_column_weighs_as_much_as_a_standardised_one(levels: int) -> None:
    rows = table(c=[f"level {i % levels}" for i in range(levels * 40)])
    matrix = dense(ColumnEncoder.fit(rows), rows)
    assert matrix.shape[1] == levels
    np.testing.assert_allclose(matrix.var(axis=0).sum(), 1.0)


def test_a_lopsided_column_does_not_shout() -> None:
    encoder = ColumnEncoder.fit(table(c=["a"] * 999 + ["b"]))
    assert isinstance(encoder.columns[0], CategoryColumn)
    assert encoder.columns[0].levels == ["a", "b"]
    assert encoder.columns[0].scale == 2.0


def test_rare_levels_are_pooled_and_unseen_ones_are_zero() -> None:
    rows = table(c=["a"] * 30 + ["b"] * 30 + ["x", "y", "z"] + [None] * 3)
    encoder = ColumnEncoder.fit(rows)
    assert encoder.feature_names == ["c=a", "c=b", "c is rare", "c is missing"]
    assert encoder.report() == ["'c': 2 levels one-hot, 3 rare pooled, 3 missing as a level"]
    found = dense(encoder, table(c=["b", "y", "unseen", None])) > 0
    np.testing.assert_array_equal(found, np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]) > 0)


def test_columns_without_anything_in_common_are_dropped() -> None:
    encoder = ColumnEncoder.fit(table(c=list("abcdefgh"), a=np.arange(8) / 3))
    assert encoder.report()[-1] == "'c' dropped: every value is rare"


@pytest.mark.parametrize(
    "column",
    [
        ["2024-01-01", "2024-01-03", None],
        ["2024-01-01T00:00:00", "2024-01-03 00:00", None],
        ["2024-01-01T00:00:00Z", "2024-01-03T02:00:00+02:00", None],
        pd.to_datetime(["2024-01-01", "2024-01-03", None]),
        pd.to_datetime(["2024-01-01", "2024-01-03", None], utc=True),
    ],
)
def test_dates_count_days_whatever_their_form(column: Any) -> None:
    encoder = ColumnEncoder.fit(table(day=column))
    assert encoder.report()[0] == "1 date column standardised as days"
    np.testing.assert_allclose(dense(encoder, table(day=column))[:, 0], [-1.0, 1.0, 0.0])
    np.testing.assert_allclose(dense(encoder, table(day=["2024-01-05"])), [[3.0]])


def test_a_date_beyond_nanoseconds() -> None:
    encoder = ColumnEncoder.fit(table(until=["2024-01-01", "9999-12-31", "0001-01-01"]))
    assert encoder.columns[0].kind == "date"  # type: ignore[union-attr]


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
    rows = table(**{name: numbers, "a": np.linspace(0.1, 0.7, len(numbers))})
    encoder = ColumnEncoder.fit(rows)
    assert (name not in encoder.feature_names) is dropped
    assert any(f"{name!r} dropped" in line for line in encoder.report()) is dropped
    assert name in ColumnEncoder.fit(rows, keep=[name]).feature_names


def test_an_id_that_repeats_is_a_category() -> None:
    rows = table(store_id=[1, 2, 3] * 10, a=np.arange(30) / 7, customer_id=range(100, 130))
    encoder = ColumnEncoder.fit(rows)
    assert encoder.feature_names == ["store_id=1", "store_id=2", "store_id=3", "a"]
    assert encoder.row_ids(rows)[0] == "100"


def test_row_ids_without_an_id_column_count_from_one() -> None:
    encoder = ColumnEncoder.fit(table(a=[0.5, 1.5]))
    assert encoder.row_ids(table(a=[1.0, 2.0, 3.0])) == [1, 2, 3]
    assert encoder.row_ids(table(a=[1.0], case_id=["x7"])) == ["x7"]


def test_numbers_in_disguise_are_not_guessed_but_mentioned() -> None:
    prices = [f"1,{i:03}" for i in range(40)]
    ages = [str(i % 9) for i in range(39)] + ["?"]
    report = ColumnEncoder.fit(table(price=prices, age=ages, day=["1.5.2024", "31.12.2023"] * 20)).report()
    assert "'day': read as text because '1.5.2024' (row 1) may be two dates; write dates as 2024-12-31" in report
    assert (
        "'price': read as text because of the punctuation in '1,000' (row 1); write plain numbers such as 1234.5"
        in report
    )
    assert "'age': read as text because of cells such as '?' (row 40); empty them to use it as a number" in report


def test_nothing_left_to_learn_from() -> None:
    with pytest.raises(InvalidInputError, match=r"t\.csv has no column left to learn from: 'id' dropped: an id"):
        ColumnEncoder.fit(table(id=[1, 2, 3], y=[0, 1, None]), exclude=["y"])


@pytest.mark.parametrize(
    ("fitted", "given", "expected"),
    [
        ([0.5, 1.5], ["1", "much"], "t.csv, column 'a', row 2: 'much' is not a number, as the model needs"),
        ([0.5, 1.5], pd.to_datetime(["2024-01-01"] * 2), "row 1: '2024-01-01 00:00:00' is not a number"),
        ([True, False], ["yes", "True"], "row 1: 'yes' is not true or false"),
        ([True, False], [1, 7], "row 2: '7' is not true or false"),
        (["2024-01-01", "2024-01-02"], ["2024-01-01", "1 May"], "row 2: '1 May' is not a date as 2024-12-31"),
        (["2024-01-01", "2024-01-02"], [3, 4], "row 1: '3' is not a date"),
    ],
)
def test_cells_of_another_kind_at_prediction(fitted: Any, given: Any, expected: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ColumnEncoder.fit(table(a=fitted)).transform(table(a=given))
    assert expected in str(caught.value)


def test_columns_that_came_back_as_text_are_still_read() -> None:
    assert dense(ColumnEncoder.fit(table(a=[0.0, 2.0])), table(a=["2", None])).tolist() == [[1.0], [0.0]]
    assert dense(ColumnEncoder.fit(table(a=[True, False])), table(a=["TRUE", "false"])).tolist() == [[1.0], [0.0]]
    assert dense(ColumnEncoder.fit(table(a=[True, False])), table(a=[None, 1])).tolist() == [[0.0], [1.0]]


def test_columns_are_found_by_name() -> None:
    encoder = ColumnEncoder.fit(table(Age=[0.5, 1.5], b=[1.5, 3.5]))
    more = table(extra=["q"], b=[1.5], Age=[1.5])
    np.testing.assert_allclose(dense(encoder, more), [[1.0, -1.0]])
    with pytest.raises(InvalidInputError, match=r"lacks 'Age' \(did you mean 'age'\?\), which the model needs: add it"):
        encoder.transform(table(age=[1.0], b=[1.0]))


def test_levels_that_look_like_numbers_come_back_the_same(tmp_path: Path) -> None:
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    train.write_text("code,flag\n" + "007,TRUE\nA1,maybe\n" * 5, encoding="utf-8")
    new.write_text("code,flag\n007,TRUE\n", encoding="utf-8")
    rows = read_table(train)
    encoder = ColumnEncoder.fit(rows)
    found = dense(encoder, read_table(new, as_text=encoder.text_columns))
    np.testing.assert_array_equal(found[0], dense(encoder, rows)[0])


def test_a_wide_one_hot_result_is_sparse() -> None:
    rng = np.random.default_rng(0)
    rows = table(c=[f"c{i}" for i in rng.integers(0, 300, 6000)], a=rng.normal(size=6000))
    encoder = ColumnEncoder.fit(rows)
    matrix = encoder.transform(rows)
    assert sp.issparse(matrix)
    assert matrix.shape == (6000, len(encoder.feature_names))
    assert matrix.nnz <= 2 * 6000
    plain = ColumnEncoder(encoder.columns, None, False, None, ())
    np.testing.assert_array_equal(matrix.toarray(), plain.transform(rows))  # type: ignore[union-attr]


def test_npz_features_are_used_as_they_are(tmp_path: Path) -> None:
    wide = sp.random_array((50, 3000), density=0.01, format="csr", rng=np.random.default_rng(0))
    parts = {"X_data": wide.data, "X_indices": wide.indices, "X_indptr": wide.indptr, "X_shape": wide.shape}
    np.savez(tmp_path / "s.npz", **parts, y=np.arange(50) % 2, ids=np.arange(50) + 100)
    rows = read_table(tmp_path / "s.npz")
    encoder = ColumnEncoder.fit(rows, exclude=["y"])
    assert sp.issparse(encoder.transform(rows))
    assert (encoder.transform(rows) != wide).nnz == 0  # type: ignore[union-attr]
    assert encoder.report() == ["3000 features used as they are"]
    assert encoder.row_ids(rows)[:2] == [100, 101]
    assert len(encoder.feature_names) == 3000
    same = Table(Path("d.npz"), matrix=wide.toarray())
    assert sp.issparse(encoder.transform(same))
    assert isinstance(ColumnEncoder.fit(same).transform(rows), np.ndarray)
    with pytest.raises(InvalidInputError, match="has 2 features, the model reads 3000"):
        encoder.transform(Table(Path("d.npz"), matrix=np.eye(2)))
    with pytest.raises(InvalidInputError, match=r"t\.csv does not fit the model, which reads NPZ features"):
        encoder.transform(table(a=[1.0]))
    with pytest.raises(InvalidInputError, match="which reads the columns of a CSV or Parquet file"):
        ColumnEncoder.fit(table(a=[0.5, 1.0])).transform(rows)


def test_json_round_trip() -> None:
    rows = messy()
    for encoder in (
        ColumnEncoder.fit(rows, exclude=["kind"]),
        ColumnEncoder.fit(Table(Path("x.npz"), matrix=np.ones((60, 2)))),
    ):
        again = ColumnEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
        assert again == encoder
        source = rows if encoder.width is None else Table(Path("x.npz"), matrix=np.ones((60, 2)))
        np.testing.assert_array_equal(again.transform(source), encoder.transform(source))
        assert again.report() == encoder.report()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "condiff.columns/9"),
        (("columns",), None),
        (("columns",), [3]),
        (("columns",), []),
        (("columns", 0, "sd"), float("nan")),
        (("columns", 0, "sd"), -1.0),
        (("columns", 0, "mean"), "0"),
        (("columns", 0, "kind"), "colour"),
        (("columns", 0, "surprise"), 1),
        (("columns", 1, "levels"), [1, 2]),
        (("columns", 1, "missing"), "no"),
        (("sparse",), 1),
        (("id_column",), 7),
        (("width",), 3),
        (("lines",), [1]),
    ],
)
def test_a_damaged_state_is_refused(path: tuple[Any, ...], value: Any) -> None:
    state = ColumnEncoder.fit(table(a=[0.5, 1.5, 2.5, 0.0], c=list("xxyy"))).to_dict()
    ColumnEncoder.from_dict(copy.deepcopy(state))
    inner: Any = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InvalidFileError, match=r"the column encoding is .*: fit"):
        ColumnEncoder.from_dict(state)


def test_a_state_that_lacks_a_part_or_is_none_at_all() -> None:
    for state in ({}, {"schema": "condiff.columns/1"}, []):
        with pytest.raises(InvalidFileError, match="the column encoding is damaged"):
            ColumnEncoder.from_dict(state)  # type: ignore[arg-type]


CELLS = {
    "number": st.floats() | st.none(),
    "whole": st.integers(-(2**62), 2**62),
    "text": st.text(max_size=3) | st.none(),
    "level": st.sampled_from(["a", "b", "NA", None]),
    "boolean": st.booleans() | st.none(),
    "day": st.datetimes().map(str) | st.none(),
    "moment": st.datetimes().map(lambda moment: moment.replace(microsecond=0)).map(pd.Timestamp) | st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=4))
    n = draw(st.integers(2, 25))
    columns = {f"c{i}": draw(st.lists(CELLS[kind], min_size=n, max_size=n)) for i, kind in enumerate(kinds)}
    return table(**columns, sure=np.linspace(0.25, 1, n))


@settings(max_examples=60, deadline=None)
@given(rows=tables(), data=st.data())
def test_any_table_becomes_finite_numbers_whatever_the_order_of_its_columns(rows: Table, data: st.DataObject) -> None:
    assert rows.frame is not None
    encoder = ColumnEncoder.fit(rows)
    matrix = dense(encoder, rows)
    assert np.isfinite(matrix).all()
    assert matrix.shape == (rows.n_rows, len(encoder.feature_names))
    assert ColumnEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False))) == encoder

    order = data.draw(st.permutations(list(rows.frame.columns)))
    shuffled = Table(rows.path, frame=rows.frame[order])
    np.testing.assert_array_equal(encoder.transform(shuffled), matrix)
    again = ColumnEncoder.fit(shuffled)
    assert sorted(again.columns, key=lambda c: c.name) == sorted(encoder.columns, key=lambda c: c.name)
