from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run, flower_rows, read_rows, species_of, write_rows

from condiff import COINClassifier, COINRegressor
from condiff.reproduce import robustness, scale_space


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of thirty rows and the model that the command line made of the whole one."""
    from typer.testing import CliRunner

    from condiff.cli.app import app

    folder = tmp_path_factory.mktemp("flowers")
    write_rows(folder / "flowers.csv", flower_rows())
    write_rows(folder / "some.csv", flower_rows()[:30])
    arguments = ["fit", str(folder / "flowers.csv"), "--target", "species", "--out", str(folder / "model")]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    return folder


def test_every_row_gets_an_answer_and_a_radius(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "radii.csv"
    result = condiff("theory", "smooth", fitted / "model", fitted / "some.csv", "--samples", 200, "--out", out)
    assert (result.code, result.err) == (0, "")
    rows = read_rows(out)
    assert list(rows[0]) == ["id", "label", "radius", "abstained"]
    assert [row["id"] for row in rows] == [row["id"] for row in flower_rows()[:30]]
    kept = [row for row in rows if row["abstained"] == "0"]
    truth = species_of([row["id"] for row in kept])
    assert np.mean([row["label"] == kind for row, kind in zip(kept, truth, strict=True)]) > 0.85
    assert all(float(row["radius"]) > 0 for row in kept)
    assert all(row["radius"] == "0.0" for row in rows if row["abstained"] == "1")
    assert f"30 rows: {len(kept)} certified" in result.out
    assert "each certificate holds with a probability of 0.999" in result.out
    assert f"written to {out}" in result.out


def test_json_is_the_rows_and_the_noise_scales_the_radius(condiff: Run, fitted: Path) -> None:
    largest = []
    for noise in (0.1, 0.3):
        options = ["--noise", noise, "--samples", 100, "--alpha", 0.01, "--json"]
        result = condiff("theory", "smooth", fitted / "model", fitted / "some.csv", *options)
        assert result.err == ""
        rows = json.loads(result.out)
        assert [set(row) for row in rows] == [{"id", "label", "radius", "abstained"}] * 30
        largest.append(max(row["radius"] for row in rows))
    assert largest[1] == pytest.approx(3 * largest[0], rel=1e-4)  # both where all votes agree


def test_together_asks_more_and_the_rows_are_shown(condiff: Run, fitted: Path) -> None:
    found = {}
    for option in ([], ["--together"]):
        result = condiff("theory", "smooth", fitted / "model", fitted / "some.csv", "--samples", 60, *option)
        found[bool(option)] = float(result.out.split("largest ")[1].split(";")[0])
        assert "and 20 more: --out FILE.csv writes them all" in result.out
        assert flower_rows()[0]["id"] in result.out
    assert "all certificates together hold" in result.out
    assert found[True] < found[False]


def test_the_digits_have_curves_and_a_picture(condiff: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robustness, "METHODS", {"network": (0, False), "COIN": ("auto", False)})
    options = ["--points", 20, "--samples", 60, "--alpha", 0.01, "--noise", 0.3, "--out", tmp_path / "found"]
    result = condiff("theory", "smooth", "digits", *options)
    assert result.code == 0
    assert "Certified accuracy (%) of 20 digits at radius r, noise 0.3" in result.out
    content = json.loads((tmp_path / "found" / "certified.json").read_text())
    assert [row["method"] for row in content["curves"]] == ["network", "COIN"]
    assert content["made"]["command"].startswith("condiff theory smooth digits")
    assert (tmp_path / "found" / "certified.png").read_bytes().startswith(b"\x89PNG")
    again = condiff("theory", "smooth", "digits", *options[:-2], "--json")
    assert json.loads(again.out) == content["curves"]


def test_figures_are_written(condiff: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from condiff.reproduce.figures import theory

    # What takes most of the time.
    monkeypatch.setattr(theory.flow_animation, "__defaults__", (3,))
    monkeypatch.setattr(scale_space, "_EPOCHS", 5)
    result = condiff("theory", "figures", "--out", tmp_path / "pictures", "--json")
    assert result.code == 0
    rows = json.loads(result.out)
    assert [Path(row["out"]).name for row in rows] == ["three-times.png", "scale-space.png", "flow.gif"]
    for row in rows:
        written = Path(row["out"]).read_bytes()
        assert len(written) == row["bytes"]
        assert written[:4] in (b"\x89PNG", b"GIF8")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["model"], ["give a table to certify beside the model model"]),
        (["model", "some.csv", "--noise", "0"], ["--noise must be a positive number"]),
        (["model", "some.csv", "--noise", "nan"], ["--noise must be a positive number"]),
        (["model", "some.csv", "--alpha", "0.7"], ["--alpha must be above 0"]),
        (["model", "some.csv", "--out", "radii.txt"], ["--out must end in .csv"]),
        (["model", "missing.csv"], ["missing.csv does not exist"]),
        (["nowhere", "some.csv"], ["nowhere is not a condiff model"]),
        (["python", "some.csv"], ["reads a matrix of numbers without names"]),
        (["numbers", "some.csv"], ["COINRegressor: a certificate is about classes"]),
        (["digits", "--together"], ["--together goes with a model"]),
        (["digits", "--out", "some.csv"], ["must be a folder"]),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(
    condiff: Run, fitted: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    if not (fitted / "python").exists():
        COINClassifier(epochs=2, n_inits=1, folds=0).fit(X, [0, 1] * 10).save(fitted / "python")
        COINRegressor(epochs=2, n_inits=1, folds=0).fit(X, X[:, 0]).save(fitted / "numbers")
    monkeypatch.chdir(fitted)
    before = sorted(fitted.rglob("*"))
    condiff("theory", "smooth", *arguments).assert_failed(*parts)
    assert sorted(fitted.rglob("*")) == before
