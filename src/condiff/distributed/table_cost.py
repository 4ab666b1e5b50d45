r"""What a fit of a table on a cluster costs: work, bytes, memory and time of every stage, with measured rates.

With n rows of d columns, c outputs, k neighbours, K layers and C cells, of which a query visits v, the work is

==============================  ========================================================================
gather, count, encode, collect  n d numbers
sort                            n d C products: each row with each centre
base, signs, spread, read       n rows; answers likewise
truth                           n d numbers, each compared with a sample of fixed size
neighbours                      n d C products, and n d v n / C differences within the visited cells
weights, join, normalise        n k edges
layer                           K n k edges of (8 + 4 c) bytes
trace                           K n k edges, where layers are carried over
cells                           C^2 d products, by one worker
pilot and others                fixed, by one worker
==============================  ========================================================================

A rate, seconds for a unit of work on one core, is the measured processor time of a stage over its work; so are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from condiff.distributed.cells import number_of_cells

#: Stages that one worker goes through while the others wait.
ONCE = ("learn", "labels", "recount", "pilot", "cells", "visits")
#: Seconds of the scheduler for an item.
_ITEM = 1e-3


@dataclass(frozen=True)
class TableWork:
    """A table by its sizes."""

    rows: float
    columns: int
    outputs: int
    neighbours: int
    layers: int
    visited: float

    def units(self) -> dict[str, float]:
        """The work of every stage that grows with the table."""
        n, d, cells = self.rows, self.columns, number_of_cells(int(self.rows))
        numbers, edges = n * d, n * self.neighbours
        return {
            **dict.fromkeys(("gather", "count", "encode", "collect", "truth"), numbers),
            "sort": numbers * cells,
            "cells": float(cells) ** 2 * d,
            **dict.fromkeys(("base", "signs", "spread", "read", "answers"), n),
            "neighbours": numbers * self.visited * n / cells,
            **dict.fromkeys(("weights", "join", "normalise"), edges),
            "layer": self.layers * edges * (8 + 4 * self.outputs),
            "trace": self.layers * edges,
        }


@dataclass(frozen=True)
class StageCost:
    """What a stage takes: processor seconds, bytes moved, and seconds on the cluster."""

    stage: str
    processor: float
    moved: float
    seconds: float


def forecast(
    stages: Sequence[Mapping[str, Any]],
    measured: TableWork,
    asked: TableWork,
    *,
    machines: int,
    cores: int,
    bytes_per_second: float,
    block_rows: float = 1e6,
) -> list[StageCost]:
    """Every stage of a larger table on a larger cluster.

    Parameters
    ----------
    stages
        What each stage has cost, as :class:`condiff.distributed.crew.Used` has it.
    measured, asked
        The table that was measured, and the one that is asked for.
    machines, cores
        Workers, and the cores of each, which an item uses all.
    bytes_per_second
        What a machine reads or writes, of the storage that all share.
    block_rows
        Rows of a block.
    """
    before, after = measured.units(), asked.units()
    rates = {each["stage"]: each["seconds"] / before[each["stage"]] for each in stages if each["stage"] in before}
    growth = asked.rows / measured.rows
    # Rows are compared with centres twice: where they are sorted, and where their neighbours are sought.
    quantised = rates.get("sort", 0.0) * before["sort"]
    found = []
    for each in stages:
        stage = each["stage"]
        if stage in ONCE:
            processor = rates[stage] * after[stage] if stage == "cells" else each["seconds"]
            found.append(StageCost(stage, processor, each["moved"], processor / (cores if stage == "cells" else 1)))
            continue
        if stage == "neighbours":
            scan = max(each["seconds"] - quantised, 0.0) / before[stage]
            processor = rates["sort"] * after["sort"] + scan * after[stage]
        else:
            processor = rates[stage] * after[stage]
        layered = stage in ("layer", "trace")
        layers = asked.layers / measured.layers if layered else 1.0
        moved = each["moved"] * growth * layers
        items = asked.rows / block_rows * (asked.layers if layered else 1)
        seconds = processor / (machines * cores) + moved / (machines * bytes_per_second) + items * _ITEM
        found.append(StageCost(stage, processor, moved, seconds))
    return found


def block_memory(columns: int, neighbours: int, outputs: int, block_rows: float) -> float:
    """Bytes that a block may take in a worker, beside the process itself."""
    return (12 * columns + 60 * neighbours + 24 * outputs) * block_rows
