"""How many processes a sweep gets; what they do is tested with the runner."""

import os

import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.pool import process_pool, usual_jobs


def test_processes_are_as_many_as_the_environment_says(monkeypatch):
    monkeypatch.setenv("CONDIFF_JOBS", "3")
    assert usual_jobs() == 3


def test_or_one_for_each_core_that_may_be_used(monkeypatch):
    monkeypatch.delenv("CONDIFF_JOBS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert usual_jobs() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usual_jobs() == 7


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5"])
def test_what_is_no_number_of_processes_is_refused(monkeypatch, given):
    monkeypatch.setenv("CONDIFF_JOBS", given)
    with pytest.raises(InvalidInputError, match="CONDIFF_JOBS must be a number of processes"), process_pool(None):
        pass
