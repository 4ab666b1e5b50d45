from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidFileError
from condiff.readers.series import SeriesFile, read_series

SERIES = "day,a,b,c\n2020-02-28,1,,3\n2020-02-29,4,5,NA\n2020-03-01,7,8.5,9\n"
EDGES = "source,target,weight\na,b,2\nb,c,0.5\n"


def read(folder: Path, series: str = SERIES, edges: str = EDGES, *, directed: bool = False) -> SeriesFile:
    (folder / "series.csv").write_text(series, encoding="utf-8")
    (folder / "edges.csv").write_text(edges, encoding="utf-8")
    return read_series(folder / "series.csv", folder / "edges.csv", directed=directed)


def test_days_regions_values_and_one_graph(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.days == ("2020-02-28", "2020-02-29", "2020-03-01")
    assert found.names == ("a", "b", "c")
    np.testing.assert_array_equal(found.values, [[1, np.nan, 3], [4, 5, np.nan], [7, 8.5, 9]])
    [weights] = found.weights
    np.testing.assert_array_equal(weights.toarray(), [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]])


def test_directed_edges_go_from_row_to_column(tmp_path: Path) -> None:
    edges = "source,target,weight\na,b,2\nb,a,3\na,b,1\nc,c,4\n"
    [directed] = read(tmp_path, edges=edges, directed=True).weights
    np.testing.assert_array_equal(directed.toarray(), [[0, 2, 0], [3, 0, 0], [0, 0, 4]])
    [both] = read(tmp_path, edges=edges).weights
    np.testing.assert_array_equal(both.toarray(), [[0, 3, 0], [3, 0, 0], [0, 0, 0]])


def test_a_graph_a_day_and_none_on_a_day_without_edges(tmp_path: Path) -> None:
    edges = "day;target;source\n2020-03-01;b;a\n2020-02-28;c;a\n"
    found = read(tmp_path, edges=edges, directed=True)
    dense = [weights.toarray() for weights in found.weights]
    np.testing.assert_array_equal(dense[0], [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert not dense[1].any()
    np.testing.assert_array_equal(dense[2], [[0, 1, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("days", "coming"),
    [
        (["2020-02-27", "2020-02-28"], ["2020-02-29", "2020-03-01"]),
        (["2020-02-01", "2020-02-08", "2020-02-15"], ["2020-02-22", "2020-02-29"]),
        (["1", "2", "3"], ["4", "5"]),
        (["Monday", "Tuesday"], ["+1", "+2"]),
        (["7"], ["+1", "+2"]),
    ],
)
def test_what_the_coming_days_are_called(tmp_path: Path, days: list[str], coming: list[str]) -> None:
    series = "when,a,b,c\n" + "".join(f"{day},1,2,3\n" for day in days)
    assert read(tmp_path, series).coming_days(2) == coming


def test_months_are_no_holes(tmp_path: Path) -> None:
    days = ["2020-01-01", "2020-02-01", "2020-03-01", "2020-04-01"]
    assert read(tmp_path, "month,a,b,c\n" + "".join(f"{day},1,2,3\n" for day in days)).days == tuple(days)


BAD_SERIES = {
    "day,a,b,c\n": "has column names but no rows",
    "day\n1\n": "has one column",
    "day,a,,c\n1,2,3,4\n": "column 3 has no name",
    "day,a,b,c\n1,2,x,4\n": r"line 2, column 'b' is 'x', which is not a finite number",
    "day,a,b,c\n1,2,inf,4\n": "not a finite number",
    "day,a,b,c\n1,2,3,4\n1,2,3,4\n": "line 3: the day '1' is that of line 2 as well",
    "day,a,b,c\n,2,3,4\n": "line 2: the day is empty",
    "day,a,b,c\n2,2,3,4\n1,2,3,4\n": "line 3: 1 comes before the day above it",
    "day,a,b,c\n1,2,3,4\n2,2,3,4\n4,2,3,4\n": "line 4: a day before 4 is left out",
    "day,a,b,c\n2020-03-01,2,3,4\n2020-03-02,2,3,4\n2020-03-09,2,3,4\n": "a day before 2020-03-09 is left out",
    "day,a,b,a\n1,2,3,4\n": "more than one column named 'a'",
    "day,a,b,c\n1,2,3\n": "line 2: 3 cells where the header has 4",
    "": "is empty",
}
BAD_EDGES = {
    "source,target\n": "has column names but no rows",
    "from,to\na,b\n": "no column 'source'",
    "source,Target\na,b\n": r"no column 'target' \(did you mean 'Target'\?\)",
    "source,target,colour\na,b,red\n": "a column 'colour', which nothing reads",
    "source,target,\na,b,\n": "a column without a name",
    "source,target\na,B\n": r"line 2: series.csv has no region 'B' \(did you mean 'b'\?\)",
    "source,target,weight\na,b,-1\n": "line 2: the weight is '-1'",
    "source,target,weight\na,b,\n": "line 2: the weight is ''",
    "source,target,day\na,b,2020-03-05\n": "series.csv has no day '2020-03-05'",
}


@pytest.mark.parametrize("text", BAD_SERIES)
def test_series_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidFileError, match=BAD_SERIES[text]) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)
    assert "series.csv" in str(error.value)


@pytest.mark.parametrize("text", BAD_EDGES)
def test_edges_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidFileError, match=BAD_EDGES[text]) as error:
        read(tmp_path, edges=text)
    assert "\n" not in str(error.value)
    assert "edges.csv" in str(error.value)


@pytest.mark.parametrize("missing", ["series.csv", "edges.csv"])
def test_files_that_are_not_there(tmp_path: Path, missing: str) -> None:
    read(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(InvalidFileError, match=f"{missing} does not exist"):
        read_series(tmp_path / "series.csv", tmp_path / "edges.csv")
