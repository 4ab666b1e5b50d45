"""Runs that nobody measured, near the published values, for tables and pictures to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from condiff.reproduce.published import methods, published
from condiff.reproduce.runs import Condition, Run

#: The paper's conditions: a part of the cases missing, and patients to train.
COVID = {"task": "covid", "dataset": "england", "condition": Condition(missing=0.9, causal=False)}
PROSTATE = {"task": "prostate", "dataset": "p1000", "condition": Condition(train=20, validation=100)}


def fewshot(dataset: str = "cub", backbone: str | None = "resnet18", **changed: Any) -> dict[str, Any]:
    """The names of few-shot runs: the paper's tasks but for what is changed."""
    usual = {"ways": 5, "shots": 1, "queries": 15, "concentration": None, "episodic": False, "backbone": backbone}
    return {"task": "fewshot", "dataset": dataset, "condition": Condition({**usual, **changed})}


def run(method: str = "COIN", accuracy: float = 82.0, **changed: Any) -> Run:
    values: dict[str, Any] = {
        "task": "node",
        "dataset": "cora",
        "method": method,
        "settings": {},
        "split": 0,
        "init": 0,
        "metrics": {"accuracy": accuracy},
        "epochs": 100,
        "seconds": 2.0,
        "memory_mb": 50.0,
    }
    return Run(**(values | changed))


def paper_runs(
    datasets: Iterable[str] = ("cora", "citeseer", "pubmed"), names: Sequence[str] = (), splits: int = 3, inits: int = 2
) -> list[Run]:
    """Every method of the paper, or those that are named, about its published accuracy, time and memory."""
    generator = np.random.default_rng(0)
    runs: list[Run] = []
    for dataset in datasets:
        for name in names or [each.name for each in methods("node")]:
            known = {
                metric: published("node", dataset, name, metric)
                for metric in ("accuracy", "seconds_per_epoch_rtx3090", "seconds_to_converge_rtx3090", "gpu_memory_mb")
            }
            accuracy, epoch, seconds, memory = (value.value for value in known.values() if value is not None)
            taken = {"epochs": round(seconds / epoch), "seconds": 5 * seconds, "memory_mb": memory / 5}
            runs += [
                run(name, accuracy + generator.normal(), dataset=dataset, split=split, init=init, **taken)
                for split in range(splits)
                for init in range(inits)
            ]
    return runs


def sweep(datasets: Iterable[str] = ("cora",), layers: Iterable[int] = (20, 40)) -> list[Run]:
    """COIN at several strengths, 20 runs each."""
    generator = np.random.default_rng(1)
    return [
        run(
            accuracy=80 + 10 * strength + generator.normal(),
            dataset=dataset,
            settings={"layers": number, "strength": strength},
            split=split,
        )
        for dataset in datasets
        for number in layers
        for strength in (0.1, 0.2, 0.3)
        for split in range(20)
    ]
