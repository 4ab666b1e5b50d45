from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from condiff.reproduce.bench.speed import Workload, measure


class Clock:
    """Time passes only where work takes it."""

    def __init__(self) -> None:
        self.now = 0.0

    def takes(self, an_epoch: float, start: float = 0.0, shift: float = 0.0):
        def run(epochs: int) -> Tensor:
            self.now += start + an_epoch * epochs
            return torch.full((3,), float(epochs)) + shift

        return run


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("condiff.reproduce.bench.speed.workload.time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


def test_both_take_turns_and_medians_are_reported(clock) -> None:
    told: list[str] = []
    row = measure(Workload("nap", "sleeping", 10, clock.takes(4.0), clock.takes(1.0, shift=0.5)), 3, told.append)
    assert (row["reference_seconds"], row["engine_seconds"]) == (40.0, 10.0)
    assert row["ratio"] == row["reference_seconds"] / row["engine_seconds"]
    assert row["max_difference"] == 0.5
    assert (row["task"], row["epochs"], row["reference_epochs"], row["repeats"]) == ("nap", 10, 10, 3)
    assert row["published_gpu_seconds"] is None and row["peak_memory_mb"] >= 0
    assert told == ["nap: warming up", *(f"nap: turn {turn} of 3" for turn in (1, 2, 3))]


def test_a_long_reference_is_extended_along_a_straight_line(clock) -> None:
    work = Workload("nap", "", 1000, clock.takes(2.0, start=20.0), clock.takes(1.0), reference_epochs=(2, 12))
    assert measure(work, 3)["reference_seconds"] == 20 + 2 * 1000


def test_times_are_those_of_one_fit(clock) -> None:
    work = Workload("nap", "", 10, clock.takes(2.0), clock.takes(2.0), reference_fits=2, engine_fits=10)
    assert measure(work, 3)["ratio"] == 5


def test_outputs_are_compared_after_as_many_epochs_of_both() -> None:
    asked: list[int] = []

    def engine(epochs: int) -> Tensor:
        asked.append(epochs)
        return torch.zeros(1)

    work = Workload("x", "", 4, lambda epochs: torch.zeros(1), engine, reference_epochs=(1, 2))
    assert measure(work, 1)["reference_epochs"] == 2
    assert asked == [2, 4]
