"""``condiff fit``: from a table with a few labels to a model folder."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from condiff.cli.inputs import (
    CLUSTER_HELP,
    COVERAGE,
    DATA_HELP,
    WORKERS_HELP,
    FitFacts,
    check_model_folder,
    choice_or_shares,
    half_width,
    is_graph,
    is_shared,
    open_data,
)
from condiff.cli.learnable import (
    Categorical,
    Drop,
    Edges,
    Embedding,
    Id,
    Image,
    Keep,
    Learnable,
    Reading,
    Text,
    Unlabelled,
)
from condiff.cli.output import NamedLines, console, counted, note, print_json, typed, working
from condiff.cli.several import show_several, summarised_several
from condiff.cli.target import SEVERAL, Target, row_weights
from condiff.errors import InvalidInputError
from condiff.readers.cells import listed
from condiff.readers.targets import Label, class_slips

if TYPE_CHECKING:
    from condiff.estimators import COINClassifier, COINRegressor

# A class is reported on its own where the largest has this many times the labels of the smallest.
_UNEQUAL = 1.5


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the model.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column to learn; leave its cells empty where you do not know."),
    ] = None,
    annotators: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Instead of --target: one column of labels per annotator, whose votes are learned as chances.",
        ),
    ] = None,
    chances: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Instead of --target: one column per class with its chance; those of a row sum to 1, or all are "
            "empty. p_cat, as condiff predict writes it, is the class cat.",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="A cell of --target may hold several labels with this between them, such as ';': each is learned by "
            "itself. A cell of it alone is a row without any.",
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="How much each row counts: 1 where empty; one of 0 is left out."),
    ] = None,
    task: Annotated[
        str, typer.Option(help="classification, regression, or auto: numbers with fractions are a regression.")
    ] = "auto",
    unlabelled: Unlabelled = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    text: Text = None,
    image: Image = None,
    embedding: Embedding = "auto",
    id: Id = None,
    edges: Edges = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What answers before the diffusion: auto, residual (the paper's), blend."),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How rows are joined: auto; knn, to the nearest; leaves of trees; answers; or see --edges.",
        ),
    ] = None,
    class_weight: Annotated[
        str | None, typer.Option(metavar="WEIGHTS", help="balanced, or yes=2,no=1: how much each class counts.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(metavar="SHARES", help="labels, uniform, or yes=0.1,no=0.9: how common each class is."),
    ] = None,
    exact_sizes: Annotated[
        bool, typer.Option("--exact-sizes", help="Give each class exactly as many rows as --prior says.")
    ] = False,
    label_noise: Annotated[
        bool,
        typer.Option("--label-noise", help="Some labels may be wrong: find those, and answer for them too."),
    ] = False,
    n_neighbors: Annotated[
        int | None, typer.Option(min=2, help="Neighbours that a point is joined to, itself counted.")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=0, help="Diffusion layers; chosen from the graph by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initialisations.")] = 0,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help=CLUSTER_HELP)] = None,
    workers: Annotated[int | None, typer.Option(min=1, help=WORKERS_HELP)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is there already.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Learn from a table of which only a few rows are labelled.

    Rows whose target is empty take part: the model diffuses its answers over a graph of all rows.
    Numbers, dates and categories are encoded, texts and images embedded, missing values filled and flagged, ids left
    out; it prints what it did.

    Example: [bold]condiff fit flowers.csv --target species --out flowers-model[/bold]

    Texts are found by themselves: [bold]condiff fit tickets.csv --target topic --out tickets-model[/bold]

    Past one machine: [bold]condiff fit parquet-folder --target kind --cluster tcp://HOST:8786 --out model[/bold]
    """
    started = time.perf_counter()
    if task not in ("auto", "classification", "regression"):
        raise InvalidInputError(f"--task must be auto, classification or regression, not {task!r}")
    weights = choice_or_shares(class_weight, ["balanced"], "--class-weight")
    shares = choice_or_shares(prior, ["labels", "uniform"], "--prior")
    if exact_sizes and shares is None:
        raise InvalidInputError("--exact-sizes needs the sizes of the classes: give them with --prior")
    named = {"--target": target, "--annotators": annotators, "--chances": chances}
    several = [option for option, value in named.items() if value is not None]
    if len(several) > 1:
        raise InvalidInputError(f"{' and '.join(several)} exclude each other: each says what to learn")
    soft = _soft(annotators, chances)
    if soft and label_noise:
        raise InvalidInputError(f"--label-noise is for plain labels, and {several[0]} gives chances: leave one out")
    if separator is not None:
        _check_separator(separator, target, task, several[:1] if soft else [], weights, shares, label_noise)
    check_model_folder(out, force)
    beside = [*soft, *([] if weight is None else [weight])]
    reading = Reading.of([*(drop or ()), *beside], keep, categorical, text, image, embedding, id)
    options: dict[str, Any] = {"random_state": seed, "n_neighbors": n_neighbors, "layers": layers, "base": base}
    options |= {"graph": graph, "class_weight": weights, "class_prior": shares}
    options["quota"] = "exact" if exact_sizes else None
    options["label_noise"] = "auto" if label_noise else None
    if is_shared(data, cluster, workers):
        if edges is not None:
            raise InvalidInputError("edges are for a table in one file: leave out --edges")
        alone = {"--label-noise": label_noise, "--weight": weight, "--annotators": annotators, "--chances": chances}
        alone["--separator"] = separator
        for option in (option for option, value in alone.items() if value):
            raise InvalidInputError(f"{option} is for a table in one file: leave it out")
        given = {name: value for name, value in options.items() if value is not None}
        _fit_shared(data, target, out, task, unlabelled or (), reading.columns, given, (cluster, workers, force, json))
        return
    if target is None and not soft:
        if not is_graph(data):
            raise InvalidInputError("--target is missing: name the column to learn")
        target = "label"
    table, edge_file = open_data(data, edges)
    if table.path.is_dir() and target not in table.columns:
        raise InvalidInputError(
            f"{data} is a folder of images, which has no labels of its own: label some with condiff label {data}, or "
            "fit a table that names the images and their labels"
        )
    if target is not None and separator is not None:
        wanted = Target.of_several(table, target, separator, unlabelled or ())
    elif target is not None:
        wanted = Target.of(table, target, unlabelled or (), task)
    elif task == "regression":
        raise InvalidInputError(f"{several[0]} is for classes: leave out --task regression, or name a --target")
    else:
        wanted = (Target.of_votes if annotators else Target.of_chances)(table, soft, unlabelled or ())
    counting = None if weight is None else row_weights(table, weight, wanted.known)
    if edge_file is not None and graph not in (None, "precomputed"):
        raise InvalidInputError(f"--graph {graph} and edges exclude each other: leave one of them out")
    options |= {"class_weight": wanted.by_code(weights), "class_prior": wanted.by_code(wanted.shares(shares))}
    found = Learnable.of(table, target or "", reading, edge_file)
    with working(f"fitting {table.n_rows} rows"):
        model = fit_table(found, wanted, options, counting)
        facts = save_model(model, found, wanted, out, data.name)
    summarise = summarised_several if separator is not None else summarised
    summary = summarise(model, found, wanted, facts, out, json) | {"seconds": time.perf_counter() - started}
    if json:
        print_json([summary])
    elif separator is not None:
        show_several(summary)
    else:
        _show(summary, model)


