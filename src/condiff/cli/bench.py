"""``condiff bench``: the engines against the paper's own way to compute, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from condiff.cli.output import console, note, print_json, typed


def command(
    tasks: Annotated[
        list[str],
        typer.Argument(metavar="TASK...", help="node, fewshot, covid, prostate, or all of these: all; or scale."),
    ],
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each; medians are shown.")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of both; one a core by default.")] = None,
    points: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Of scale: a number of points; several may be given.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Of scale: only this method.")] = None,
    products: Annotated[
        bool, typer.Option("--products", help="Of scale: a diffusion on a graph as large as ogbn-products.")
    ] = False,
    limit: Annotated[float, typer.Option(min=1, help="Of scale: seconds after which a method gives up.")] = 1800.0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the JSON here too.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Time one fit of each task in the paper's own way and by the exact fast engine, on the same work in one run.

    The paper's way is plain autograd on dense features, through every diffusion layer, one fit at a time, on all
    cores. Where it takes minutes, it is timed over a few epochs and extended to the paper's number of them. Keep the
    machine idle meanwhile.

    The task scale is another: COIN on up to a million made-up points whose best accuracy is known, beside other
    methods, each in a process of its own. Results go to --out, results/scale/bench.json by default, with a picture
    beside it; what the file holds already is not run again.

    Example: [bold]condiff bench node fewshot[/bold] or [bold]condiff bench scale --points 62500 --products[/bold]
    """
    import json as codec
    import os

    import torch

    from condiff.errors import InvalidInputError, did_you_mean
    from condiff.files import write_text
    from condiff.reproduce.bench.speed import TASKS, measure
    from condiff.reproduce.provenance import provenance

    if "scale" in tasks:
        if len(tasks) > 1:
            raise InvalidInputError("scale is run by itself: leave out the other tasks")
        from condiff.cli.bench_scale import bench_scale

        target = out or Path("results/scale/bench.json")
        bench_scale(points or (), method or (), products, limit, threads or os.cpu_count() or 1, target, json)
        return
    wanted = list(TASKS) if "all" in tasks else list(dict.fromkeys(tasks))
    for task in wanted:
        if task not in TASKS:
            raise InvalidInputError(
                f"unknown task {task!r}{did_you_mean(task, TASKS)}: known are {', '.join(TASKS)}, scale"
            )
    torch.set_num_threads(threads or os.cpu_count() or 1)
    made = provenance(typed())
    # All data first: what is missing is said before anything has been measured.
    works = [work for task in wanted for work in TASKS[task]()]
    rows = [measure(work, repeats, note) | {"threads": torch.get_num_threads(), "made": made} for work in works]
    if out is not None:
        write_text(out, codec.dumps(rows, indent=2) + "\n")
    if json:
        print_json(rows)
        return
    console.print(_table(rows))
    threads = torch.get_num_threads()
    console.print(f"time of one fit on {threads} thread(s), medians of {repeats}; difference: the largest of outputs")


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("task", "paper's way", "engine", "ratio", "difference", "memory", "published GPU"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for row in rows:
        gpu = row["published_gpu_seconds"]
        table.add_row(
            row["task"],
            f"{_time(row['reference_seconds'])}",
            f"{_time(row['engine_seconds'])}",
            f"{row['ratio']:.0f}" if row["ratio"] >= 10 else f"{row['ratio']:.1f}",
            f"{row['max_difference']:.0e}",
            f"{row['peak_memory_mb']:.0f} MB",
            "-" if gpu is None else _time(gpu),
        )
    return table


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
