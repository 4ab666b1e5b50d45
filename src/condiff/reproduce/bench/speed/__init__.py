"""Engines against the paper's own way to compute, on the same work in one run."""

from __future__ import annotations

from collections.abc import Callable

from condiff.reproduce.bench.speed import covid, fewshot, node, prostate
from condiff.reproduce.bench.speed.workload import Workload, measure

#: The workloads of every task by its name; they are made when they are asked for, because they load data.
TASKS: dict[str, Callable[[], list[Workload]]] = {
    "node": node.workloads,
    "fewshot": fewshot.workloads,
    "covid": covid.workloads,
    "prostate": prostate.workloads,
}

__all__ = ["TASKS", "Workload", "measure"]