def _soft(annotators: str | None, chances: str | None) -> list[str]:
    """The columns that give chances instead of labels."""
    named = annotators if chances is None else chances
    option = "--annotators" if chances is None else "--chances"
    found = [] if named is None else [name.strip() for name in named.split(",")]
    if named is not None and (len(found) < 2 or "" in found or len(set(found)) < len(found)):
        raise InvalidInputError(f"{option} must name two or more different columns, separated by commas, not {named!r}")
    return found


def _check_separator(
    separator: str, target: str | None, task: str, soft: Sequence[str], weights: Any, shares: Any, noisy: bool
) -> None:
    """Refuse what means nothing where a row may have several labels."""
    if not separator.strip():
        raise InvalidInputError("--separator must be something that is not blank, such as ';' or '|'")
    if target is None and not soft:
        raise InvalidInputError("--separator is for the cells of --target: name that column")
    against = {**dict.fromkeys(soft, True), "--task regression": task == "regression", "--label-noise": noisy}
    against |= {"--class-weight": weights, "--prior": shares}
    for option in (option for option, given in against.items() if given):
        raise InvalidInputError(
            f"{option} is for rows of one label, and --separator for rows of several: leave one out"
        )


def fit_table(found: Learnable, wanted: Target, options: dict[str, Any], weights: Any = None) -> Any:
    """Fit the estimator of the task with the options that are not None; ``classes_`` are those of the table."""
    from condiff.encoders.encoding import EncodedTable

    X: Any = EncodedTable(found.table, found.encoder) if found.encoded else found.table.matrix
    adjacency = found.adjacency
    if adjacency is not None:
        options = {**options, "graph": "precomputed"}
    if X is None:
        X, adjacency = adjacency, None  # without features, the edges themselves are what is learned from
    model = _fit(wanted.task, options, X, wanted.labels, adjacency, weights)
    if wanted.separator:
        model.classes_ = np.array(wanted.classes, dtype=object)
    elif wanted.classes:
        # Fitted on codes, because a class of the table may itself be called -1.
        called = np.array(wanted.classes, dtype=object if isinstance(wanted.classes[0], str) else None)
        model.classes_, model.transduction_ = called, called[model.transduction_]
    return model


