"""Runs the examples of the documentation: Python blocks and shell blocks, each document in a folder of its own."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

# The tests are on all cores already: commands that start processes start one, unless they are asked for more.
os.environ.setdefault("CONDIFF_JOBS", "1")


class ShellParser(CodeBlockParser):
    """Runs a shell block line by line with this environment's commands first."""

    language = "shell"

    def evaluate(self, example):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", example.parsed], capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        assert done.returncode == 0, f"{example.parsed}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory):
    """A folder with the tables that the examples speak of: 150 flowers, 20 of them with their species, and elements."""
    folder, before = tmp_path_factory.mktemp("docs"), Path.cwd()
    X, y = load_iris(return_X_y=True)
    names = ["setosa", "versicolor", "virginica"]
    with (folder / "flowers.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["flower_id", "sepal_length", "sepal_width", "petal_length", "petal_width", "species"])
        for number, (row, label) in enumerate(zip(X, y, strict=True)):
            writer.writerow([f"flower-{number}", *row, names[label] if number % 8 == 0 or number == 1 else ""])
    shutil.copy(Path(__file__).parent / "docs" / "tutorials" / "elements.csv", folder)
    os.chdir(folder)
    yield
    os.chdir(before)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), ShellParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/tutorials/*.md"],
    fixtures=["own_folder"],
).pytest()
