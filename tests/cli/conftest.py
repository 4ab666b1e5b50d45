"""How the tests of the commands run them, and the tables that they run on."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from condiff.readers.node import NodeDataset, undirected
from condiff.readers.npz_graph import save_npz_graph


@dataclass(frozen=True)
class Result:
    """What a user sees of a command."""

    code: int
    out: str
    err: str

    def assert_failed(self, *parts: str) -> None:
        """Exactly one line that names the error, on standard error, and the exit code 2."""
        lines = self.err.splitlines()
        assert self.code == 2
        assert self.out == ""
        assert len(lines) == 1, self.err
        assert lines[0].startswith("condiff: error: ")
        for part in parts:
            assert part in lines[0]


Run = Callable[..., Result]


@pytest.fixture
def condiff(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The entry point of the ``condiff`` script, called as the script calls it, in this process to save its start."""
    from condiff.cli.app import main

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["condiff", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr("condiff.cli.output._BEAT", 1e6)  # a slow machine reports its progress; that is no error
        capsys.readouterr()
        code: object = 0
        with warnings.catch_warnings():
            warnings.filterwarnings("default", category=UserWarning)
            try:
                main()
            except SystemExit as stop:
                code = stop.code
        seen = capsys.readouterr()
        return Result(int(str(code or 0)), seen.out, seen.err)

    return run


@pytest.fixture
def script() -> Run:
    """The entry point in a process of its own, with nothing of the tests around it."""

    def run(*arguments: object) -> Result:
        command = [sys.executable, "-c", "from condiff.cli.app import main; main()", *map(str, arguments)]
        environment = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": ""}
        found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
        return Result(found.returncode, found.stdout, found.stderr)

    return run


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def flower_rows(labels: int = 21) -> list[dict[str, object]]:
    """Iris with ids, a category, holes, and all but a few species hidden."""
    iris = load_iris()
    order = np.random.default_rng(0).permutation(150)
    rows: list[dict[str, object]] = []
    for number, flower in enumerate(order):
        sepal_length, sepal_width, petal_length, petal_width = iris.data[flower]
        rows.append(
            {
                "id": f"f{flower:03d}",
                "sepal_length": sepal_length,
                "sepal_width": "" if number % 10 == 3 else sepal_width,
                "petal_length": petal_length,
                "petal_width": petal_width,
                "size": "large" if petal_length > 4.5 else "small",
                "species": iris.target_names[iris.target[flower]] if number < labels else "",
            }
        )
    return rows


def species_of(ids: list[str]) -> list[str]:
    iris = load_iris()
    return [str(iris.target_names[iris.target[int(name[1:])]]) for name in ids]


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "flowers.csv", flower_rows())


@pytest.fixture
def club(tmp_path: Path) -> Path:
    """Zachary's karate club as a folder with nodes and edges, the two leaders labelled, and the truth beside it."""
    import networkx as nx

    graph = nx.karate_club_graph()
    folder = tmp_path / "club"
    folder.mkdir()
    side = {node: graph.nodes[node]["club"] for node in graph}
    rows: list[dict[str, object]] = [
        {"id": node, "label": side[node] if node in (0, 33) else "", "friends": graph.degree(node)} for node in graph
    ]
    write_rows(folder / "nodes.csv", rows)
    write_rows(folder / "edges.csv", [{"source": a, "target": b} for a, b in graph.edges])
    write_rows(folder / "truth.csv", [{"id": node, "side": side[node]} for node in graph])
    return folder


@pytest.fixture(scope="session")
def village(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two communities of 30 nodes with words of their own, in the common benchmark format."""
    generator = np.random.default_rng(0)
    classes = np.repeat([0, 1], 30)
    near = np.where(classes[:, None] == classes[None, :], 0.2, 0.01)
    edges = sp.csr_array((generator.random((60, 60)) < near).astype(float))
    ring = sp.csr_array((np.ones(60), (np.arange(60), (np.arange(60) + 1) % 60)), shape=(60, 60))
    words = (generator.random((60, 12)) < 0.3).astype(float)
    words[np.arange(60), classes] = 1.0
    path = tmp_path_factory.mktemp("graph") / "village.npz"
    save_npz_graph(NodeDataset("village", undirected(edges.maximum(ring)), sp.csr_array(words), classes), path)
    return path
