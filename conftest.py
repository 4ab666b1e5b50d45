"""Runs the examples of the documentation: Python blocks and shell blocks, each document in a folder of its own."""

import csv
import os
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

# The tests are on all cores already: commands that start processes start one, unless they are asked for more.
os.environ.setdefault("CONDIFF_JOBS", "1")
# Nor do tests fetch a sentence model: those that need one name it.
os.environ.setdefault("CONDIFF_EMBEDDING", "tfidf")
# What a shell runs in the background is deaf to Ctrl-C, and so would be the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ShellParser(CodeBlockParser):
    """Runs a shell block line by line, with this environment's commands first."""

    language = "shell"

    def evaluate(self, example):
        for line in example.parsed.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            code = run_condiff(words) if words[:1] == ["condiff"] else run_shell(line)
            assert code == 0, f"{line} ended with {code}"


def run_shell(line):
    """Any other command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(["bash", "-euc", line], env={**os.environ, "PATH": path}, check=False).returncode


def run_condiff(words):
    """The command as its script calls it, in this process: most examples take less time than a start does."""
    from condiff.cli.app import main

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("default", category=UserWarning)
        patch.setattr(sys, "argv", words)
        try:
            main()
        except SystemExit as stop:
            return stop.code or 0
    return 0


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
    for name in ("elements.csv", "tickets.csv"):
        shutil.copy(Path(__file__).parent / "docs" / "tutorials" / name, folder)
    os.chdir(folder)
    yield
    os.chdir(before)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), ShellParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/tutorials/*.md"],
    fixtures=["own_folder"],
).pytest()
