"""The real workloads, for a few epochs: both ways do the same work."""

from __future__ import annotations

from pathlib import Path

import pytest

from condiff.reproduce.bench.speed import TASKS, covid, fewshot, node, prostate


@pytest.mark.filterwarnings("ignore::condiff.errors.StepSizeWarning")
def test_few_shot_tasks() -> None:
    for work in fewshot.workloads():
        assert float((work.engine(8) - work.reference(8)).abs().max()) < 1e-5


@pytest.mark.filterwarnings("ignore::condiff.errors.StepSizeWarning")
def test_cora(data_root: Path) -> None:
    work = node.workload("cora")
    assert (work.epochs, work.published_gpu_seconds) == (128, 0.798)
    assert float((work.engine(3) - work.reference(3)).abs().max()) < 1e-5


@pytest.mark.filterwarnings("ignore::condiff.errors.StepSizeWarning")
def test_covid(data_root: Path) -> None:
    [work] = covid.workloads()
    assert float((work.engine(4) - work.reference(4)).abs().max()) < 1e-5


@pytest.mark.filterwarnings("ignore::condiff.errors.StepSizeWarning")
@pytest.mark.slow
def test_prostate(data_root: Path) -> None:
    [work] = prostate.workloads()
    assert float((work.engine(2) - work.reference(2)).abs().max()) < 1e-5


def test_every_task_has_workloads() -> None:
    assert list(TASKS) == ["node", "fewshot", "covid", "prostate"]
