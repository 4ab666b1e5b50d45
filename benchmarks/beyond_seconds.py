"""Processor seconds of one fit of the variants beyond the paper beside COIN's, on one core.

    python benchmarks/beyond_seconds.py [--graphs cora,texas,chameleon] [--splits 2] [--out results/beyond/seconds.json]

Citation graphs have 20 labels per class, those whose neighbours disagree a tenth of their labels. Each fit runs on one
thread, where the processor's time is what passes on an idle machine; what takes the machine's other work is not in it,
but for what it takes of the cache. Times of a graph's methods follow one another closely, and the means over splits are
what is written. Fits that the file has already are made again and replaced.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from condiff.files import write_text
from condiff.reproduce.baselines.beyond import REGISTRY
from condiff.reproduce.datasets import heterophilous
from condiff.reproduce.protocols.beyond import Beyond, BeyondOptions
from condiff.reproduce.provenance import provenance_line

#: What each line of the table is: a method, and the settings that are not its default.
FITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "COIN": ("COIN", ()),
    "COIN-resolvent": ("COIN-resolvent", ()),
    "COIN-mixture": ("COIN-mixture", ()),
    "COIN-learned, symmetric": ("COIN-learned", ()),
    "COIN-learned, symmetric from u": ("COIN-learned", ("reads=u",)),
    "COIN-learned, stochastic": ("COIN-learned", ("kind=stochastic", "training.learning_rate=0.1")),
    "COIN-learned, mixture of two graphs": ("COIN-learned", ("kind=mixture",)),
}
#: The methods of others that are shown beside these, and all that are where neighbours disagree.
OTHERS = ("GCN", "APPNP", "GPRGNN", "FAGCN", "GCNII", "GRAND-random")
DISAGREEING = ("COIN-adaptive", "MLP", "GCN", "GPRGNN", "FAGCN", "GREAD", "CDE")


def fits_of(graph: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """What is fitted on a graph."""
    if graph in heterophilous.NAMES:
        return {name: (name, ()) for name in DISAGREEING}
    return FITS | {name: (name, ()) for name in OTHERS}


def measured(graph: str, name: str, changes: tuple[str, ...], splits: int) -> float:
    """The mean processor seconds of a fit."""
    protocol, labels = Beyond(), "tenth" if graph in heterophilous.NAMES else "even"
    [(case, drawn)] = protocol.cases(BeyondOptions(targets=(graph,), labels=labels, splits=splits))
    method, found = REGISTRY.chosen(name, graph, changes)[name], []
    for seed, split in drawn.items():
        given = protocol.problem(case, seed, split)
        started = time.process_time()
        method.solve(given, seed)
        found.append(time.process_time() - started)
    return statistics.fmean(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default="cora,citeseer,pubmed")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/beyond/seconds.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = json.loads(options.out.read_text())["seconds"] if options.out.is_file() else {}
    made = provenance_line("python benchmarks/beyond_seconds.py")
    with threadpool_limits(1):
        for graph in options.graphs.split(","):
            for fit, chosen in fits_of(graph).items():
                kept.setdefault(graph, {})[fit] = round(measured(graph, *chosen, options.splits), 3)
                print(graph, fit, kept[graph][fit], flush=True)
                content = {"splits": options.splits, "made": made, "seconds": kept}
                write_text(options.out, json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
