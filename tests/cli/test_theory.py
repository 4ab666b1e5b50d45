from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Run


def test_axioms_shows_a_table_and_the_worst_pair(condiff: Run) -> None:
    result = condiff("theory", "axioms", "grand", "euler-past-limit")
    assert result.code == 0
    shown = " ".join(result.out.split())
    assert "example comparison Markov linearity locality spatial regularity temporal regularity" in shown
    assert "euler-past-limit fails: 34.6 0" in shown
    assert "comparison: FAILS, violation 34.6" in shown
    assert "g: f + 1 at nodes" in shown


def test_axioms_as_json_is_one_list_and_nothing_else(condiff: Run) -> None:
    [row] = json.loads(condiff("theory", "axioms", "dgc", "--json").out)
    assert (row["example"], row["name"], row["holds"]) == ("dgc", "DGC", False)
    broken = [check for check in row["axioms"] if not check["holds"]]
    assert [check["axiom"] for check in broken] == ["linearity"]
    assert broken[0]["evidence"]["f"] == "the constant 1"


def test_generator_shows_what_is_recovered_beside_what_is_said(condiff: Run) -> None:
    [row] = json.loads(condiff("theory", "generator", "dropout", "--points", 3, "--json").out)
    assert row["semidefinite"] is True
    assert len(row["points"]) == 3
    for point in row["points"]:
        assert point["v"] == pytest.approx(point["said_v"], abs=1e-8)
        for found, said in zip(point["sigma"], point["said_sigma"], strict=True):
            assert found == pytest.approx(said, abs=1e-8)
    shown = condiff("theory", "generator", "dropout").out
    assert "sigma = (1 - p) / (2 p) diag(v_i^2)" in shown
    assert "sigma is positive semi-definite" in shown


def test_generator_of_a_graph_is_seen_at_its_points(condiff: Run) -> None:
    shown = condiff("theory", "generator", "coin", "--points", 2).out
    assert shown.count("x = (") == 2
    assert "sigma is positive semi-definite" in shown


def test_generator_says_where_no_equation_follows(condiff: Run) -> None:
    assert "breaks an axiom" in condiff("theory", "generator", "jumps", "--points", 1).out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["axioms", "dropot"], "there is no example 'dropot' (did you mean 'dropout'?)"),
        (["generator", "coins"], "there is no example 'coins' (did you mean 'coin'?)"),
        (["generator", "softmax-after-flow"], "has no generator on the points of its graph"),
        (["generator", "resnet", "--at", 1.0], "the flow of resnet ends at 1"),
    ],
)
def test_errors_are_one_line(condiff: Run, arguments: list[object], part: str) -> None:
    condiff("theory", *arguments).assert_failed(part)
