from __future__ import annotations

from dataclasses import replace

import pytest

from condiff.reproduce.provenance import processor
from condiff.reproduce.runs import Run
from condiff.reproduce.verification import Check

RUN = Run("node", "village", "COIN", {"layers": 20}, 3, 1, {"accuracy": 80.0}, 12, 0.5, 10.0)


@pytest.mark.parametrize(
    ("metrics", "epochs", "equal", "rounded"),
    [
        ({"accuracy": 80.0}, 12, True, True),
        ({"accuracy": 80.0 + 1e-9}, 12, False, True),
        ({"accuracy": 80.1}, 12, False, False),
        ({"accuracy": 80.0, "loss": 0.1}, 12, False, False),
    ],
)
def test_a_difference_is_told_from_rounding(metrics: dict[str, float], epochs: int, equal: bool, rounded: bool) -> None:
    check = Check(RUN, replace(RUN, metrics=metrics, epochs=epochs, seconds=9.0))
    assert (check.equal, check.rounded) == (equal, rounded)
    shown = check.to_dict()
    assert (shown["method"], shown["split"], shown["init"]) == ("COIN", 3, 1)
    assert shown["again"]["accuracy"] == metrics["accuracy"]
    assert shown["equal"] is equal


def test_other_epochs_with_the_same_figures_are_no_difference_to_a_reader() -> None:
    check = Check(RUN, replace(RUN, epochs=13))
    assert (check.equal, check.rounded, check.difference) == (False, True, 0.0)


@pytest.mark.parametrize(
    ("made", "accuracy", "wrong"),
    [
        ({"processor": processor()}, 80.01, True),
        ({"processor": "an abacus"}, 75.0, False),
        ({}, 80.01, False),
        ({}, 80.1, True),
    ],
)
def test_another_processor_may_explain_a_difference(made: dict[str, str], accuracy: float, wrong: bool) -> None:
    check = Check(RUN, replace(RUN, metrics={"accuracy": accuracy}), made)
    assert not check.rounded
    assert check.wrong is wrong
