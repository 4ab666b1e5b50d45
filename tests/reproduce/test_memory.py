import sys

import numpy as np
import pytest

from condiff.reproduce import memory
from condiff.reproduce.memory import peak_memory


def test_the_peak_is_what_was_used_at_most():
    with peak_memory() as peak:
        block = np.ones(200 * 2**20 // 8)
        assert block.sum() > 0
        del block
    # What else the process lets go of or takes up meanwhile is small beside that.
    assert 150 < peak.megabytes < 250


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can forget the highest mark")
def test_a_later_piece_of_work_is_measured_by_itself():
    with peak_memory() as large:
        np.ones(200 * 2**20 // 8).sum()
    with peak_memory() as small:
        np.ones(10 * 2**20 // 8).sum()
    assert small.megabytes < 100 < large.megabytes


def test_without_linux_marks_it_still_answers(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_RESET", tmp_path / "no" / "such")
    with peak_memory() as peak:
        pass
    assert peak.megabytes >= 0
