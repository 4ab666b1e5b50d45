"""Values, graphs, options and places that nobody should give: each is refused in one line, or used."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.robustness.campaigns import LONGEST, Campaign, Finding, quiet, refused

from condiff.errors import CondiffError


def _hostile_csr(**parts: Any) -> Any:
    matrix = sp.csr_array((4, 4))
    good = {"indptr": [0, 1, 2, 3, 4], "indices": [1, 0, 3, 2], "data": [1.0, 1.0, 1.0, 1.0]}
    for name, values in (good | parts).items():
        setattr(matrix, name, np.array(values))
    return matrix


class Cyclic(list):  # type: ignore[type-arg]
    """A list that holds itself."""

    def __init__(self) -> None:
        super().__init__([self])


def features() -> dict[str, Any]:
    """Things instead of twelve points."""
    good = np.random.default_rng(0).normal(size=(12, 3))
    return {
        "good": good,
        "infinite": np.where(good > 1, np.inf, good),
        "nan everywhere": np.full((12, 3), np.nan),
        "complex": good + 1j,
        "one dimension": good[:, 0],
        "three dimensions": good[None],
        "no rows": good[:0],
        "no columns": good[:, :0],
        "huge": good * 1e308,
        "tiny": good * 1e-320,
        "whole numbers": (good * 1e18).astype(np.int64),
        "bytes": np.full((12, 3), b"x"),
        "objects": np.full((12, 3), object()),
        "lists of lists": [[1, [2]], [3]],
        "cyclic": Cyclic(),
        "words": np.full((12, 3), "x"),
        "long words": np.full((12, 3), "x" * 100_000, dtype=object),
        "dates": np.full((12, 3), np.datetime64("NaT")),
        "constant": np.ones((12, 3)),
        "truths": good > 0,
        "masked": np.ma.masked_array(good, good > 0),
        "half precision": good.astype(np.float16),
        "long precision": good.astype(np.longdouble),
        "not contiguous": np.asfortranarray(good)[::-1],
        "read-only": np.broadcast_to(good[:1], (12, 3)),
        "none": None,
        "a number": 3.0,
        "a word": "x.csv",
        "a dict": {"a": [1] * 12, "b": ["x"] * 12},
        "uneven dict": {"a": [1], "b": [1, 2]},
        "sparse": sp.csr_array(good),
        "sparse out of range": _hostile_csr(indices=[1, 0, 3, 10**6]),
        "sparse backwards": _hostile_csr(indptr=[0, 9, 2, 3, 4]),
        "a generator": (row for row in good),
        "a set": {1, 2},
    }


def targets() -> dict[str, Any]:
    """Things instead of twelve labels."""
    return {
        "good": np.array([0, 1] * 6),
        "one class": np.zeros(12, int),
        "none labelled": np.full(12, -1),
        "too short": [0, 1],
        "infinite": np.full(12, np.inf),
        "mixed": [0, "a"] * 6,
        "dates": np.full(12, np.datetime64("2024-01-01")),
        "two columns": np.zeros((12, 2), int),
        "complex": np.full(12, 1j),
        "none": None,
        "fractions": np.linspace(0, 1, 12),
        "large": np.array([10**18, -(10**18)] * 6),
        "objects": [object()] * 12,
        "nested": [[0], [1]] * 6,
        "all different": [f"c{i}" for i in range(12)],
        "halves of characters": ["\ud800", "b"] * 6,
    }


def graphs() -> dict[str, Any]:
    """Things instead of a graph of twelve nodes."""
    ring = np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1)
    return {
        "good": ring,
        "directed": np.roll(np.eye(12), 1, axis=1),
        "negative": -ring,
        "nan": ring * np.nan,
        "infinite": np.where(ring > 0, np.inf, 0),
        "not square": ring[:5],
        "empty": ring[:0, :0],
        "no edges": ring * 0,
        "words": ring.astype(str),
        "edges out of range": np.array([[0, 99], [1, 2]]),
        "negative edges": np.array([[0, -1, 2], [1, 2, 3]]),
        "sparse out of range": _hostile_csr(indices=[1, 0, 3, 2**30]),
        "sparse negative": _hostile_csr(indices=[1, 0, -3, 2]),
        "sparse pointers": _hostile_csr(indptr=[0, 1, 2, 3, 2**30]),
        "sparse short": _hostile_csr(data=[1.0]),
        "sparse floats": _hostile_csr(indices=[1.0, 0.0, 3.0, 2.0]),
        "huge weights": ring * 1e308,
        "tiny weights": ring * 1e-320,
        "a word": "graph.npz",
        "none": None,
        "a number": 3,
        "a list": [1, 2, 3],
        "three dimensions": ring[None],
    }


SETTINGS: list[tuple[str, Any]] = [
    (name, value)
    for name in ("layers", "strength", "n_neighbors", "width", "epochs", "folds", "learning_rate", "random_state")
    for value in (0, -1, 1.5, float("nan"), float("inf"), None, "x", [], 10**30, True)
    # So many layers or epochs are a wish that would be granted, if never to the end.
    if value != 10**30 or name not in ("layers", "epochs", "width")
]


class Inputs(Campaign):
    """Every combination that is listed, once."""

    name, group = "input", "bad inputs"

    def prepare(self, folder: Path) -> None:
        from condiff.cli import app

        self.folder, self.main = folder, app.main
        (folder / "t.csv").write_text("a,b,kind\n" + "".join(f"{i},{i % 5},{'xy'[i % 2]}\n" for i in range(20)))
        (folder / "empty.csv").write_text("")
        (folder / "folder.csv").mkdir()
        (folder / "bad\nname.csv").write_text("a\n")
        (folder / "loop.csv").symlink_to(folder / "loop.csv")
        (folder / "secret.csv").write_text("a,b\n1,2\n")
        os.mkfifo(folder / "pipe.csv")
        self.cases = [*self._in_python(), *self._at_the_command_line()]

    def __len__(self) -> int:
        return len(self.cases)

    def run(self, number: int, folder: Path) -> str:
        case = self.cases[number % len(self.cases)]
        with quiet():
            return str(case(folder))

    def _in_python(self) -> list[Any]:
        from condiff import COINClassifier, COINRegressor, Graph, PanelForecaster, certify

        with quiet():
            X, y = features(), targets()
        good = np.random.default_rng(0).normal(size=(12, 3))
        fast: dict[str, Any] = {"epochs": 2, "n_inits": 1}
        found: list[Any] = []
        for estimator, name in itertools.product((COINClassifier, COINRegressor), X):
            found.append(lambda _, e=estimator, n=name: _python(lambda: e(**fast).fit(features()[n], y["good"])))
        for estimator, name in itertools.product((COINClassifier, COINRegressor), y):
            found.append(lambda _, e=estimator, n=name: _python(lambda: e(**fast).fit(good, y[n])))
        for name in graphs():
            found += [
                lambda _, n=name: _python(lambda: COINClassifier(**fast).fit(good, y["good"], adjacency=graphs()[n])),
                lambda _, n=name: _python(lambda: Graph.of(graphs()[n]).laplacian()),
                lambda _, n=name: _python(lambda: certify(graphs()[n])),
                lambda _, n=name: _python(lambda: PanelForecaster(epochs=1, lags=2).fit(np.ones((9, 12)), graphs()[n])),
            ]
        for name, value in SETTINGS:
            found.append(
                lambda _, n=name, v=value: _python(lambda: COINClassifier(**(fast | {n: v})).fit(good, y["good"]))
            )
        fitted = COINClassifier(**fast).fit(good, y["good"])
        for name in X:
            found.append(lambda _, n=name: _python(lambda: fitted.predict(features()[n])))
        for name in ("good", "infinite", "complex", "words", "one dimension", "nan everywhere", "none"):
            found.append(
                lambda _, n=name: _python(lambda: PanelForecaster(epochs=1, lags=2).fit(X[n], np.ones((3, 3))))
            )
        return found

    def _at_the_command_line(self) -> list[Any]:
        f = self.folder
        tables = ["t.csv", "empty.csv", "folder.csv", "bad\nname.csv", "loop.csv", "none.csv", "t.xyz", "."]
        found: list[Any] = []
        for name in tables:
            for target in ("kind", "nothing", "", "a\x1b[2J", "x" * 10_000):
                words = ["fit", f / name, "--target", target, "--out", "{}/model"]
                found.append(lambda folder, w=words: self._command(w, folder))
            found += [
                lambda folder, n=name: self._command(["predict", f / n, f / "t.csv", "--out", "{}/a.csv"], folder),
                lambda folder, n=name: self._command(["certify", f / n], folder),
                lambda folder, n=name: self._command(["report", f / n], folder),
                lambda folder, n=name: self._command(
                    ["forecast", f / n, "--edges", f / "t.csv", "--out", "{}/o.csv"], folder
                ),
                lambda folder, n=name: self._command(
                    ["fewshot", f / n, "--labels", f / n, "--out", "{}/o.csv"], folder
                ),
                lambda folder, n=name: self._command(["reproduce", "node", f / n, "--out", "{}/o"], folder),
            ]
        places = ["/proc/model", "/dev/full/model", "/sys/model", "{}/t.csv/model", "{}/" + "x" * 300, "{}/a\x00b", "/"]
        for place in places:
            found.append(
                lambda folder, p=place: self._command(["fit", f / "t.csv", "--target", "kind", "--out", p], folder)
            )
        commands = [
            *(["fit"], ["--colour"], ["fit", "--layers", "9" * 5000], ["nothing"], ["data", "fetch", "../x"]),
            *(["data", "verify", "\x1b]0;x"], ["theory", "axioms", "none"], ["ablate", "none", "--layers", "a"]),
        ]
        for words in commands:
            found.append(lambda folder, w=words: self._command(w, folder))
        return found

    def _command(self, words: list[Any], folder: Path) -> str:
        """Run a command; it ends with 0, or with 2 and one line, and leaves nothing behind where it fails."""
        before = sorted(folder.iterdir())
        sys.argv = ["condiff", *(str(word).replace("{}", str(folder)) for word in words)]
        code: Any = 0
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                self.main()
            except SystemExit as stop:
                code = stop.code
        lines = [line for line in said.getvalue().splitlines() if line.startswith("condiff: error:")]
        if code not in (0, None):
            if code != 2 or len(lines) != 1 or len(lines[0]) > LONGEST + 50 or not lines[0].isprintable():
                raise Finding(f"ended with {code} and {said.getvalue()[:300]!r}")
            if sorted(folder.iterdir()) != before:
                raise Finding(f"left {sorted(folder.iterdir())}")
            return "refused"
        return "read"


def _python(call: Any) -> str:
    """Call something; it may refuse with our errors or with scikit-learn's ValueError and TypeError, in a few lines."""
    try:
        call()
    except CondiffError as error:
        return refused(error)
    except (ValueError, TypeError) as error:
        if len(str(error)) > 3 * LONGEST:
            raise Finding(f"a message of {len(str(error))} characters") from error
        return "refused"
    return "read"
