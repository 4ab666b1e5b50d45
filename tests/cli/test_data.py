from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from condiff.cli.data import app
from condiff.errors import InvalidInputError
from condiff.reproduce.datasets.registry import DATASETS

runner = CliRunner()


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CONDIFF_DATA", raising=False)
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path))
    return tmp_path


def test_list_shows_every_data_set_and_where_it_is(data_root: Path) -> None:
    result = runner.invoke(app, ["list"])
    assert result.exit_code == 0
    for name in DATASETS:
        assert name in result.output
    assert f"CONDIFF_DATA is {data_root}" in result.output


def test_list_says_what_is_missing(empty_cache: Path) -> None:
    result = runner.invoke(app, ["list"])
    assert result.exit_code == 0
    rows = [line for line in result.output.splitlines() if line.split(" ")[0] in DATASETS]
    assert ["missing" in row for row in rows] == [True] * len(DATASETS)
    assert f"the cache is {empty_cache}" in result.output


def test_list_as_json_is_json_alone(empty_cache: Path) -> None:
    rows = json.loads(runner.invoke(app, ["list", "--json"]).stdout)
    assert [row["name"] for row in rows] == list(DATASETS)
    assert rows[0] | {"description": "", "origin": "", "licence": ""} == {
        "name": "cora",
        "files": 8,
        "bytes": 572444,
        "state": "missing",
        "folders": [],
        "description": "",
        "origin": "",
        "licence": "",
    }


def test_fetch_says_where_the_files_are(data_root: Path) -> None:
    result = runner.invoke(app, ["fetch", "cora", "covid"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"cora: 8 files in {data_root / 'planetoid'}",
        f"covid: 1 file in {data_root / 'covid'}",
    ]


def test_fetch_of_what_nobody_serves_is_one_line_and_exit_2(empty_cache: Path) -> None:
    result = runner.invoke(app, ["fetch", "omniglot", "cub"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert [line[:16] for line in result.stderr.splitlines()] == ["condiff: error: "] * 2
    assert "CONDIFF_DATA" in result.stderr


def test_verify_finds_the_real_data_whole(data_root: Path) -> None:
    result = runner.invoke(app, ["verify", "cora", "covid"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{name}: OK, in {data_root / folder}" for name, folder in (("cora", "planetoid"), ("covid", "covid"))
    ]


def test_verify_names_damaged_files_and_exits_with_2(empty_cache: Path) -> None:
    damaged = empty_cache / "cub" / "split_val.csv"
    damaged.parent.mkdir()
    damaged.write_text("edited")
    result = runner.invoke(app, ["verify"])
    assert result.exit_code == 2
    assert "cub: 1 damaged and 3 missing of 4 files" in result.stdout
    assert f"damaged: {damaged}" in result.stdout
    assert "cora: missing" in result.stdout


def test_missing_files_are_no_damage(empty_cache: Path) -> None:
    result = runner.invoke(app, ["verify"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{name}: missing" for name in DATASETS]


@pytest.mark.parametrize("command", ["fetch", "verify"])
def test_unknown_names_are_refused_before_any_work(empty_cache: Path, command: str) -> None:
    result = runner.invoke(app, [command, "cub", "pubmde"])
    assert isinstance(result.exception, InvalidInputError)
    assert str(result.exception).startswith("unknown data set 'pubmde' (did you mean 'pubmed'?): known are cora, ")
    assert result.output == ""


@pytest.mark.parametrize("arguments", [[], ["list"], ["fetch"], ["verify"]])
def test_help_teaches_with_an_example(arguments: list[str]) -> None:
    result = runner.invoke(app, [*arguments, "--help"])
    assert result.exit_code == 0
    assert ("Example: condiff data" if arguments else "CONDIFF_DATA") in result.output
