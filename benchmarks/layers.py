"""One explicit layer on a graph of nearest neighbours: compiled loops beside torch's operations, orders of the nodes.

    python benchmarks/layers.py [--points 200000] [--columns 10,64] [--layers 8] [--repeats 5] [--out FILE.json]

The points of ``condiff bench scale``, 15 neighbours each, single precision, one thread. All ways take turns, so that
they see the same machine; the figures are medians over the turns, of whole runs divided by their layers, after a first
turn that compiles. ``ratio`` is the time of torch's operations, in the order that the points came in, to these. An
order of the nodes costs time once: ``layers to win back`` says when it has paid.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from importlib import util
from pathlib import Path

import torch

from condiff import kernels
from condiff.files import write_text
from condiff.graph import kernel_graph
from condiff.graph.approximate import CellIndex
from condiff.graph.ordering import locality_order, permuted
from condiff.graph.steps import euler_layers
from condiff.reproduce.bench.scale import make_points
from condiff.reproduce.provenance import provenance

NEIGHBOURS, BANDWIDTH_RANK, STRENGTH = 15, 6, 0.1


def seconds(work):
    """How long it takes, and what it gives."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


@torch.no_grad()
def by_torch(operator, u, layers):
    for _ in range(layers):
        u = u - STRENGTH * operator(u)
    return u


def compiled(operator, u, layers):
    return euler_layers(operator, u, STRENGTH, layers)


def ordered_operators(points):
    """The operator in the order of the points, of reverse Cuthill-McKee and of faiss's cells, and seconds for each."""
    given = kernel_graph(points, NEIGHBOURS, BANDWIDTH_RANK).laplacian(torch.float32)
    orders = {"Cuthill-McKee": lambda: locality_order(given)}
    if util.find_spec("faiss"):
        index = CellIndex(points, NEIGHBOURS)  # the search for neighbours has made it anyway
        orders["cells"] = lambda: torch.from_numpy(index.cell_order())
    found = {"as given": (given, 0.0)}
    for name, order in orders.items():
        spent, operator = seconds(lambda order=order: permuted(given, order()))
        found[name] = operator, spent
    return found


def measure(operators, columns, layers, repeats):
    """One row for each way, from turns that follow each other."""
    u = torch.rand(operators["as given"][0].n_nodes, columns, generator=torch.Generator().manual_seed(0))
    ways = {("torch", "as given"): by_torch} | {("compiled", order): compiled for order in operators}
    spent = {way: [] for way in ways}
    for _ in range(repeats + 1):
        for (kind, order), run in ways.items():
            spent[kind, order].append(seconds(lambda run=run, order=order: run(operators[order][0], u, layers))[0])
    medians = {way: statistics.median(times[1:]) / layers for way, times in spent.items()}
    rows = []
    for (kind, order), each in medians.items():
        gain, ordering = medians[kind, "as given"] - each, operators[order][1]
        rows.append(
            {
                "columns": columns,
                "by": kind,
                "order": order,
                "seconds_a_layer": each,
                "ratio": medians["torch", "as given"] / each,
                "ordering_seconds": ordering,
                "layers_to_win_back": ordering / gain if ordering and gain > 0 else None,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--columns", default="10,64")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if not kernels.available():
        parser.error("the compiled loops need numba: pip install 'condiff[fast]'")
    torch.set_num_threads(1)
    operators = ordered_operators(make_points(asked.points).x)
    rows = []
    print("columns   by         order            ms per layer   ratio   ordering s   layers to win back")
    for columns in map(int, asked.columns.split(",")):
        for row in measure(operators, columns, asked.layers, asked.repeats):
            rows.append(row)
            won = f"{row['layers_to_win_back']:.1f}" if row["layers_to_win_back"] else ""
            print(
                f"{columns:7d}   {row['by']:<8s}   {row['order']:<14s} {1000 * row['seconds_a_layer']:12.2f} "
                f"{row['ratio']:7.2f} {row['ordering_seconds']:12.2f}   {won:>18s}"
            )
    if asked.out:
        command = f"python benchmarks/layers.py --points {asked.points} --columns {asked.columns}"
        made = provenance(f"{command} --layers {asked.layers} --repeats {asked.repeats}")
        edges = operators["as given"][0].weights.numel()
        content = {"made": made, "points": asked.points, "entries": edges, "rows": rows}
        write_text(asked.out, json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
