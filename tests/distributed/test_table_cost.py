"""The cost model of a table on a cluster."""

from dataclasses import replace

import pytest

from condiff.distributed.table_cost import ONCE, TableWork, block_memory, forecast

WORK = TableWork(rows=100_000, columns=32, outputs=10, neighbours=12, layers=4, visited=12)
STAGES = [
    {"stage": stage, "seconds": seconds, "moved": 1e6}
    for stage, seconds in (("pilot", 20.0), ("encode", 1.0), ("cells", 1.0), ("sort", 2.0), ("base", 15.0),
                           ("neighbours", 5.0), ("join", 1.0), ("layer", 2.0))
]  # fmt: skip


def test_what_was_measured_is_what_is_forecast_for_it():
    found = forecast(STAGES, WORK, WORK, machines=1, cores=1, bytes_per_second=1e30, block_rows=1e30)
    assert {each.stage: each.seconds for each in found} == pytest.approx(
        {each["stage"]: each["seconds"] for each in STAGES}
    )


def test_work_grows_as_the_formulas_say_and_is_shared():
    large = replace(WORK, rows=400_000, layers=8)
    found = {each.stage: each for each in forecast(STAGES, WORK, large, machines=2, cores=4, bytes_per_second=1e6)}
    assert found["encode"].processor == pytest.approx(4.0) and found["encode"].moved == 4e6
    assert found["sort"].processor == pytest.approx(2.0 * 4 * 2, rel=0.01)  # twice as many cells
    # As much again for the centres, and three seconds of cells that are twice as full.
    assert found["neighbours"].processor == pytest.approx(16 + 3.0 * 4 * 2, rel=0.01)
    assert found["layer"].processor == pytest.approx(16.0) and found["layer"].moved == 8e6
    assert found["pilot"].processor == found["pilot"].seconds == 20.0 and "pilot" in ONCE
    assert found["encode"].seconds == pytest.approx(4.0 / 8 + 2.0, abs=0.01)
    assert block_memory(32, 12, 10, 1000) == (12 * 32 + 60 * 12 + 24 * 10) * 1000
