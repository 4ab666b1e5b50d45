"""Texts with few labels: which labels, what a method may see, how it is judged, and one run of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.cli.conftest import condiff  # noqa: F401

from condiff.errors import InvalidInputError
from condiff.reproduce import protocol
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.baselines.text import METHODS, REGISTRY
from condiff.reproduce.datasets import texts as module
from condiff.reproduce.datasets.texts import Texts, load_texts
from condiff.reproduce.protocols import text
from condiff.reproduce.runs import Condition

TWO, UNEQUAL = Condition(labels=2, balanced=True), Condition(labels=2, balanced=False)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, text.Embedded]:
    """Three classes of forty rows of length one around three directions, with words of their own."""
    generator = np.random.default_rng(0)
    target = np.repeat([0, 1, 2], 40)
    x = np.eye(3)[target] @ generator.normal(size=(3, 40)) + 0.7 * generator.normal(size=(120, 40))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    words = sp.csr_array(np.abs(generator.normal(size=(120, 6))) * (1 + 9 * np.kron(np.eye(3)[target], [1, 1])))
    content = Texts(tuple(f"text {row}" for row in range(120)), target, ("a", "b", "c"))
    found = {name: text.Embedded(content, x, words) for name in ("banking77", "ag_news")}
    monkeypatch.setattr(text, "load", found.__getitem__)
    monkeypatch.setattr(protocol, "_latest", None)
    return found


def test_labels_and_sizes_of_classes() -> None:
    target = np.repeat(np.arange(8), 40)
    split = text.draw("x", target, TWO, 0)
    assert np.bincount(target[split.train]).tolist() == [2] * 8
    assert len(split.train) + len(split.test) == 320
    unequal = text.draw("x", target, Condition(labels=10, balanced=False), 0)
    sizes = np.bincount(target[np.concatenate([unequal.train, unequal.test])])
    assert sorted(sizes.tolist()) == [4, 4, 11, 11, 23, 23, 40, 40]  # as 70 : 200 : 400 : 700
    assert sorted(np.bincount(target[unequal.train]).tolist()) == [2, 2, 9, 9, 10, 10, 10, 10]
    large = text.draw("x", np.repeat([0, 1, 2, 3], 750), UNEQUAL, 1)
    assert len(large.train) + len(large.test) == 1370
    hashes = {text.draw(name, target, case, seed).hash for name in "xy" for case in (TWO, UNEQUAL) for seed in (0, 1)}
    assert len(hashes) == 8


def test_a_method_sees_the_texts_that_take_part_and_given_labels_alone(made_up: Any) -> None:
    split = text.draw("ag_news", made_up["ag_news"].content.target, UNEQUAL, 0)
    problem = text.Text().problem(protocol.Case("ag_news", UNEQUAL), 0, split)
    rows = np.sort(np.concatenate([split.train, split.test]))
    assert problem.x.shape == (len(rows), 40) and problem.words.shape == (len(rows), 6)
    np.testing.assert_array_equal(rows[problem.known], split.train)
    assert (problem.given[~np.isin(rows, split.train)] == -1).all()
    truth = made_up["ag_news"].content.target
    np.testing.assert_array_equal(problem.labels, truth[split.train])
    job = protocol.Job(text.Text(), protocol.Case("ag_news", UNEQUAL), "x", None, 0, split)
    right = text.Text().measure(job, Answers(np.eye(3)[truth[rows]], 0.1))
    assert right["accuracy"] == right["balanced_accuracy"] == 100.0


@pytest.mark.parametrize("name", [name for name in METHODS if name != "SetFit"])  # which needs texts that are some
def test_every_method_is_better_than_chance(made_up: Any, name: str) -> None:
    truth = made_up["ag_news"].content.target
    split = text.draw("ag_news", truth, Condition(labels=5, balanced=True), 0)
    problem = text.Text().problem(protocol.Case("ag_news", TWO), 0, split)
    method = REGISTRY.get(name)()
    first, again = method.solve(problem, 1).answers, method.solve(problem, 1).answers
    np.testing.assert_array_equal(first, again)
    assert (first.argmax(axis=1) == truth)[split.test].mean() > 0.6


def test_options() -> None:
    chosen = text.TextOptions(budget="1,5", balance="unbalanced", dataset="ag_news")
    assert chosen.conditions == [Condition(labels=1, balanced=False), Condition(labels=5, balanced=False)]
    assert chosen.datasets == ["ag_news"]
    for wrong in ({"budget": "0"}, {"budget": "x"}, {"dataset": "imdb"}, {"balance": "some"}, {"draws": 0}):
        with pytest.raises(InvalidInputError):
            text.TextOptions(**wrong)


def test_one_run_of_the_command(made_up: Any, condiff: Any, tmp_path: Path) -> None:  # noqa: F811
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import contextmanager

    @contextmanager
    def threads(jobs: int | None) -> Any:
        with ThreadPoolExecutor(1) as pool:
            yield pool

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("condiff.reproduce.pool.process_pool", threads)
        found = condiff(
            "bench", "text", "--dataset", "ag_news", "--budget", "5", "--draws", 2, "--method", "LR,Centroid",
            "--out", tmp_path / "out", "--json",
        )  # fmt: skip
    assert found.code == 0, found.err
    rows = json.loads(found.out)
    assert {(row["method"], row["condition"]["balanced"]) for row in rows} == {
        (m, b) for m in ("LR", "Centroid") for b in (True, False)
    }
    assert "AG News, unequal classes: balanced accuracy (%)" in (tmp_path / "out" / "table.md").read_text()


def test_the_real_texts(data_root: Path) -> None:
    banking, news = load_texts("banking77"), load_texts("ag_news")
    assert (len(banking.texts), len(banking.classes)) == (3080, 77)
    assert np.bincount(banking.target).tolist() == [40] * 77
    assert (len(news.texts), news.classes) == (3000, ("Business", "Sci/Tech", "Sports", "World"))
    assert np.bincount(news.target).min() > 700
    with pytest.raises(InvalidInputError, match="did you mean 'ag_news'"):
        load_texts("agnews")


def test_damaged_texts_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(module.InvalidFileError, match="cannot be read as CSV"):
        module._rows(tmp_path / "x.csv")


def test_slow_methods_run_where_they_are_asked_for() -> None:
    case = protocol.Case("ag_news", TWO)
    found = {method: set(text.Text().methods(case, text.TextOptions(method=method))) for method in ("all", "SetFit")}
    quick = set(text.Text().methods(case, text.TextOptions()))
    assert found["all"] == set(METHODS) and found["SetFit"] == {"SetFit"}
    assert quick == set(METHODS) - {"SetFit"}
