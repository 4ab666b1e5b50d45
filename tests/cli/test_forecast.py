"""``condiff forecast`` as a user types it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run, read_rows

from condiff import load

QUICK = ["--inits", 1, "--folds", 4, "--lags", 4]
NAMES = [f"town {place}" for place in range(14)]


@pytest.fixture
def towns(tmp_path: Path) -> Path:
    """Forty days of fourteen towns around a ring, a third of the cells empty."""
    random = np.random.default_rng(0)
    day, town = np.arange(40)[:, None], np.arange(14)
    values = 60 + 5 * town + 20 * np.sin(2 * np.pi * (day / 12 - town / 14)) + random.normal(size=(40, 14))
    start = datetime.date(2020, 3, 1)
    lines = ["date," + ",".join(NAMES)]
    for number, row in enumerate(values):
        cells = ["" if random.random() < 1 / 3 else f"{value:.2f}" for value in row]
        lines.append(f"{start + datetime.timedelta(number)},{','.join(cells)}")
    (tmp_path / "cases.csv").write_text("\n".join(lines) + "\n")
    edges = [f"{name},{NAMES[(place + 1) % 14]}" for place, name in enumerate(NAMES)]
    (tmp_path / "roads.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    return tmp_path


def test_a_table_and_a_file_for_every_series(condiff: Run, towns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(towns)
    result = condiff("forecast", "cases.csv", "--edges", "roads.csv", "--horizon", 2, "--levels", "95,50", *QUICK)
    assert result.code == 0
    for part in (
        "14 series, 40 times (2020-03-01 to 2020-04-09), daily, season of 7 steps, 3",
        "28 weights, the same for all times",
        "the forecast is ",
        "Back-test: 6 forecasts",  # for four, and a third of the values missing
        "last value",
        "seasonal naive",
        "50 % intervals hold",
        "Forecast (12 of 14 series, the largest)",
        "2020-04-10",
        "2020-04-11",
        "50 %",
        "town 13",
        "written to forecast.csv",
    ):
        assert part in result.out, part
    rows = read_rows(towns / "forecast.csv")
    assert [row["unique_id"] for row in rows] == [name for name in NAMES for _ in range(2)]
    assert [row["ds"] for row in rows] == ["2020-04-10", "2020-04-11"] * 14
    for row in rows:
        ends = [float(row[name]) for name in ("lo-95", "lo-50", "forecast", "hi-50", "hi-95")]
        assert ends == sorted(ends)


def test_positions_and_a_map(condiff: Run, towns: Path) -> None:
    lines = [f"{name},{place % 4},{place // 4}" for place, name in enumerate(NAMES)]
    (towns / "places.csv").write_text("town,x,y\n" + "\n".join(lines) + "\n")
    common = ["forecast", towns / "cases.csv", *QUICK, "--out", towns / "f.csv"]
    result = condiff(*common, "--positions", towns / "places.csv", "--map", towns / "map.svg")
    assert result.code == 0 and "neighbours by positions" in result.out
    assert (towns / "map.svg").read_text().count("town") >= 14
    for extra, message in (
        (["--neighbours", "name"], "--neighbours must be correlation or warping"),
        (["--map", towns / "map.txt"], "--map must end in .png or .svg or .pdf"),
        (["--positions", towns / "places.csv", "--static", towns / "places.csv"], "both say who is a neighbour"),
    ):
        result = condiff(*common, *extra)
        assert result.code == 2 and message in result.err


def test_json_is_one_list_and_agrees_with_the_file(condiff: Run, towns: Path) -> None:
    out = towns / "folder" / "answer.csv"
    arguments = ["forecast", towns / "cases.csv", "--edges", towns / "roads.csv", *QUICK, "--out", out, "--json"]
    result = condiff(*arguments, "--paths", 2)
    assert result.code == 0
    [summary] = json.loads(result.out)
    assert (summary["times"], summary["series"], summary["graphs"], summary["folds"]) == (40, 14, 1, 6)
    assert summary["backtest"][0]["method"] == "forecast"
    assert {"last value", "seasonal naive", "network"} <= {score["method"] for score in summary["backtest"]}
    assert sum(summary["shares"].values()) == pytest.approx(1)
    rows = read_rows(out)
    assert {"path-1", "path-2", "lo-80", "hi-95"} <= rows[0].keys()
    assert [float(row["forecast"]) for row in rows] == pytest.approx(
        [row["forecast"] for row in summary["forecast"]], abs=1e-6
    )


def test_long_tables_pictures_pages_and_models(condiff: Run, towns: Path) -> None:
    wide = read_rows(towns / "cases.csv")
    lines = [f"{name},{row['date']},{row[name]}" for name in NAMES for row in wide if row[name]]
    (towns / "long.csv").write_text("unique_id,ds,y\n" + "\n".join(lines) + "\n")
    made = [towns / name for name in ("fan.png", "page.html", "model", "f.csv")]
    options = [item for pair in zip(("--plot", "--report", "--model", "--out"), made, strict=True) for item in pair]
    result = condiff("forecast", towns / "long.csv", *QUICK, *options)
    assert result.code == 0
    assert "weights, neighbours by correlation" in result.out
    assert made[0].stat().st_size > 10_000
    page = made[1].read_text()
    assert "The rolling back-test" in page and "town 13" in page and page.count("<svg") >= 2
    again = load(made[2])
    assert again.names_ == NAMES and again.times_[:2] == ["2020-03-01", "2020-03-02"]
    assert condiff("report", made[2]).code == 0
    saved = (made[2] / "report.html").read_text()
    assert "The rolling back-test" in saved and "town 13" in saved and saved.count("<svg") == page.count("<svg")
    condiff("report", made[2], "--suggestions", towns / "s.csv").assert_failed("holds a PanelForecaster")
    rows = read_rows(made[3])
    np.testing.assert_allclose([float(row["forecast"]) for row in rows], again.predict()[0], atol=1e-5)


def test_static_features_and_covariates(condiff: Run, towns: Path) -> None:
    (towns / "places.csv").write_text("town,x\n" + "".join(f"{name},{n}\n" for n, name in enumerate(NAMES)))
    days = [datetime.date(2020, 3, 1) + datetime.timedelta(n) for n in range(41)]
    (towns / "known.csv").write_text("ds,weekend\n" + "".join(f"{day},{int(day.weekday() > 4)}\n" for day in days))
    result = condiff(
        *("forecast", towns / "cases.csv", "--static", towns / "places.csv", "--covariates", towns / "known.csv"),
        *(*QUICK, "--season", "none", "--out", towns / "f.csv"),
    )
    assert result.code == 0
    assert "season of" not in result.out
    assert len(read_rows(towns / "f.csv")) == 14


def test_a_graph_a_day(condiff: Run, towns: Path) -> None:
    days = [row["date"] for row in read_rows(towns / "cases.csv")]
    lines = [f"{name},{NAMES[place - 1]},{1 + place},{day}" for day in days for place, name in enumerate(NAMES)]
    (towns / "daily.csv").write_text("source,target,weight,day\n" + "\n".join(lines) + "\n")
    result = condiff(
        "forecast", towns / "cases.csv", "--edges", towns / "daily.csv", "--directed", *QUICK, "--out", towns / "f.csv"
    )
    assert result.code == 0
    assert "40 graphs of 14 to 14 weights" in result.out


def test_names_with_brackets_are_shown_as_they_are(condiff: Run, towns: Path) -> None:
    for name in ("cases.csv", "roads.csv"):
        text = (towns / name).read_text().replace("town 13", "[bold]town[/bold]")
        (towns / name).write_text(text)
    result = condiff("forecast", towns / "cases.csv", "--edges", towns / "roads.csv", *QUICK, "--out", towns / "f.csv")
    assert "[bold]town[/bold]" in result.out


def test_where_nothing_can_be_compared_there_are_no_error_bars(condiff: Run, towns: Path) -> None:
    lines = (towns / "cases.csv").read_text().splitlines()[:4]
    (towns / "cases.csv").write_text("\n".join(lines) + "\n")
    result = condiff("forecast", towns / "cases.csv", *QUICK, "--out", towns / "f.csv")
    assert result.code == 0
    assert "there are no error bars" in result.out
    assert "too few days to back-test a horizon of 1: the forecast is the last value" in result.out
    rows = read_rows(towns / "f.csv")
    assert all(row["forecast"] and not row["lo-80"] and not row["hi-80"] for row in rows)


def test_what_a_user_may_not_have_meant_is_said(condiff: Run, tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(day) for day in range(8)]
    rows = [f"{name},{day},{'' if name == 'c' else day.day},1" for name in "abc" for day in days]
    (tmp_path / "long.csv").write_text("unique_id,ds,y,price\n" + "\n".join(rows) + "\n")
    result = condiff("forecast", tmp_path / "long.csv", "--horizon", 2, *QUICK, "--out", tmp_path / "f.csv")
    assert result.code == 0
    for part in (
        "note: not read: 'price'; what is known of the coming times as well is for --covariates",
        "note: without any value, so that the others stand for them: 'c'",
        "Back-test: a forecast made from",
        "the intervals are those of one forecast",
    ):
        assert part in result.out, part


def test_holes_are_filled_and_known_values_stay(condiff: Run, towns: Path) -> None:
    known = read_rows(towns / "cases.csv")
    paths = ["--out", towns / "filled.csv", "--plot", towns / "filled.png"]
    result = condiff("impute", towns / "cases.csv", "--edges", towns / "roads.csv", *paths)
    assert (towns / "filled.png").stat().st_size > 10_000
    assert result.code == 0
    assert "On known values, hidden" in result.out and "straight line" in result.out
    rows = read_rows(towns / "filled.csv")
    assert len(rows) == 40 * 14
    before = {(name, row["date"]): row[name] for row in known for name in NAMES}
    for row in rows:
        cell = before[row["unique_id"], row["ds"]]
        assert row["filled"] == str(int(not cell))
        assert float(row["lo-80"]) <= float(row["y"]) + 1e-6 and (not cell or float(cell) == float(row["y"]))
    arguments = ["impute", towns / "cases.csv", "--wide", "--out", towns / "wide.csv", "--json"]
    [summary] = json.loads(condiff(*arguments).out)
    assert summary["filled"] == sum(row["filled"] == "1" for row in rows)
    assert list(read_rows(towns / "wide.csv")[0]) == ["ds", *NAMES]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["nowhere.csv"], ["nowhere.csv does not exist"]),
        (["cases.csv", "--edges", "nowhere.csv"], ["nowhere.csv does not exist"]),
        (["cases.csv", "--edges", "cases.csv"], ["no column 'source'"]),
        (["roads.csv", "--edges", "roads.csv"], ["line 2, column 'target' is 'town 1'"]),
        (["cases.csv", "--levels", "80,150"], ["--levels are percents above 0 and below 100"]),
        (["cases.csv", "--season", "weekly"], ["--season must be auto, none or numbers"]),
        (["cases.csv", "--directed"], ["--directed is about edges"]),
        (["cases.csv", "--edges", "roads.csv", "--static", "roads.csv"], ["give one of them"]),
        (["cases.csv", "--plot", "fan.gif"], ["--plot must end in .png"]),
        (["cases.csv", "--model", "cases.csv"], ["not a condiff model"]),
        (["cases.csv", "--out", "answer.txt"], ["--out must end in .csv"]),
        (["cases.csv", "--out", "cases.csv"], ["is also an input, which would be lost"]),
        (["cases.csv", "--edges", "roads.csv", "--out", "./roads.csv"], ["is also an input, which would be lost"]),
    ],
    ids=lambda value: " ".join(value) if "." in value[0] and " " not in value[0] else "",
)
def test_errors_are_one_line_and_nothing_is_written(
    condiff: Run, towns: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    monkeypatch.chdir(towns)
    condiff("forecast", *arguments).assert_failed(*parts)
    assert sorted(path.name for path in towns.iterdir()) == ["cases.csv", "roads.csv"]


@pytest.mark.parametrize("command", ["forecast", "impute"])
def test_the_help_shows_examples(condiff: Run, command: str) -> None:
    result = condiff(command, "--help")
    assert result.code == 0
    assert f"condiff {command} cases.csv --edges borders.csv" in result.out
