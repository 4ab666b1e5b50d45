"""The paper's applications as a user types them, on the real data and in seconds."""

import json

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


def test_what_means_nothing_for_prostate_is_refused(condiff, tmp_path):
    out = tmp_path / "none"
    condiff("reproduce", "prostate", "--missing", 0.5, "--out", out).assert_failed("--missing", "prostate")
    assert not out.exists()