def save_model(model: Any, found: Learnable, wanted: Target, out: Path, data: str, **more: Any) -> dict[str, Any]:
    """Write a model's folder with what ``predict`` and ``report`` need beside it; returns that."""
    from condiff.encoders.table import row_looks, row_names
    from condiff.reproduce.provenance import provenance
    from condiff.uncertainty.blocks import carried

    facts = FitFacts(
        target=found.target,
        unlabelled=list(wanted.unlabelled),
        id_columns=found.ids,
        ids=row_names(found.table, found.ids[0] if found.ids else None),
        edges=found.adjacency is not None,
        separator=wanted.separator,
    )
    seen = [str(column.note) for column in found.learned] or [f"{model.n_features_in_} features as they are"]
    written = {
        **asdict(facts), **row_looks(found.table, found.learned), "columns": seen,
        "carried": {} if wanted.separator else carried(model),
        "data": data, "made": provenance(typed()), **more,
    }  # fmt: skip
    model.save(out, written)
    return written


def summarised(
    model: COINClassifier | COINRegressor,
    found: Learnable,
    wanted: Target,
    facts: dict[str, Any],
    out: Path,
    certified: bool,
) -> dict[str, Any]:
    """What was fitted and how good it is, as plain values."""
    return {
        "task": wanted.task,
        "rows": found.table.n_rows,
        "labelled": wanted.labelled,
        "file": [*found.table.notes, *found.notes],
        "columns": facts["columns"],
        "carried": facts["carried"],
        "ids": found.ids,
        "notes": [*wanted.notes, *class_slips(wanted.classes, wanted.counts)],
        "nodes": model.graph_.n_nodes,
        "edges": model.graph_.n_edges,
        "unreached": int(model.unlabelled_component_.sum()),
        "choice": str(model.choice_),
        "layers": model.layers_,
        "strength": model.strength_,
        "certificate": model.certificate_.to_dict() if certified else None,
        "cv_score": None if np.isnan(model.cv_score_) else model.cv_score_,
        **_score(model, wanted.classes),
        "half_width": half_width(model),
        "doubted": _doubted(model, facts["ids"]),
        "model": str(out),
    }


def _doubted(model: COINClassifier | COINRegressor, names: Sequence[int | str]) -> list[int | str] | None:
    """The rows whose labels are very likely wrong; None where nobody asked."""
    if getattr(model, "label_noise", None) != "auto":
        return None
    marked: Any = getattr(model, "doubted_", ())
    return [names[row] for row in np.flatnonzero(marked).tolist()]


def _fit_shared(
    data: Path,
    target: str | None,
    out: Path,
    task: str,
    unlabelled: Sequence[str],
    columns: dict[str, Any],
    options: dict[str, Any],
    how: tuple[str | None, int | None, bool, bool],
) -> None:
    """Fit a folder of Parquet files on the workers of a cluster."""
    cluster, workers, force, json = how
    if target is None:
        raise InvalidInputError("--target is missing: name the column to learn")
    from condiff.distributed.tables import fit_table

    found = fit_table(
        data,
        target,
        out,
        cluster=cluster,
        workers=workers,
        task=task,
        unlabelled=unlabelled,
        columns=columns,
        force=force,
        report=note,
        **options,
    )
    if json:
        print_json([found.to_dict()])
        return
    lines = NamedLines()
    for name, line in found.lines():
        lines.add(name, [line])
    lines.show()


