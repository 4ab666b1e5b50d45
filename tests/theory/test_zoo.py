from __future__ import annotations

from functools import cache

import pytest

from condiff.errors import InvalidInputError
from condiff.theory import AxiomTable
from condiff.theory.zoo import ENTRIES, ZOO, get_entry, zoo_markdown, zoo_tables

#: What the examples break, as it was found and as it must be found again.
BROKEN: dict[str, set[str]] = {
    "dgc": {"linearity"},  # D^-1/2 (A + I) D^-1/2 does not keep constants
    "coin-resolvent": {"linearity"},  # the same matrix
    "learned-signed": {"comparison", "linearity"},
    "signed-hops": {"comparison", "linearity"},
    "blocks-lie": {"comparison", "linearity"},
    "blocks-strang": {"comparison", "linearity"},
    "reaction": {"comparison", "linearity", "spatial", "temporal"},  # a flow on probabilities alone
    "euler-past-limit": {"comparison"},
    "softmax-after-flow": {"comparison", "markov", "linearity", "spatial", "temporal"},
    "pde-gcn-tanh": {"linearity"},
    "cgnn-with-memory": {"markov"},
    "jumps": {"locality"},
    "threshold-units": {"spatial"},
    "plain-network": {"locality", "spatial", "temporal"},
}
SLOW = {
    "randomised-smoothing",
    "coin-equation",
    "jumps",
    "softmax-after-flow",
    "noise-injection",
    "shake-shake",
    "gcde",
    "stochastic-depth",
}


@cache
def table_of(name: str) -> AxiomTable:
    return get_entry(name).check()


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ZOO])
def test_each_example_breaks_what_it_breaks_and_nothing_else(name: str) -> None:
    assert set(table_of(name).broken) == BROKEN.get(name, set())


def test_every_axiom_has_an_example_that_breaks_it() -> None:
    assert set().union(*BROKEN.values()) == {"comparison", "markov", "linearity", "locality", "spatial", "temporal"}
    assert {entry.name for entry in ENTRIES if entry.counterexample} <= set(BROKEN)


def test_the_markdown_has_a_row_for_each_in_both_tables() -> None:
    tables = zoo_tables(["grand", "dgc"])
    coefficients, axioms = zoo_markdown(tables).split("\n\n")
    assert len(coefficients.splitlines()) == 2 + len(ENTRIES)
    assert [line.split(" | ")[0] for line in axioms.splitlines()[2:]] == ["| GRAND (linear, no source)", "| DGC"]
    assert "**fails**: 0.118" in axioms.splitlines()[3]


def test_an_unknown_example_is_named() -> None:
    with pytest.raises(InvalidInputError, match="no example 'dropot' \\(did you mean 'dropout'\\?\\)"):
        get_entry("dropot")
