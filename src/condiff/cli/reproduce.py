"""``condiff reproduce``: a benchmark of the paper, or the same protocol on a user's graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from condiff.cli.output import console, print_json, typed

if TYPE_CHECKING:
    from condiff.baselines.node.method import NodeMethod
    from condiff.experiments.splits import Split

TrainPerClass = Annotated[int, typer.Option(min=1, help="Training nodes of each class.")]
ValidationPerClass = Annotated[int, typer.Option(min=1, help="Validation nodes of each class.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes, one torch thread each; one a core by default.")]


def command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...", help="cora, citeseer, pubmed; GRAPH.npz, or a folder with edges.csv and nodes.csv."
        ),
    ],
    method: Annotated[
        str, typer.Option(metavar="A,B|all", help="Methods, with commas between; 'all' for every one.")
    ] = "COIN",
    splits: Annotated[int, typer.Option(min=1, help="Random splits; the paper has 100.")] = 10,
    inits: Annotated[int, typer.Option(min=1, help="Random initialisations a split; the paper has 20.")] = 2,
    train_per_class: TrainPerClass = 20,
    validation_per_class: ValidationPerClass = 30,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[METHOD.]NAME=VALUE",
            help="Change a method's setting, such as COIN.layers=40 or training.weight_decay=0.01; repeatable.",
        ),
    ] = None,
    import_splits: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the splits of this file instead of drawing them.")
    ] = None,
    export_splits: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the splits, every node of them, as JSON.")
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Store of runs, tables and pictures; what is there is kept and used.")
    ] = Path("condiff-results"),
    pictures: Annotated[bool, typer.Option(help="Draw the figures.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Rerun the paper's node classification benchmark, beside its published values.

    Every run is kept in FOLDER/runs.sqlite as soon as it is there: stop at any moment, and the same command goes on
    where it stopped. Runs that are already there are never made again, whichever command made them.

    Examples
    --------
    [bold]condiff reproduce cora[/bold]

    [bold]condiff reproduce cora citeseer --method COIN,GCN,APPNP --splits 20 --inits 5[/bold]

    [bold]condiff reproduce my_graph.npz --method all --train-per-class 5 --validation-per-class 5[/bold]
    """
    from condiff.cli.sweeping import follow
    from condiff.experiments import figures, node
    from condiff.experiments.pool import process_pool
    from condiff.experiments.provenance import provenance
    from condiff.experiments.results import STORE, headline, write_results
    from condiff.experiments.runner import sweep
    from condiff.experiments.splits import random_splits, read_splits, write_splits
    from condiff.experiments.store import Store
    from condiff.experiments.tables import terminal_table

    if pictures:
        figures.require_matplotlib()  # now rather than in an hour
    if (import_splits or export_splits) and len(targets) > 1:
        raise typer.BadParameter("splits are of one graph: give one target with --import-splits or --export-splits")
    work: list[node.NodeJob] = []
    drawn: list[dict[str, Any]] = []
    for target in targets:
        dataset = node.load(target)
        chosen: dict[int, Split] = (
            read_splits(import_splits, dataset.labels)
            if import_splits
            else random_splits(
                dataset.labels, splits, train_per_class=train_per_class, validation_per_class=validation_per_class
            )
        )
        if export_splits:
            write_splits(export_splits, chosen, dataset.name, dataset.labels)
        drawn += [{"dataset": dataset.name, "seed": seed, "hash": split.hash} for seed, split in chosen.items()]
        work += node.jobs(target, _methods(method, target, changes or []), chosen, inits)

    made = provenance(typed())
    with Store(out / STORE) as store:
        with process_pool(jobs) as pool:
            follow(sweep(work, store, pool, made), len(work), node.METRIC)
        runs, everything = store.held([job.key for job in work]), store.runs("node")
    rows = headline(runs, [node.METRIC])
    all_rows = headline(everything, [node.METRIC])
    write_results(out, all_rows, made, splits=drawn)
    if pictures:
        figures.accuracy_intervals(all_rows, out / "accuracy.png")
        figures.time_complexity(all_rows, out / "time.png")
        figures.memory_bars(all_rows, out / "memory.png")
    if json:
        print_json(rows)
        return
    console.print(terminal_table(rows))
    console.print(f"\nwritten to {out}: summary.json, summary.csv, table.md, table.tex, {STORE}", markup=False)


def _methods(names: str, target: str, changes: list[str]) -> dict[str, NodeMethod]:
    from condiff.baselines.node import METHODS, method_named
    from condiff.baselines.node.override import override

    wanted = list(METHODS) if names.strip().lower() == "all" else [name.strip() for name in names.split(",")]
    found = {}
    for each in wanted:
        name, kind = method_named(each)
        found[name] = kind.recommended(Path(target).stem)
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set takes [METHOD.]NAME=VALUE, not {change!r}")
        owner, _, rest = path.partition(".")
        named = [name for name in found if name.lower() == owner.lower()]
        for name in named or found:
            found[name] = override(found[name], rest if named else path, value)
    return found