def _fit(task: str, options: dict[str, Any], X: Any, labels: Any, adjacency: Any, weights: Any) -> Any:
    """Fit the estimator of the task with the options that were given; one that it lacks is an error."""
    from sklearn.utils._param_validation import InvalidParameterError

    from condiff.estimators import COINClassifier, COINMultiLabelClassifier, COINRegressor

    kind = COINRegressor if task == "regression" else COINClassifier
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in kind._get_param_names():
            option = {"class_prior": "--prior", "quota": "--exact-sizes"}.get(name, "--" + name.replace("_", "-"))
            raise InvalidInputError(f"{option} does not apply to a {task}: leave it out")
    edges = {} if adjacency is None else {"adjacency": adjacency}
    try:
        model = kind(**given)
        return (COINMultiLabelClassifier(model) if task == SEVERAL else model).fit(X, labels, weights, **edges)
    except InvalidParameterError as error:
        wrong = next((name for name in given if f"'{name}' parameter" in str(error)), "")
        allowed = kind._parameter_constraints.get(wrong, [])
        choices = sorted({word for each in allowed for word in getattr(each, "options", ())})
        either = " or ".join([", ".join(choices[:-1]), *choices[-1:]] if len(choices) > 1 else choices)
        advice = f"--{wrong} must be {either}, not {given[wrong]!r}" if choices else str(error)
        raise InvalidInputError(advice) from error


def _score(model: COINClassifier | COINRegressor, classes: Sequence[Label]) -> dict[str, Any]:
    """The baseline to compare the held-out score with, and the score of every class.

    ``better`` says whether it is better by more than two standard errors, or may be chance; ``most`` is the best score
    that there can be, where labels of equal rows or annotators contradict each other.
    """
    from scipy.stats import binomtest

    record = model.record_
    truth, counting = record.targets[record.held_out], record.weights[record.held_out]
    n = len(np.unique(record.nodes[record.held_out]))  # of several chances at a row one label is made
    facts: dict[str, Any] = {"always": None, "always_score": None, "class_scores": None, "better": None, "most": None}
    facts |= {"interval": None, "reliability": None, "class_reliability": None}
    if not record.is_scored:
        return facts
    if not classes:
        gains = ((truth - truth.mean(axis=0)) ** 2 - (truth - record.answers) ** 2).mean(axis=1)
        return facts | {"better": bool(gains.mean() > 2 * gains.std() / math.sqrt(n))}
    right = record.answers.argmax(axis=1) == truth
    counts = np.bincount(truth, counting, minlength=len(classes))
    most = int(counts.argmax())
    base = float(counts[most] / counts.sum())
    facts |= {"always": classes[most], "always_score": base}
    facts["interval"] = tuple(binomtest(round(model.cv_score_ * n), n).proportion_ci(method="wilson"))
    facts["reliability"] = [asdict(group) for group in model.reliability()]
    groups = zip(classes, model.reliability(per_class=True), strict=True)
    facts["class_reliability"] = {str(label): asdict(group) for label, group in groups}
    facts["better"] = bool(model.cv_score_ - base > 2 * math.sqrt(base * (1 - base) / n))
    if n < len(truth):
        nodes, place = np.unique(record.nodes[record.held_out], return_inverse=True)
        best = np.zeros(len(nodes))
        np.maximum.at(best, place, counting)
        facts["most"] = float(best.sum() / counts.sum())
    if counts.max() >= _UNEQUAL * counts.min():
        found = np.bincount(truth, counting * right, minlength=len(classes))
        shares = zip(classes, found, counts, strict=True)
        facts["class_scores"] = {str(label): float(hits / count) for label, hits, count in shares if count}
    return facts


