"""``condiff reproduce``: a benchmark of the paper, or its protocol on a user's graph."""

from __future__ import annotations

from pathlib import Path

from condiff.cli import reproduce_options as options
from condiff.cli.output import console, note, print_json, typed
from condiff.errors import InvalidInputError


def command(
    targets: options.Targets,
    method: options.Method = "COIN",
    splits: options.Splits = None,
    inits: options.Inits = None,
    train_per_class: options.TrainPerClass = None,
    validation_per_class: options.ValidationPerClass = None,
    missing: options.Missing = None,
    causal: options.Causal = False,
    features: options.Features = None,
    dataset: options.Dataset = None,
    backbone: options.Backbone = None,
    episodic: options.Episodic = False,
    episodes: options.EpisodeCount = None,
    shot: options.Shot = None,
    ways: options.Ways = None,
    queries: options.Queries = None,
    tasks: options.Tasks = None,
    unbalanced: options.Unbalanced = False,
    changes: options.Changes = None,
    import_splits: options.ImportSplits = None,
    export_splits: options.ExportSplits = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    out: options.Out = Path("condiff-results"),
    pictures: options.Pictures = True,
    json: options.Json = False,
) -> None:
    """Rerun a benchmark of the paper, beside its published values, or its protocol for graphs on one of yours.

    Every run is kept in FOLDER/runs.sqlite as soon as it is there: stop at any moment, and the same command goes on
    where it stopped. Runs that are already there are never made again, whichever command made them.

    Examples
    --------
    [bold]condiff reproduce cora[/bold]

    [bold]condiff reproduce cora citeseer --method COIN,GCN,APPNP --splits 20 --inits 5[/bold]

    [bold]condiff reproduce covid --method all --missing 0.9[/bold]

    [bold]condiff reproduce fewshot --dataset cub --shot 5 --method COIN,SimpleShot --tasks 1000[/bold]

    [bold]condiff reproduce fewshot --dataset omniglot --backbone conv4 --episodic --method MAML --episodes 2000[/bold]

    [bold]condiff reproduce my_graph.npz --method all --train-per-class 5 --validation-per-class 5[/bold]
    """
    from condiff.cli.sweeping import follow
    from condiff.reproduce.cluster import AHEAD, cluster_pool
    from condiff.reproduce.plans import FewShotWish, Wish, plan
    from condiff.reproduce.pool import process_pool
    from condiff.reproduce.provenance import provenance
    from condiff.reproduce.results import STORE, headline, write_results
    from condiff.reproduce.runner import sweep
    from condiff.reproduce.store import Store
    from condiff.reproduce.tables import terminal_table

    if jobs is not None and cluster is not None:
        raise InvalidInputError("--jobs is for processes of this machine: leave it out with --cluster")
    if episodic and cluster is not None:
        raise InvalidInputError("--episodic trains on this machine: leave out --cluster")
    if episodic:
        _decode(targets, dataset)
    elif dataset is not None or backbone is not None:
        features = _embedded(targets, features, dataset, backbone)
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
        fewshot=FewShotWish(
            features,
            shot,
            ways,
            queries,
            tasks,
            unbalanced,
            dataset if episodic else None,
            backbone if episodic else None,
            episodic,
            episodes,
        ),
    )
    work = plan(wish)
    made = provenance(typed())
    with process_pool(jobs) if cluster is None else cluster_pool(cluster) as pool, Store(out / STORE) as store:
        store.refuse_mixture(job.key for job in work.jobs)
        held = store.find(job.key for job in work.jobs)
        work.prepare(pool, [job for job in work.jobs if job.key.digest not in held], note)
        ahead = 64 if cluster is None else AHEAD
        follow(sweep(work.jobs, store, pool, made, ahead=ahead), len(work.jobs), work.metrics[0])
        runs, everything = store.held([job.key for job in work.jobs]), store.runs(work.task)
        makers = store.makers(work.task)
    rows, all_rows = headline(runs, work.metrics), headline(everything, work.metrics)
    write_results(out, all_rows, made, makers=makers, splits=work.splits, texts=work.texts(everything))
    if pictures:
        work.draw(everything, all_rows, out)
    if json:
        print_json([row.to_dict() for row in rows])
        return
    console.print(terminal_table(rows))
    console.print(f"\nwritten to {out}: summary.json, summary.csv, table.md, table.tex, {STORE}", markup=False)


def _embedded(targets: list[str], features: Path | None, dataset: str | None, backbone: str | None) -> Path:
    """The features of an image set's novel classes, made if they are not in the cache."""
    from condiff.cli.backbone import batches_shown
    from condiff.reproduce.protocols.fewshot import embedded

    if targets != ["fewshot"]:
        option = "--dataset" if dataset is not None else "--backbone"
        raise InvalidInputError(f"{option} means nothing for {', '.join(targets)}: leave it out")
    if features is not None:
        raise InvalidInputError("--features has the features of a data set already: leave out --dataset and --backbone")
    if dataset is None:
        raise InvalidInputError("--backbone embeds the images of a data set: give --dataset cub|omniglot|DIR as well")
    with batches_shown("images embedded") as shown:
        return embedded(dataset, backbone or "efficientnet_lite0", on_batch=shown)


def _decode(targets: list[str], dataset: str | None) -> None:
    """Bring the images of a set to size, showing how that goes; what is wrong with the options is told by the plan."""
    from condiff.cli.backbone import batches_shown
    from condiff.readers.images import PARTS
    from condiff.reproduce.datasets.image_sets import load_image_set

    if targets == ["fewshot"] and dataset is not None:
        with batches_shown("images decoded") as shown:
            for part in PARTS:
                load_image_set(dataset, part, on_batch=shown)
