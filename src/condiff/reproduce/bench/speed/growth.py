"""How time and memory of the node engine grow, and what the machine's arithmetic and memory would allow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN
from condiff.reproduce.memory import peak_memory
from condiff.training import NODE, Problem, fit

_CLASSES, _LABELLED, _WORDS = 7, 350, 18
_EPOCHS = 20


@dataclass(frozen=True)
class Size:
    """A made-up citation graph, about as large as Cora: random edges, random words, random labels."""

    nodes: int = 2500
    edges: int = 5000
    features: int = 1400
    layers: int = 20
    initialisations: int = 1


#: What is varied, one at a time.
AXES: dict[str, tuple[int, ...]] = {
    "nodes": (1250, 2500, 5000, 10_000, 20_000),
    "edges": (2500, 5000, 10_000, 20_000, 40_000),
    "features": (350, 700, 1400, 2800, 5600),
    "layers": (5, 10, 20, 40, 80, 160),
    "initialisations": (1, 2, 4, 8),
}


def growth(repeats: int = 3, report: Callable[[str], None] = lambda _: None) -> Iterator[dict[str, Any]]:
    """One row for each axis and value: seconds and megabytes of a fit of 20 epochs, and the machine's bound on them."""
    machine = roofline()
    fit_once(Size(nodes=500, features=128), 1)
    for axis, values in AXES.items():
        for value in values:
            size = replace(Size(), **{axis: value})
            if axis == "nodes":
                size = replace(size, edges=2 * value)
            with peak_memory() as peak:
                seconds = [fit_once(size, repeat) for repeat in range(repeats)]
            row = {"axis": axis, "value": value, "seconds": statistics.median(seconds), "memory_mb": peak.megabytes}
            report(f"{axis} {value:,}: {row['seconds']:.2f} s, {row['memory_mb']:.0f} MB")
            yield row | {"bound_seconds": bound_seconds(size, machine), **machine}


def exponent(rows: list[dict[str, Any]], axis: str, field: str) -> float:
    """The slope of a straight line through the logarithms: 1 is linear growth."""
    chosen = [row for row in rows if row["axis"] == axis]
    sizes = np.log([row["value"] for row in chosen])
    return float(np.polyfit(sizes, np.log([max(row[field], 1e-3) for row in chosen]), 1)[0])


def fit_once(size: Size, seed: int) -> float:
    """Seconds of the fits of one size, with everything that the engine makes ready for them."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, size.nodes, (2, size.edges))
    adjacency = sp.coo_array((np.ones(size.edges), tuple(ends)), shape=(size.nodes, size.nodes))
    graph = Graph.of(sp.csr_array(adjacency + adjacency.T)).normalised(self_loops="add")
    words = sp.coo_array(
        (
            np.full(size.nodes * _WORDS, 1 / _WORDS),
            (np.repeat(np.arange(size.nodes), _WORDS), rng.integers(0, size.features, size.nodes * _WORDS)),
        ),
        shape=(size.nodes, size.features),
    )
    x, operator = SparseMatrix.of(words), graph.laplacian()
    labels = torch.from_numpy(rng.integers(0, _CLASSES, size.nodes))
    chosen = torch.from_numpy(rng.permutation(size.nodes)[:_LABELLED])
    settings = replace(NODE, epochs=_EPOCHS, patience=_EPOCHS + 1)
    started = time.perf_counter()
    for _ in range(size.initialisations):
        model = COIN.build(size.features, _CLASSES, layers=size.layers, strength=0.05)
        half = _LABELLED // 2
        fit(Problem(model, x, operator, labels, chosen[:half], validation=chosen[half:], settings=settings))
    return time.perf_counter() - started


def roofline() -> dict[str, float]:
    """This machine's peak with all threads: multiply-adds and bytes moved per second."""
    threads = torch.get_num_threads()
    left, right = torch.rand(1024, 1024), torch.rand(1024, 1024)
    gemm = min(_timed(lambda: left @ right) for _ in range(10))
    source = [np.ones(2**24, np.float32) for _ in range(threads)]
    target = [np.empty_like(each) for each in source]
    with ThreadPoolExecutor(threads) as pool:
        copy = min(_timed(lambda: list(pool.map(np.copyto, target, source))) for _ in range(5))
    return {"multiply_adds_a_second": 1024**3 / gemm, "bytes_a_second": threads * 2 * 4 * 2**24 / copy}


def bound_seconds(size: Size, machine: dict[str, float]) -> float:
    """The least time that an epoch's products and an epoch's traffic with memory need, times the epochs.

    Products: features forward and back, and three of the read-out. Traffic: weights and both moments of Adam are read
    and written once, the hidden units too.
    """
    products = 2 * size.nodes * _WORDS * size.features + 3 * size.nodes * size.features * _CLASSES
    traffic = 4 * (6 * size.features**2 + 2 * size.nodes * size.features)
    epoch = max(products / machine["multiply_adds_a_second"], traffic / machine["bytes_a_second"])
    return size.initialisations * _EPOCHS * epoch


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
