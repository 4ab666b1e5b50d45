"""A short version of ``make torture``: some cases of every campaign, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.robustness import torture
from tests.robustness.campaigns import Data, Finding, Models, refused
from tests.robustness.inputs import Inputs
from tests.robustness.kills import Kills, in_child
from tests.robustness.labels import Labels
from tests.robustness.worker import outcome

from condiff.errors import InvalidFileError

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("openpyxl")

# One case of every kind of file, and a few more of the quick ones.
SHORT: dict[Any, list[int]] = {
    Models: list(range(60)),
    Data: list(range(114)),
    Kills: list(range(16)),
    Inputs: list(range(0, 440, 11)),
    Labels: list(range(40)),
}


@pytest.mark.parametrize("kind", SHORT, ids=lambda kind: kind.name)
def test_nothing_is_found(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.argv", ["condiff"])
    campaign = kind()
    (tmp_path / "made").mkdir()
    campaign.prepare(tmp_path / "made")
    found = {number: outcome(campaign, number, tmp_path / "case") for number in SHORT[kind]}
    findings = {number: each for number, each in found.items() if each["outcome"] == "finding"}
    assert findings == {}
    seen = {each["outcome"] for each in found.values()}
    assert len(seen) > 1, "all cases ended alike: the campaign tells nothing"


def test_an_error_of_others_or_a_long_one_is_a_finding() -> None:
    assert refused(InvalidFileError("x is damaged: write it again")) == "refused"
    with pytest.raises(KeyError):
        refused(KeyError("x"))
    with pytest.raises(Finding, match="several lines"):
        refused(InvalidFileError("two\nlines"))


def test_a_child_that_fails_is_a_finding() -> None:
    def fail() -> None:
        raise ValueError

    assert in_child(lambda: None) is None
    with pytest.raises(Finding, match="ended with 1"):
        in_child(fail)


def test_a_campaign_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []

    def work(worker: torture.Worker) -> None:
        tried.append((worker.name, worker.next))
        worker.counts.update(read=worker.stop - worker.next)
        worker.next = worker.stop

    monkeypatch.setattr(torture.Worker, "work", work)
    monkeypatch.setattr(torture, "CHUNK", 100)
    wanted = {"model": 250, "data": 100}
    assert torture.torture(tmp_path, 1, 0.0, wanted) == {}
    first = torture.torture(tmp_path, 1, 1.0, {"model": 100})
    found = torture.torture(tmp_path, 2, 1.0, wanted)
    assert sorted(tried) == [("data", 0), ("model", 0), ("model", 100), ("model", 200)]
    assert (first["model"]["cases"], found["model"]["cases"], found["data"]["cases"]) == (100, 250, 100)
    assert torture.torture(tmp_path, 1, 1.0, wanted, again=True) == found
    assert len(tried) == 4
    cases = json.loads((tmp_path / "cases.json").read_text())
    cases["model-100"]["findings"] = [{"case": 101, "outcome": "crash", "what": "x", "where": "y"}]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    assert "- model 101: crash, x (y)" in torture.written(tmp_path, torture.torture(tmp_path, 1, 1.0, wanted))
    assert torture.torture(tmp_path, 1, 1.0, wanted, again=True) == found
    assert tried[4:] == [("model", 100)]
    assert "| 250 | model files | 250 | 0 |" in torture.written(tmp_path, found)
    assert json.loads((tmp_path / "counts.json").read_text()) == found


@pytest.mark.slow
def test_a_worker_that_dies_costs_one_case(tmp_path: Path) -> None:
    worker = torture.Worker("input", 0, 3)
    worker.work()
    assert worker.counts.total() == 3
