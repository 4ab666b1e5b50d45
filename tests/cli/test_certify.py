from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.cli.conftest import Run


def write_graph(path: Path, adjacency: np.ndarray) -> Path:
    matrix = sp.csr_array(adjacency)
    np.savez(path, **{f"adj_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")})
    return path


def complete(n: int) -> np.ndarray:
    return np.ones((n, n)) - np.eye(n)


def test_a_complete_graph_has_the_limits_of_its_closed_form(condiff: Run, tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "k5.npz", complete(5))
    # As it is: L = 5 I - 1 1^T, so lambda_max = 5 and L_ii = 4.
    result = condiff("certify", graph, "--normalisation", "none", "--self-loops", "keep")
    assert (result.code, result.err) == (0, "")
    shown = " ".join(result.out.split())
    for part in ("nodes 5", "edges 10", "lambda_max 5.000", "stability limit 0.400", "positivity limit 0.250"):
        assert part in shown
    # The paper's: every weight becomes 1/5, so lambda_max = 1 and L_ii = 4/5.
    shown = " ".join(condiff("certify", graph).out.split())
    for part in ("lambda_max 1.000", "stability limit 2.000", "positivity limit 1.250"):
        assert part in shown


def test_json_is_one_list_and_nothing_else(condiff: Run, tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "k5.npz", complete(5))
    result = condiff("certify", graph, "--json", "--strength", "1.5", "--layers", 3)
    assert result.err == ""
    [row] = json.loads(result.out)
    assert (row["graph"], row["n_nodes"], row["edges"]) == ("k5", 5, 10)
    assert row["lambda_max"] == pytest.approx(1)
    assert row["positivity_limit"] == pytest.approx(1.25)
    assert (row["strength"], row["layers"]) == (1.5, 3)
    assert "past the positivity limit" in row["problem"]


@pytest.mark.parametrize(
    ("strength", "parts"),
    [
        (1.0, ["strength 1 is certified"]),
        (1.5, ["past the positivity limit 1.25", "24 layers of 1.25 (instead of 20 of 1.5)"]),
        (2.5, ["past the stability limit 2", "40 layers of 1.25 (instead of 20 of 2.5)"]),
    ],
)
def test_it_says_what_a_strength_does(condiff: Run, tmp_path: Path, strength: float, parts: list[str]) -> None:
    graph = write_graph(tmp_path / "k5.npz", complete(5))
    result = condiff("certify", graph, "--strength", strength)
    assert result.code == 0
    for part in parts:
        assert part in result.out


def test_a_graph_without_edges_has_no_limits(condiff: Run, tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "empty.npz", np.zeros((3, 3)))
    result = condiff("certify", graph, "--strength", 7, "--json")
    [row] = json.loads(result.out)
    assert (row["stability_limit"], row["positivity_limit"], row["problem"]) == (None, None, None)
    assert "strength 7 is certified" in condiff("certify", graph, "--strength", 7).out


def test_a_name_with_brackets_is_shown_as_it_is(condiff: Run, tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "a[b].npz", complete(3))
    assert "Certificate of a[b]" in condiff("certify", graph).out


def test_cora_has_the_figures_of_the_paper(condiff: Run, data_root: Path) -> None:
    result = condiff("certify", "cora", "--strength", 0.35)
    shown = " ".join(result.out.split())
    for part in (
        "nodes 2485",
        "edges 5069",
        "lambda_max 5.780",
        "stability limit 0.346",
        "positivity limit 0.174",
        "strength 0.35 is past the stability limit",
    ):
        assert part in shown


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (
            ["corra"],
            "'corra' is no graph (did you mean 'cora'?): give cora, citeseer, pubmed, an .npz file",
        ),
        (["missing.npz"], "missing.npz: no such file"),
        (["text.npz"], "is not an .npz file"),
        (
            ["k5.npz", "--normalisation", "both"],
            "normalisation must be 'symmetric', 'random_walk' or 'none', not 'both'",
        ),
        (["k5.npz", "--self-loops", "some"], "self_loops must be 'add', 'remove' or 'keep', not 'some'"),
    ],
)
def test_errors_are_one_line(
    condiff: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph(tmp_path / "k5.npz", complete(5))
    (tmp_path / "text.npz").write_text("no zip")
    condiff("certify", *arguments).assert_failed(part)
