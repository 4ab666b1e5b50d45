from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

from condiff.reproduce.bench.speed import Workload, measure


def _waits(an_epoch: float, start: float = 0.0, shift: float = 0.0):
    def run(epochs: int) -> Tensor:
        time.sleep(start + an_epoch * epochs)
        return torch.full((3,), float(epochs)) + shift

    return run


def test_both_take_turns_and_medians_are_reported() -> None:
    told: list[str] = []
    row = measure(Workload("nap", "sleeping", 10, _waits(0.004), _waits(0.001, shift=0.5)), 3, told.append)
    assert row["ratio"] == pytest.approx(4, rel=0.3)
    assert row["ratio"] == row["reference_seconds"] / row["engine_seconds"]
    assert row["max_difference"] == 0.5
    assert (row["task"], row["epochs"], row["reference_epochs"], row["repeats"]) == ("nap", 10, 10, 3)
    assert row["published_gpu_seconds"] is None and row["peak_memory_mb"] >= 0
    assert told == ["nap: warming up", *(f"nap: turn {turn} of 3" for turn in (1, 2, 3))]


def test_a_long_reference_is_extended_along_a_straight_line() -> None:
    work = Workload("nap", "", 1000, _waits(0.002, 0.02), _waits(1e-5), reference_epochs=(2, 12))
    assert measure(work, 3)["reference_seconds"] == pytest.approx(0.02 + 0.002 * 1000, rel=0.3)


def test_times_are_those_of_one_fit() -> None:
    work = Workload("nap", "", 10, _waits(0.002), _waits(0.002), reference_fits=2, engine_fits=10)
    assert measure(work, 3)["ratio"] == pytest.approx(5, rel=0.3)


def test_outputs_are_compared_after_as_many_epochs_of_both() -> None:
    asked: list[int] = []

    def engine(epochs: int) -> Tensor:
        asked.append(epochs)
        return torch.zeros(1)

    work = Workload("x", "", 4, lambda epochs: torch.zeros(1), engine, reference_epochs=(1, 2))
    assert measure(work, 1)["reference_epochs"] == 2
    assert asked == [2, 4]
