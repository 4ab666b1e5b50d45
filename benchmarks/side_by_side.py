"""What two networks of a node fit would gain by sharing every load of the features: one sparse product for both.

    python benchmarks/side_by_side.py [--graphs cora,citeseer,pubmed] [--repeats 50]

The product is the one that an epoch spends its time on: sparse features times a block of 64 hidden units. Either two
networks take turns, or each entry of the features is loaded once and multiplies the weights of both. One thread and
processor time, the fastest of all turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import WIDTH, load, plus_scaled, store, zeros
from condiff.reproduce.protocols import node
from condiff.reproduce.splits import random_split


@compiled("int32[1], int32[1], number[1], number[2], number[2]")
def alone(starts: Any, columns: Any, values: Any, weights: Any, units: Any) -> None:
    """The units of one network."""
    for row in range(units.shape[0]):
        unit = zeros(units)
        for entry in range(starts[row], starts[row + 1]):
            unit = plus_scaled(unit, values[entry], load(weights, columns[entry]))
        store(units, row, unit)


@compiled("int32[1], int32[1], number[1], number[2], number[2], number[2], number[2]")
def together(starts: Any, columns: Any, values: Any, weights: Any, others: Any, units: Any, other_units: Any) -> None:
    """The units of two networks, in one pass over the features."""
    for row in range(units.shape[0]):
        unit, other = zeros(units), zeros(units)
        for entry in range(starts[row], starts[row + 1]):
            value, column = values[entry], columns[entry]
            unit = plus_scaled(unit, value, load(weights, column))
            other = plus_scaled(other, value, load(others, column))
        store(units, row, unit)
        store(other_units, row, other)


def measure(name: str, repeats: int) -> tuple[float, float]:
    """Milliseconds of two products, in turns and together."""
    dataset = node.load(name)
    x = node.problem(dataset, random_split(dataset.labels, 0)).x
    inputs = x.pattern.crow_indices.numpy(), x.pattern.col_indices.numpy(), x.values.float().numpy()
    first, second = np.random.default_rng(0).normal(size=(2, x.shape[1], WIDTH)).astype(np.float32)
    units, others = np.empty((2, x.shape[0], WIDTH), np.float32)

    def in_turns() -> None:
        alone(*inputs, first, units)
        alone(*inputs, second, others)

    def at_once() -> None:
        together(*inputs, first, second, units, others)

    in_turns()
    kept = units.copy(), others.copy()
    at_once()
    assert (units == kept[0]).all() and (others == kept[1]).all(), "the two ways must agree to the bit"
    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        best = [min(before, _seconds(work)) for before, work in zip(best, (in_turns, at_once), strict=True)]
    return 1e3 * best[0], 1e3 * best[1]


def _seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    for _ in range(4):
        work()
    return (time.process_time() - started) / 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default="cora,citeseer,pubmed")
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    print("| graph | two networks in turns | side by side | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name in arguments.graphs.split(","):
        turns, beside = measure(name, arguments.repeats)
        print(f"| {name} | {turns:.2f} ms | {beside:.2f} ms | {turns / beside:.2f} |")


if __name__ == "__main__":
    main()
