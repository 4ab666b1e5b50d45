"""``condiff forecast`` as a user types it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run, read_rows

QUICK = ["--inits", 1, "--folds", 2, "--lags", 4]
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


def test_a_table_and_a_file_for_every_region(condiff: Run, towns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(towns)
    result = condiff("forecast", "cases.csv", "--edges", "roads.csv", "--horizon", 2, *QUICK)
    assert result.code == 0
    assert "back-test: 2 of 2" in result.err
    for part in (
        "40 days (2020-03-01 to 2020-04-09), 14 regions, 3",
        "28 weights, the same for all days",
        "last 2 days",
        "last value",
        "mean of the last week",
        "Forecast (12 of 14 regions, the largest)",
        "2020-04-10",
        "2020-04-11",
        "80 %",
        "town 13",
        "written to forecast.csv",
    ):
        assert part in result.out, part
    rows = read_rows(towns / "forecast.csv")
    assert [row["region"] for row in rows] == NAMES * 2
    assert [row["day"] for row in rows] == ["2020-04-10"] * 14 + ["2020-04-11"] * 14
    for row in rows:
        assert float(row["low"]) <= float(row["forecast"]) <= float(row["high"])
        assert float(row["last_value_low"]) <= float(row["last_value"]) <= float(row["last_value_high"])


def test_json_is_one_list_and_agrees_with_the_file(condiff: Run, towns: Path) -> None:
    out = towns / "folder" / "answer.csv"
    arguments = ["forecast", towns / "cases.csv", "--edges", towns / "roads.csv", *QUICK, "--out", out, "--json"]
    result = condiff(*arguments)
    assert result.code == 0
    [summary] = json.loads(result.out)
    assert (summary["days"], summary["regions"], summary["graphs"], summary["folds"]) == (40, 14, 1, 2)
    assert [score["method"] for score in summary["backtest"]] == ["COIN", "last value", "mean of the last week"]
    assert all(score["rmse"] >= score["mae"] > 0 for score in summary["backtest"])
    rows = read_rows(out)
    assert [float(row["forecast"]) for row in rows] == pytest.approx(
        [row["forecast"] for row in summary["forecast"]], abs=1e-6
    )
    before = out.read_bytes()
    assert condiff(*arguments).code == 0
    assert out.read_bytes() == before
    assert condiff(*arguments, "--seed", 1).code == 0
    assert out.read_bytes() != before


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
    lines = (towns / "cases.csv").read_text().splitlines()
    gone = [",".join([line.split(",")[0], *[""] * 14]) for line in lines[-3:]]
    (towns / "cases.csv").write_text("\n".join([*lines[:-3], *gone]) + "\n")
    arguments = ["forecast", towns / "cases.csv", "--edges", towns / "roads.csv", *QUICK, "--out", towns / "f.csv"]
    result = condiff(*arguments)
    assert result.code == 0
    assert "there are no error bars" in result.out
    rows = read_rows(towns / "f.csv")
    assert all(row["forecast"] and not row["low"] and not row["high"] for row in rows)
    [summary] = json.loads(condiff(*arguments, "--json").out)
    assert summary["backtest"][0]["mae"] is None


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["nowhere.csv", "--edges", "roads.csv"], ["nowhere.csv does not exist"]),
        (["cases.csv", "--edges", "nowhere.csv"], ["nowhere.csv does not exist"]),
        (["cases.csv", "--edges", "cases.csv"], ["no column 'source'"]),
        (["roads.csv", "--edges", "roads.csv"], ["line 2, column 'target' is 'town 1'"]),
        (["cases.csv", "--edges", "roads.csv", "--coverage", "1.5"], ["--coverage must be above 0 and below 1"]),
        (["cases.csv", "--edges", "roads.csv", "--out", "answer.txt"], ["--out must end in .csv"]),
        (["cases.csv", "--edges", "roads.csv", "--out", "cases.csv"], ["is also an input, which would be lost"]),
        (["cases.csv", "--edges", "roads.csv", "--out", "./roads.csv"], ["is also an input, which would be lost"]),
        (["cases.csv", "--edges", "roads.csv", "--lags", "39"], ["needs at least 41 days", "there are 40 days"]),
    ],
    ids=lambda value: " ".join(value) if "--edges" in value else "",
)
def test_errors_are_one_line_and_nothing_is_written(
    condiff: Run, towns: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    monkeypatch.chdir(towns)
    condiff("forecast", *arguments).assert_failed(*parts)
    assert sorted(path.name for path in towns.iterdir()) == ["cases.csv", "roads.csv"]


def test_the_help_shows_an_example(condiff: Run) -> None:
    result = condiff("forecast", "--help")
    assert result.code == 0
    assert "Example: condiff forecast" in result.out
