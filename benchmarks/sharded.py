"""A sharded fit with 1, 2 and 4 ranks under torchrun: time, traffic and memory of each, and the cost model's forecast.

    python benchmarks/sharded.py [--nodes 20000,80000] [--ranks 1,2,4] [--epochs 10] [--out FILE.json]

Each graph joins the points of ``condiff bench scale`` to their ten nearest neighbours. The rates of the cost model are
fitted to all ranks of all fits; the last lines are its forecast for 100 million nodes and 1.6 billion edges on 16
machines. Keep the machine idle meanwhile: the time in an exchange is that of the slowest rank.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np

from condiff.distributed import Description, Labels, gather_output, write_shards
from condiff.distributed.cost import Measurement, Workload, cost, fit_rates, random_border_share
from condiff.files import write_text
from condiff.graph import kernel_graph
from condiff.reproduce.bench.scale import make_points
from condiff.reproduce.provenance import provenance_line

FEATURES, CLASSES, HIDDEN = 64, 10, 32  # as the points have them
#: The first tells products and base network apart; the second is the one that counts.
LAYERS = (4, 20)
#: Of the bottleneck network that these widths make.
WEIGHTS = FEATURES * CLASSES + CLASSES + FEATURES * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES


def launch(ranks: int, *arguments: object) -> dict:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", "localhost:0", "-m", "condiff.distributed", *map(str, arguments), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def measure(n_nodes: int, ranks: int, epochs: int, folder: Path, problem: tuple) -> tuple[dict, list[Measurement]]:
    graph, x, classes = problem
    labels = Labels(classes, np.arange(1000), np.arange(1000, 2000))
    shards, fit, out = (folder / f"{name}-{n_nodes}-{ranks}" for name in ("shards", "fit", "out"))
    # The kernel graph's weights are normalised already.
    write_shards(shards, graph, x, labels, ranks=ranks, normalisation="none", self_loops=False)
    description, measured = Description.load(shards), []
    for layers in LAYERS:
        into = fit / str(layers)
        report = launch(ranks, "fit", shards, into, "--epochs", epochs, "--layers", layers, "--hidden", HIDDEN)
        measured += Measurement.of(report, description, WEIGHTS, layers)
    launch(ranks, "predict", shards, into, out)
    alone = folder / f"out-{n_nodes}-1"
    difference = float(np.abs(gather_output(out) - gather_output(alone)).max()) if alone.exists() else None
    row = {
        "n_nodes": n_nodes,
        "ranks": ranks,
        "partition": description.method,
        "cut_share": description.cut_entries / description.n_entries,
        "border_share": Workload.of(description, WEIGHTS, LAYERS[-1]).border_share,
        "difference_from_one_rank": difference,
        "used": report["ranks"],
        **{key: value for key, value in report.items() if key != "ranks"},
    }
    return row, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="20000,80000")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows, measured = [], []
    with tempfile.TemporaryDirectory() as name:
        for n_nodes in map(int, asked.nodes.split(",")):
            points = make_points(n_nodes)
            problem = (kernel_graph(points.x, 10), points.x, points.labels)
            for ranks in map(int, asked.ranks.split(",")):
                row, found = measure(n_nodes, ranks, asked.epochs, Path(name), problem)
                rows.append(row)
                measured += found
                most = {key: max(used[key] for used in row["used"]) for key in ("payload", "peak_memory")}
                print(
                    f"{n_nodes} nodes, {ranks} ranks: {row['seconds']:.1f} s, accuracy {row['accuracy']:.2f} %, "
                    f"border share {row['border_share']:.3f}, {most['payload'] / 1e6:.1f} MB sent and "
                    f"{most['peak_memory'] / 1e6:.0f} MB held by a rank at most, "
                    f"difference {row['difference_from_one_rank']}",
                    flush=True,
                )
    rates = fit_rates(measured)
    # Loopback is no network: one of 10 Gbit/s and 50 microseconds a message stands beside it.
    networks = {"as measured": rates, "of 10 Gbit/s": replace(rates, message=5e-5, network_byte=8e-10)}
    shares = {"as in the last fit": rows[-1]["border_share"], "at random": random_border_share(32, 16)}
    forecasts = []
    for (network, used), (partition, share) in product(networks.items(), shares.items()):
        work = Workload(1e8, 1.6e9, 47, 100, 100 * 64 + 64 * 47 + 100 * 47, LAYERS[-1], share)
        made = cost(work, 16, used)
        forecasts.append({"network": network, "partition": partition, "border_share": share, **made.to_dict()})
        print(
            f"100 million nodes on 16 machines, network {network}, partition {partition} (border share {share:.2f}): "
            f"{made.epoch_seconds:.0f} s an epoch ({made.exchange_seconds:.0f} in exchanges), "
            f"{made.bytes_per_layer / 1e9:.2f} GB sent a layer, {made.memory / 1e9:.1f} GB held and "
            f"{made.mapped / 1e9:.1f} GB mapped by a rank"
        )
    if asked.out:
        content = {
            "made": provenance_line("python benchmarks/sharded.py"),
            "fits": rows,
            "rates": asdict(rates),
            "forecasts": forecasts,
        }
        write_text(asked.out, json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
