from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidFileError
from condiff.readers.series import SeriesFile, read_covariates, read_positions, read_series, read_static

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


def test_long_tables_in_any_order_with_rows_left_out(tmp_path: Path) -> None:
    long = "ds,unique_id,note,y\n2020-03-01,b,x,5\n2020-02-28,a,,1\n2020-03-01,a,,3\n2020-03-02,b,,\n"
    found = read(tmp_path, long, "source,target\na,b\n")
    assert found.long and found.names == ("b", "a")
    assert found.days == ("2020-02-28", "2020-02-29", "2020-03-01", "2020-03-02")
    np.testing.assert_array_equal(found.values, [[np.nan, 1], [np.nan, np.nan], [5, 3], [np.nan, np.nan]])
    assert found.left_out == 1
    assert found.coming_days(1) == ["2020-03-03"]


def test_rows_that_are_left_out_or_out_of_order_are_no_trouble(tmp_path: Path) -> None:
    found = read(tmp_path, "day,a,b,c\n4,7,8,9\n1,1,2,3\n2,4,5,6\n")
    assert found.days == ("1", "2", "3", "4") and found.left_out == 1
    np.testing.assert_array_equal(found.values[:, 0], [1, 4, np.nan, 7])


def test_edges_are_optional(tmp_path: Path) -> None:
    read(tmp_path)
    assert read_series(tmp_path / "series.csv").weights == ()


def test_positions_on_a_plane_and_on_the_globe(tmp_path: Path) -> None:
    path = tmp_path / "places.csv"
    path.write_text("name,x,y\nb,3,4\na,1,2\n")
    found = read_positions(path, ["a", "b"])
    np.testing.assert_array_equal(found.points, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(found.drawn, found.points)
    # Two places at either side of the date line are near each other.
    path.write_text("name,Latitude,lon\na,0,179\nb,0,-179\nc,0,170\n")
    found = read_positions(path, ["a", "b", "c"])
    distance = np.linalg.norm(found.points[0] - found.points[1:], axis=1)
    assert distance[0] < distance[1] < 0.2
    np.testing.assert_allclose(found.drawn, [[179, 0], [-179, 0], [170, 0]])
    for text, message in (("name,x\na,1\n", "1 numbers per series"), ("name,lat,lon\na,120,3\n", "columns swapped")):
        path.write_text(text)
        with pytest.raises(InvalidFileError, match=message):
            read_positions(path, ["a"])


def test_static_features_and_covariates(tmp_path: Path) -> None:
    data = read(tmp_path)
    (tmp_path / "places.csv").write_text("name,lon,lat\nc,5,6\na,1,2\nb,3,4\nz,9,9\n")
    np.testing.assert_array_equal(read_static(tmp_path / "places.csv", data.names), [[1, 2], [3, 4], [5, 6]])
    (tmp_path / "kinds.csv").write_text("name,size,kind\na,1,shop\nb,2,mall\nc,3,shop\n")
    np.testing.assert_array_equal(read_static(tmp_path / "kinds.csv", data.names), [[1, 0, 1], [2, 1, 0], [3, 0, 1]])
    days = [*data.days, *data.coming_days(2)]
    (tmp_path / "known.csv").write_text("day,warm\n" + "".join(f"{day},{n}\n" for n, day in enumerate(days)))
    found = read_covariates(tmp_path / "known.csv", data, 2)
    np.testing.assert_array_equal(found[:, :, 0], np.arange(5)[:, None] * np.ones(3))
    lines = [f"{name},{day},{n}{place}" for n, day in enumerate(days) for place, name in enumerate("abc")]
    (tmp_path / "each.csv").write_text("unique_id,ds,price\n" + "\n".join(lines) + "\n")
    np.testing.assert_array_equal(read_covariates(tmp_path / "each.csv", data, 2)[1, :, 0], [10, 11, 12])
    with pytest.raises(InvalidFileError, match="no covariates of 'a' at 2020-03-04"):
        read_covariates(tmp_path / "known.csv", data, 3)
    for text, message in (
        ("name\na\n", "has one column"),
        ("name,x\na,1\n", "has no line for 'b'"),
        ("name,x\na,1\nb,\nc,few\n", "line 3, column 'x' is ''"),
    ):
        (tmp_path / "places.csv").write_text(text)
        with pytest.raises(InvalidFileError, match=message):
            read_static(tmp_path / "places.csv", data.names)
    for text, message in (("ds\n1\n", "has no covariate"), ("ds,unique_id,x\n2020-03-01,q,1\n", "no series 'q'")):
        (tmp_path / "known.csv").write_text(text)
        with pytest.raises(InvalidFileError, match=message):
            read_covariates(tmp_path / "known.csv", data, 1)


BAD_SERIES = {
    "day,a,b,c\n": "has column names but no rows",
    "day\n1\n": "has one column",
    "day,a,,c\n1,2,3,4\n": "column 3 has no name",
    "day,a,b,c\n1,2,x,4\n": r"line 2, column 'b' is 'x', which is not a finite number",
    "day,a,b,c\n1,2,inf,4\n": "not a finite number",
    "day,a,b,c\n1,2,3,4\n1,2,3,4\n": "line 3: the day '1' is that of line 2 as well",
    "day,a,b,c\n,2,3,4\n": "line 2: the day is empty",
    "day,a,b,c\n0,2,3,4\n500,2,3,4\n1000,2,3,4\n1001,2,3,4\n": "no regular step: 1001 does not fit the others",
    "id,date,sales\na,2020-01-01,3\n": "line 2, column 'date' is a time: if the table is long",
    "unique_id,ds,y\n": "has column names but no rows",
    "unique_id,ds,y\na,,3\n": "line 2: ds is empty",
    "unique_id,ds,y\na,1,3\na,1,4\n": "line 3: 'a' at '1' is on line 2 as well",
    "unique_id,ds,y\na,1,x\n": "line 2, column 'y' is 'x'",
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
    "source,target\na,B\n": r"line 2: series.csv has no series 'B' \(did you mean 'b'\?\)",
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