def _show(summary: dict[str, Any], model: COINClassifier | COINRegressor) -> None:
    lines = NamedLines()
    add = lines.add
    total = sum(summary["labelled"].values())
    shown = ", ".join(f"{label} {count}" for label, count in list(summary["labelled"].items())[:12])
    shown += ", ..." if len(summary["labelled"]) > 12 else ""
    add("data", [f"{summary['rows']} rows, {total} labelled: {shown} ({summary['task']})", *summary["file"]])
    add("note", summary["notes"])
    add("columns", _most(summary["columns"]))
    if summary["ids"]:
        add("ids", [f"{', '.join(map(repr, summary['ids']))} names the rows in the answers"])
    if summary["carried"]:
        add("carried", [carried_line(summary["carried"])])
    unreached = f", {summary['unreached']} rows out of every label's reach" if summary["unreached"] else ""
    add("graph", [f"{summary['nodes']} points, {summary['edges']} edges{unreached}"])
    add("chosen", [summary["choice"]])
    add("diffusion", [_diffusion_line(model)])
    add("score", _score_lines(summary, model.folds))
    if summary["doubted"] is not None:
        add("labels", [_doubted_line(summary["doubted"], total)])
    add("model", [f"{summary['model']}, in {summary['seconds']:.1f} s"])
    lines.show()
    console.print(f"answer rows with: condiff predict {summary['model']} DATA --out answers.csv", markup=False)
    console.print(f"see what it learned with: condiff report {summary['model']}", markup=False)


def _diffusion_line(model: COINClassifier | COINRegressor) -> str:
    from condiff.diffusion.stability import max_diagonal

    if not model.layers_:
        return "none: the base answers alone"
    steps = f"{counted(model.layers_, 'layer')} of {model.strength_:.3g}, time {model.diffusion_time_:.3g}"
    # The whole certificate, with its eigenvalue, is worth its time only past this limit.
    largest = max_diagonal(model.graph_.laplacian())
    if model.strength_ * largest > 1 + 1e-6:
        return f"{steps}; {model.certificate_.problem(model.strength_)}"
    return f"{steps}; certified: up to {1 / largest:.3g} nothing leaves its range"


def _score_lines(summary: dict[str, Any], folds: int) -> list[str]:
    score, always = summary["cv_score"], summary["always"]
    if score is None:
        return ["too few labels to hold some out; at least ten are needed"]
    if summary["task"] == "regression":
        lines = [f"R^2 {score:.3f} on held-out labels ({folds} folds); always the mean would be 0"]
        if summary["half_width"]:
            lines.append(f"{100 * COVERAGE:.0f} % of them within {summary['half_width']:.4g} of the answer")
        if score <= 0:
            lines.append(
                "this is no better than always answering the mean: the columns say too little about the target"
            )
        elif not summary["better"]:
            lines.append(
                "this is no clear gain over always answering the mean: it may be chance; more labels would tell"
            )
        return lines
    base = f"always {always!r} would be {100 * summary['always_score']:.1f} %"
    low, high = summary["interval"]
    known = f"95 % interval {100 * low:.0f} to {100 * high:.0f}; {folds} folds"
    lines = [f"{100 * score:.1f} % accuracy on held-out labels ({known}); {base}"]
    if summary["most"]:
        lines.append(f"labels contradict each other: the likeliest of each row would be {100 * summary['most']:.1f} %")
    if summary["class_scores"]:
        each = [f"{label} {100 * share:.0f} %" for label, share in list(summary["class_scores"].items())[:12]]
        lines.append("of each class: " + ", ".join(each) + ", ..." * (len(summary["class_scores"]) > 12))
    if score <= summary["always_score"]:
        lines.append(
            f"this is no better than always answering {always!r}: more labels, or columns that say more, are needed"
        )
    elif not summary["better"]:
        lines.append(
            f"this is no clear gain over always answering {always!r}: it may be chance; more labels would tell"
        )
    return lines + [
        f"of {group['n']} held-out answers of about {100 * group['said']:.0f} % only "
        f"{100 * group['low']:.0f} to {100 * group['high']:.0f} % are right: trust such probabilities less"
        for group in summary["reliability"] or ()
        if group["high"] < group["said"]
    ]


def _doubted_line(doubted: Sequence[int | str], total: int) -> str:
    if not doubted:
        return "nothing says that some are wrong; all are believed"
    return f"{len(doubted)} of {total} are very likely wrong and were left out: {listed(list(map(str, doubted)), 12)}"


def carried_line(shares: dict[str, float]) -> str:
    """Which part of the columns the answers came from, in words."""
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in ranked)
    return f"by {ranked[0][0]}: of the answers, neighbours by one part of the columns alone tell {told}"


def _most(lines: list[str], most: int = 40) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"and {len(lines) - most} more; --json lists all"]
