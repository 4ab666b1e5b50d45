"""``condiff reproduce``: a benchmark of the paper, or its protocol on a user's graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condiff.cli.output import console, print_json, typed

TrainPerClass = Annotated[int | None, typer.Option(min=1, help="Training nodes of each class; 20 by default.")]
ValidationPerClass = Annotated[int | None, typer.Option(min=1, help="Validation nodes of each class; 30 by default.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes, one torch thread each; one a core by default.")]


def command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="cora, citeseer, pubmed; GRAPH.npz, or a folder with edges.csv and nodes.csv; or covid; or prostate.",
        ),
    ],
    method: Annotated[
        str, typer.Option(metavar="A,B|all", help="Methods, with commas between; 'all' for every one.")
    ] = "COIN",
    splits: Annotated[
        int | None,
        typer.Option(
            min=1, help="Random splits of a graph: 10 by default, 100 in the paper. For covid, masks: 10 in the paper."
        ),
    ] = None,
    inits: Annotated[
        int | None,
        typer.Option(
            min=1, help="Random initialisations of each: 2 by default, 20 in the paper. For covid, 10 as in the paper."
        ),
    ] = None,
    train_per_class: TrainPerClass = None,
    validation_per_class: ValidationPerClass = None,
    missing: Annotated[
        float | None, typer.Option(min=0.0, max=0.97, help="covid: the part that is hidden; 0.9 by default.")
    ] = None,
    causal: Annotated[bool, typer.Option("--causal", help="covid: standardise by the training days alone.")] = False,
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
    """Rerun a benchmark of the paper, beside its published values, or its protocol for graphs on one of yours.

    Every run is kept in FOLDER/runs.sqlite as soon as it is there: stop at any moment, and the same command goes on
    where it stopped. Runs that are already there are never made again, whichever command made them.

    Examples
    --------
    [bold]condiff reproduce cora[/bold]

    [bold]condiff reproduce cora citeseer --method COIN,GCN,APPNP --splits 20 --inits 5[/bold]

    [bold]condiff reproduce covid --method all --missing 0.9[/bold]

    [bold]condiff reproduce my_graph.npz --method all --train-per-class 5 --validation-per-class 5[/bold]
    """
    from condiff.cli.sweeping import follow
    from condiff.experiments import figures
    from condiff.experiments.plans import Wish, plan
    from condiff.experiments.pool import process_pool
    from condiff.experiments.provenance import provenance
    from condiff.experiments.results import STORE, headline, write_results
    from condiff.experiments.runner import sweep
    from condiff.experiments.store import Store
    from condiff.experiments.tables import terminal_table

    if pictures:
        figures.require_matplotlib()  # now rather than in an hour
    per_class = (train_per_class or 20, validation_per_class or 30)
    wish = Wish(
        targets=tuple(targets),
        methods=method,
        changes=tuple(changes or ()),
        splits=splits,
        inits=inits,
        per_class=per_class if train_per_class or validation_per_class else None,
        import_splits=import_splits,
        export_splits=export_splits,
        missing=missing,
        causal=causal,
    )
    work = plan(wish)
    made = provenance(typed())
    with Store(out / STORE) as store:
        with process_pool(jobs) as pool:
            follow(sweep(work.jobs, store, pool, made), len(work.jobs), work.metrics[0])
        runs, everything = store.held([job.key for job in work.jobs]), store.runs(work.task)
        makers = store.makers(work.task)
    rows, all_rows = headline(runs, work.metrics), headline(everything, work.metrics)
    write_results(out, all_rows, made, makers=makers, splits=work.splits, texts=work.texts(everything))
    if pictures:
        work.draw(everything, all_rows, out)
    if json:
        print_json(rows)
        return
    console.print(terminal_table(rows))
    console.print(f"\nwritten to {out}: summary.json, summary.csv, table.md, table.tex, {STORE}", markup=False)
