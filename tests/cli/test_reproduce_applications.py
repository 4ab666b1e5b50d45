"""The paper's applications as a user types them, on the real data and in seconds."""

import json

import pytest

PNG = b"\x89PNG"


def test_covid(condiff, data_root, tmp_path):
    done = condiff(
        "reproduce", "covid", "--method", "All-Zero,LastValue,COIN", "--splits", 1, "--inits", 1, "--jobs", 1,
        "--out", tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = {row["method"]: row for row in json.loads((tmp_path / "summary.json").read_text())}
    assert round(rows["All-Zero"]["mean"], 4) == rows["All-Zero"]["published"] == 0.8197
    assert rows["COIN"]["mean"] < rows["All-Zero"]["mean"] < rows["LastValue"]["mean"]
    for picture in ("intervals.png", "forecasts.png", "regions.png"):
        assert (tmp_path / picture).read_bytes().startswith(PNG)


def test_prostate(condiff, data_root, tmp_path):
    command = ("reproduce", "prostate", "--splits", 2, "--inits", 1, "--jobs", 1, "--out", tmp_path)
    done = condiff(*command, "--method", "LR,AdaBoost,COIN")
    assert done.code == 0, done.err
    assert "ROC-AUC" in done.out and "AUPRC" in done.out
    pairs = json.loads((tmp_path / "pairs.json").read_text())
    assert {(pair["reference"], pair["method"]) for pair in pairs} == {("COIN", "LR"), ("COIN", "AdaBoost")}
    assert all(pair["splits"] == 2 for pair in pairs)
    assert "| COIN against |" in (tmp_path / "pairs.md").read_text()
    for picture in ("accuracy.png", "roc_auc.png", "auprc.png", "curves.png", "genes.png"):
        assert (tmp_path / picture).read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("prostate", "--missing", 0.5), ["--missing is an option of covid, not of prostate"]),
        (("cora", "--missing", 0), ["--missing is an option of covid, not of node"]),
        (("node", "cora", "--episodic"), ["--episodic is an option of fewshot, not of node"]),
        (("cora", "--dataset", "cub"), ["--dataset is an option of fewshot, not of node"]),
        (("fewshot", "--inits", 3), ["--inits is an option of node, covid, prostate, not of fewshot"]),
        (("covid", "--missing", 0.99), ["--missing", "0.97"]),
        (("covid", "cora"), ["cora", "condiff reproduce covid --help"]),
        (("cora", "covid"), ["covid", "cora"]),
        (("node",), ["Missing argument 'GRAPH...'"]),
        (("covid", "--colour"), ["No such option: --colour"]),
    ],
    ids=str,
)
def test_what_does_not_belong_is_one_line(condiff, tmp_path, arguments, parts):
    out = tmp_path / "none"
    condiff("reproduce", *arguments, "--out", out).assert_failed(*parts)
    assert not out.exists()


def test_help_teaches(condiff):
    for name in ("node", "covid", "prostate", "fewshot"):
        shown = condiff("reproduce", name, "--help")
        assert shown.code == 0
        assert f"condiff reproduce {name}" in shown.out.replace("\n", " ")
        assert "--method" in shown.out and "--out" in shown.out
        assert ("--missing" in shown.out) == (name == "covid")
        assert ("--train-per-class" in shown.out) == (name == "node")
    everything = condiff("reproduce", "--help")
    assert all(name in everything.out for name in ("node", "covid", "prostate", "fewshot"))
