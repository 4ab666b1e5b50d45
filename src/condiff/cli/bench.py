"""``condiff bench``: engines against the paper's own computation, how methods scale, and accuracy beside peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup

from condiff.cli.output import console, note, print_json, typed
from condiff.errors import InvalidInputError, did_you_mean

_HELP = """Measure on this machine: speed, scale, and accuracy beside peers.

[dim]Examples[/dim]

[bold]condiff bench node fewshot[/bold]  (engines against the paper's way; the same as condiff bench speed node fewshot)

[bold]condiff bench scale --points 62500 --products[/bold]

[bold]condiff bench cluster --rows 100000 --workers 2[/bold]

[bold]condiff bench tables --budget r20,5[/bold]

[bold]condiff bench text --dataset ag_news --budget 1,5[/bold]

[bold]condiff bench coverage --base linear --draws 50[/bold]

[bold]condiff bench forecast --panels england --rates 0,0.5,0.9[/bold]"""
_DEFAULT = "speed"


class _Group(TyperGroup):
    """Its own commands and those made from protocols; a task alone means ``speed``."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_benches()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _benches():
            return super().get_command(ctx, cmd_name)
        from condiff.cli.reproduce import Listed

        return Listed.of(cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in ("-h", "--help", *self.list_commands(ctx)):
            named = [arg for arg in args if arg in ("scale", "cluster", *_benches())]
            if named and any(not arg.startswith("-") for arg in args[: args.index(named[0])]):
                raise InvalidInputError(f"{named[0]} is run by itself: leave out the other tasks")
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group,
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _benches() -> tuple[str, ...]:
    from condiff.reproduce.protocols import BENCHES

    return BENCHES


Threads = Annotated[int | None, typer.Option(min=1, help="Threads; one per core by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")]


@app.command("speed")
def _speed(
    tasks: Annotated[
        list[str], typer.Argument(metavar="TASK...", help="node, fewshot, covid, prostate, or all of these.")
    ],
    repeats: Annotated[int, typer.Option(min=1, help="How often each is timed; the table has medians.")] = 3,
    threads: Threads = None,
    before: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The --out of an earlier run, whose ratios to show beside these."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the JSON here too.")] = None,
    json: Json = False,
) -> None:
    """Time one fit of each task as the paper's code does it and by the fast engine, on the same work in one run.

    The paper's way is plain autograd on dense features, through every diffusion layer, one fit at a time, on all
    cores. Where that takes minutes, it is timed over a few epochs and extrapolated to the paper's number of them.
    Loops are compiled before any clock starts. Keep the machine otherwise idle.

    Example: [bold]condiff bench node fewshot[/bold]
    """
    import json as codec
    import os

    import torch

    from condiff.files import write_text
    from condiff.reproduce.bench.speed import TASKS, measure
    from condiff.reproduce.provenance import provenance

    wanted = list(TASKS) if "all" in tasks else list(dict.fromkeys(tasks))
    for task in wanted:
        if task not in TASKS:
            others = ("scale", "cluster", *_benches())
            raise InvalidInputError(
                f"unknown task {task!r}{did_you_mean(task, [*TASKS, *others])}: "
                f"known are {', '.join(TASKS)}, and by themselves {', '.join(others)}"
            )
    earlier = {} if before is None else _ratios(before)
    torch.set_num_threads(threads or os.cpu_count() or 1)
    made = provenance(typed())
    # All data first: missing data is reported before anything is measured.
    works = [work for task in wanted for work in TASKS[task]()]
    rows = [measure(work, repeats, note) | {"threads": torch.get_num_threads(), "made": made} for work in works]
    if out is not None:
        write_text(out, codec.dumps(rows, indent=2) + "\n")
    if json:
        print_json(rows)
        return
    console.print(_table(rows, earlier))
    threads = torch.get_num_threads()
    console.print(
        f"time of one fit on {threads} thread(s), medians of {repeats}; difference: the largest between outputs"
    )


@app.command("scale")
def _scale(
    points: Annotated[list[int] | None, typer.Option(metavar="N", help="A number of points; may be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be repeated.")] = None,
    products: Annotated[
        bool, typer.Option("--products", help="Also diffuse over a graph as large as ogbn-products.")
    ] = False,
    limit: Annotated[float, typer.Option(min=1, help="Seconds after which a method gives up.")] = 1800.0,
    threads: Threads = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the results are, with a picture beside; what is there is kept.")
    ] = Path("results/scale/bench.json"),
    json: Json = False,
) -> None:
    """Run COIN on up to a million made-up points whose best possible accuracy is known, beside other methods.

    Each runs in a process of its own; what the file already holds is not run again.

    Example: [bold]condiff bench scale --points 62500 --products[/bold]
    """
    import json as codec
    import os

    from condiff.reproduce.bench.scale import SIZES, exponents, run_sweep
    from condiff.reproduce.bench.scale.methods import METHODS
    from condiff.reproduce.bench.scale.points import CLASSES, LABELS_PER_CLASS

    points, methods = points or [], method or []
    for name in methods:
        if name not in METHODS:
            raise InvalidInputError(
                f"unknown method {name!r}{did_you_mean(name, METHODS)}: known are {', '.join(METHODS)}"
            )
    fewest = 2 * CLASSES * LABELS_PER_CLASS
    if any(size < fewest for size in points):
        raise InvalidInputError(f"--points must be at least {fewest:,}: {LABELS_PER_CLASS} per class have labels")
    # With --products alone, no points are run.
    sizes = tuple(points) or (() if products else SIZES)
    rows = run_sweep(
        out,
        sizes=sizes,
        methods=tuple(methods) or tuple(METHODS),
        products=products,
        threads=threads or os.cpu_count() or 1,
        limit=limit,
        command=typed(),
        report=note,
    )
    if any(row["points"] and row["status"] == "ok" for row in rows):
        from condiff.pages.canvas import save
        from condiff.reproduce.figures.bench import draw_scale

        save(draw_scale(codec.loads(out.read_text())), out.with_suffix(".png"))
    if json:
        print_json(rows)
        return
    console.print(_scale_table(rows))
    for name, slope in exponents(rows).items():
        console.print(f"{name}: time grows as points to the power of {slope:.2f}", markup=False)


