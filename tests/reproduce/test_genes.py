"""Leading alterations, on a table whose leader is known and on the real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.reproduce.gene_tables import small_table

from condiff.errors import InvalidInputError
from condiff.reproduce.genes import leading_alterations
from condiff.reproduce.protocols import prostate
from condiff.training import PROSTATE


def test_the_alteration_that_was_put_in_leads() -> None:
    table = small_table()
    found = leading_alterations(table, 4, inits=3)
    assert len(found) == 4
    leader = found[0]
    assert (leader.gene, leader.kind) == ("G0", "high amplification")
    assert leader.effect > 3 * abs(found[1].effect) > 0
    assert 0 < leader.spread < leader.effect
    assert leader.patients == int(table.features[:, [2]].sum())
    sizes = [abs(each.effect) for each in found]
    assert sizes == sorted(sizes, reverse=True)


def test_with_the_labels_turned_around_it_speaks_for_the_other_class() -> None:
    table = small_table()
    turned = leading_alterations(replace(table, labels=1 - table.labels), 1, inits=1)[0]
    assert (turned.gene, turned.kind) == ("G0", "high amplification")
    assert turned.effect < 0
    assert turned.spread == 0


@pytest.mark.parametrize("bad", [{"number": 0}, {"inits": 0}])
def test_bad_arguments(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="at least 1 alteration and 1 initialisation"):
        leading_alterations(small_table(), **bad)


def test_ar_amplification_and_tp53_lead_the_real_cancers(data_root: Path) -> None:
    found = leading_alterations(prostate.load(), 6, inits=2, training=replace(PROSTATE, epochs=200, milestones=(100,)))
    leaders = [(each.gene, each.kind) for each in found]
    assert leaders[0] == ("AR", "high amplification")
    assert ("TP53", "mutation") in leaders
    assert found[0].effect > 0
    assert found[0].patients == 127
    assert all(each.effect > 0 for each in found if each.gene in ("AR", "TP53"))
