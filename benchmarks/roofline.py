"""How near each phase of a fit comes to what this machine can do: its arithmetic, and its traffic with memory.

    python benchmarks/roofline.py [--out results/speed] [--graphs cora,citeseer,pubmed] [--repeats 5]

Prints a table in Markdown and writes roofline.json. One thread and processor time, so that others on the machine
disturb it less; the machine's own peaks (a matrix product, a copy) are measured in the same run, in turns.

Floating-point operations are those of the algorithm. Bytes are what must cross the main memory at least: every array
that a phase reads or writes, once. ``gathered`` are the bytes of the rows that sparse entries point to, which come from
the caches: where a phase is far from both peaks, these say why.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from condiff.files import write_text
from condiff.kernels import warm_up
from condiff.model import COIN
from condiff.reproduce.baselines.node.coin import COIN as Method
from condiff.reproduce.bench.speed import fewshot
from condiff.reproduce.protocols import node
from condiff.reproduce.provenance import provenance
from condiff.reproduce.splits import random_split
from condiff.training import Problem
from condiff.training.engines.blocked import CompiledBlocks, blocks_of
from condiff.training.engines.projected import readout_of
from condiff.training.losses import loss_gradient


@dataclass
class Phase:
    """One phase: what it does, how much of it, and how long that takes, in one of some fits."""

    fit: str
    phase: str
    flops: float
    bytes: float
    gathered: float
    seconds: float = float("inf")
    fits: int = 1

    def row(self, flops_a_second: float, bytes_a_second: float) -> str:
        """A row of the table."""
        bound = max(self.flops / flops_a_second, self.bytes / bytes_a_second)
        cells = [
            self.fit,
            self.phase,
            f"{1e3 * self.seconds:.1f} ms",
            f"{self.flops / 1e9:.2f}",
            f"{self.bytes / 1e6:.0f}",
            f"{self.gathered / 1e6:.0f}",
            f"{self.flops / self.seconds / 1e9:.1f}",
            f"{(self.bytes + self.gathered) / self.seconds / 1e9:.1f}",
            f"{100 * bound / self.seconds:.0f} %",
        ]
        return f"| {' | '.join(cells)} |"


def node_phases(name: str) -> list[tuple[Phase, Callable[[], object]]]:
    """The phases of a node fit: the rows of the diffusion, once; then the three parts of an epoch."""
    dataset = node.load(name)
    given = node.problem(dataset, random_split(dataset.labels, 0))
    method = Method.recommended(given.dataset)
    operator = given.graph.normalised(self_loops="add").laplacian()
    model = COIN.build(given.n_features, given.n_classes, layers=method.layers, strength=method.strength)
    problem = Problem(
        model, given.x, operator, given.labels, given.train, validation=given.validation, settings=method.training
    )
    blocks = blocks_of(problem)
    assert isinstance(blocks, CompiledBlocks), "the compiled loops need numba"
    items, head = problem.items, problem.head
    readout = readout_of(problem, items.nodes)
    u = blocks.outputs()
    seen = readout.forward(u)[:, : len(items.nodes)]
    gradient = loss_gradient(seen, items.target, items.weight, head)
    blocks.backward(readout.adjoint(gradient))
    n, width, classes = problem.n_nodes, given.n_features, given.n_classes
    words, entries = problem.sparse_x.values.numel(), operator.weights.numel()
    labelled = len(items.nodes) + (0 if problem.held_out is None else len(problem.held_out.nodes))
    product, dense = 2.0 * words * width, 2.0 * n * width * classes
    weights, hidden, inputs = 4.0 * width**2, 4.0 * n * width, 8.0 * words
    once = method.layers * 2.0 * entries * labelled

    def loss() -> None:
        found = readout.forward(u)
        readout.adjoint(loss_gradient(found[:, : len(items.nodes)], items.target, items.weight, head))

    return [
        (
            Phase(
                name, "rows of the diffusion, once", once, 8.0 * n * labelled, method.layers * 4.0 * entries * labelled
            ),
            lambda: readout_of(problem, items.nodes),
        ),
        (Phase(name, "forward, once", product + dense, weights + hidden + inputs, 2 * product), blocks.start),
        (
            Phase(
                name,
                "backward, Adam, forward",
                2 * product + 3 * dense + 12.0 * width**2,
                6 * weights + 3 * hidden + 2 * inputs,
                4 * product,
            ),
            lambda: blocks.move(blocks._to_z),
        ),
        (
            Phase(name, "diffusion and loss, there and back", 4.0 * labelled * n * classes, 8.0 * labelled * n, 0.0),
            loss,
        ),
    ]


def task_phase(shots: int, features: int) -> tuple[Phase, Callable[[], object]]:
    """All of a few-shot task: its graph, its first weights and their product with the features, then the epochs."""
    work, n = fewshot.workload(shots, features), fewshot.n_points(shots)
    wide, narrow = 2.0 * n * features, 2.0 * n * features * fewshot.WAYS
    # An epoch multiplies the Gram matrix by the gradients of the hidden units; the rest goes over units and classes.
    flops = wide * (features + n) + work.epochs * (wide * n + 3 * narrow)
    phase = Phase(work.task, "graph, first weights, 100 epochs", flops, 4.0 * features**2, 0.0, fits=work.engine_fits)
    return phase, lambda: work.engine(work.epochs)


def measure(graphs: list[str], repeats: int) -> tuple[list[Phase], dict[str, float]]:
    """All phases, the fastest of some turns each, and the machine's peaks in the same turns."""
    warm_up(["blocks", "gram", "draw"])
    work = [each for name in graphs for each in node_phases(name)]
    work += [task_phase(shots, features) for features in (640, 1280) for shots in (1, 5)]
    left, right = torch.rand(1024, 1024), torch.rand(1024, 1024)
    source, target = torch.ones(2**24), torch.empty(2**24)
    gemm = copy = float("inf")
    for _ in range(repeats):
        gemm = min(gemm, *(_seconds(lambda: left @ right) for _ in range(5)))
        copy = min(copy, *(_seconds(lambda: target.copy_(source)) for _ in range(5)))
        for phase, run in work:
            phase.seconds = min(phase.seconds, _seconds(run) / phase.fits)
    machine = {"flops_a_second": 2 * 1024**3 / gemm, "bytes_a_second": 2 * 4 * 2**24 / copy}
    return [phase for phase, _ in work], machine


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/speed"))
    parser.add_argument("--graphs", default="cora,citeseer,pubmed")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        phases, machine = measure(arguments.graphs.split(","), arguments.repeats)
    print("| fit | phase | time | Gflop | MB | MB gathered | Gflop/s | GB/s | of the bound |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for phase in phases:
        print(phase.row(**machine))
    print(f"\nOne thread: {machine['flops_a_second'] / 1e9:.0f} Gflop/s, {machine['bytes_a_second'] / 1e9:.1f} GB/s.")
    made = provenance(f"python benchmarks/roofline.py --graphs {arguments.graphs} --repeats {arguments.repeats}")
    content = {"made": made, "machine": machine, "phases": [asdict(phase) for phase in phases]}
    write_text(arguments.out / "roofline.json", json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