@app.command("cluster")
def _cluster(
    rows: Annotated[list[int] | None, typer.Option(metavar="N", help="A number of rows; may be repeated.")] = None,
    workers: Annotated[
        list[int] | None, typer.Option(min=1, help="A number of workers; may be repeated. 1, 2 and 4 by default.")
    ] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory limit of a worker.")] = "1.5GB",
    base: Annotated[str, typer.Option(metavar="NAME", help="What is diffused: auto, residual or blend.")] = "auto",
    kill: Annotated[bool, typer.Option("--kill", help="End a worker in every stage by signal 9.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the results are; what is there is kept.")] = Path(
        "results/scale/cluster.json"
    ),
    json: Json = False,
) -> None:
    """Fit a table of made-up rows on workers of a Dask cluster, which are processes of this machine.

    The rows lie in Parquet files, and their best possible accuracy is known. Up to 500,000 rows, one process without
    workers is measured beside them. What the file already holds is not run again.

    Example: [bold]condiff bench cluster --rows 100000 --workers 2[/bold]
    """
    from condiff.reproduce.bench.scale.cluster import run_cluster
    from condiff.reproduce.bench.scale.points import CLASSES, LABELS_PER_CLASS

    sizes = rows or [2_000_000]
    if any(size < 2 * CLASSES * LABELS_PER_CLASS for size in sizes):
        raise InvalidInputError(f"--rows must be at least {2 * CLASSES * LABELS_PER_CLASS:,}")
    found = run_cluster(
        out,
        rows=sizes,
        workers=workers or [1, 2, 4],
        memory=memory,
        base=base,
        kill=kill,
        command=typed(),
        report=note,
    )
    if json:
        print_json(found)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("rows", "workers", "seconds", "processor", "memory of a worker", "moved", "accuracy", "best", "note"):
        table.add_column(name, justify="left" if name == "note" else "right")
    for row in found:
        alone = not row["workers"]
        table.add_row(
            f"{row['rows']:,}",
            "one process" if alone else str(row["workers"]),
            f"{row['seconds']:.1f}",
            f"{row['processor_seconds']:.1f}",
            "-" if alone else f"{row['memory_bytes'] / 1e9:.2f} GB",
            "-" if alone else f"{row['moved_bytes'] / 1e9:.2f} GB",
            f"{100 * row['accuracy']:.2f} %",
            f"{100 * row['best_accuracy']:.2f} %",
            "" if alone else f"recall {100 * row['recall']:.1f} %, {len(row['killed'])} workers killed",
        )
    console.print(table)


def _table(rows: list[dict[str, Any]], earlier: dict[str, float]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    before = ("before",) if earlier else ()
    for name in ("task", "paper's way", "engine", "ratio", *before, "difference", "memory", "published GPU"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for row in rows:
        gpu = row["published_gpu_seconds"]
        table.add_row(
            row["task"],
            f"{_time(row['reference_seconds'])}",
            f"{_time(row['engine_seconds'])}",
            _ratio(row["ratio"]),
            *(_ratio(earlier.get(row["task"])) for _ in before),
            f"{row['max_difference']:.0e}",
            f"{row['peak_memory_mb']:.0f} MB",
            "-" if gpu is None else _time(gpu),
        )
    return table


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _ratios(file: Path) -> dict[str, float]:
    """The ratio of every task in the file of an earlier run."""
    import json as codec

    try:
        return {row["task"]: float(row["ratio"]) for row in codec.loads(file.read_text())}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"--before {file} is not a file that condiff bench --out wrote: {error!r}") from error


def _scale_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("method", "points", "seconds", "memory", "accuracy", "best", "note"):
        table.add_column(name, justify="left" if name in ("method", "note") else "right")
    for row in rows:
        size = f"{row.get('nodes', row['points']):,}" if row["status"] == "ok" else f"{row['points']:,}"
        if row["status"] != "ok":
            table.add_row(row["method"], size, "-", "-", "-", "-", f"gave up: {row['reason']}")
            continue
        remark = ""
        if row["method"] == "products":
            remark = f"{row['bytes_a_second'] / 1e9:.1f} GB/s, {100 * row['share_of_triad']:.0f} % of a triad's"
        elif "seconds_neighbours" in row:
            parts = ("neighbours", "graph", "fit", "predict")
            remark = ", ".join(f"{part} {row[f'seconds_{part}']:.0f} s" for part in parts)
            remark += f"; recall {100 * row['recall']:.1f} %"
        shares = [f"{100 * row[field]:.2f} %" if field in row else "-" for field in ("accuracy", "best_accuracy")]
        table.add_row(
            row["method"], size, f"{row['seconds']:.1f}", f"{row['memory_mb'] / 1024:.1f} GB", *shares, remark
        )
    return table
