"""``condiff fit``: from a table with a few labels to a model folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table as Grid

from condiff.cli.output import console, print_json, typed
from condiff.encoders.columns import learn_columns
from condiff.errors import InvalidInputError
from condiff.readers.tables import read_table
from condiff.readers.targets import encode_classes, infer_task, regression_values

if TYPE_CHECKING:
    from condiff.estimators import COINClassifier, COINRegressor


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A CSV, TSV, Parquet, NPZ or NPY file.")],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column to learn; leave its cells empty where you do not know.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the model.")],
    task: Annotated[
        str, typer.Option(help="classification, regression, or auto: numbers with fractions are a regression.")
    ] = "auto",
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Do not learn from this column.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Learn from this column even if it looks like an id.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Numbers in this column are names, such as zip codes.")
    ] = None,
    n_neighbors: Annotated[int, typer.Option(min=2, help="Neighbours that a point is joined to, itself counted.")] = 12,
    layers: Annotated[
        int | None, typer.Option(min=0, help="Diffusion layers; chosen from the graph by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initialisations.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Learn from a table of which only a few rows are labelled.

    Rows whose target is empty take part: the model diffuses its answers over a graph of all rows. Numeric columns are
    standardised, categories one-hot encoded, missing values filled and flagged; what was done is printed.

    Example: [bold]condiff fit flowers.csv --target species --out flowers-model[/bold]
    """
    from condiff.encoders.table import TableEncoder, row_names, table_features
    from condiff.estimators import COINClassifier, COINRegressor
    from condiff.estimators.saving import check_folder
    from condiff.reproduce.provenance import provenance

    started = time.perf_counter()
    if task not in ("auto", "classification", "regression"):
        raise InvalidInputError(f"--task must be auto, classification or regression, not {task!r}")
    check_folder(out)
    table = read_table(data)
    values = table.target(target)
    where = f"target column {target!r} of {data}"
    encoder = None
    if table.matrix is None:
        chosen_columns = {"drop": [target, *(drop or ())], "keep": keep or [], "categorical": categorical or []}
        encoder = TableEncoder.of(learn_columns(table, **chosen_columns), table.n_rows, **chosen_columns)
    X = table_features(table, encoder)
    used = [] if encoder is None else [block.column for block in encoder.blocks_]
    id_column = table.id_column([*used, target])
    chosen = infer_task(values) if task == "auto" else task
    options: dict[str, Any] = {"n_neighbors": n_neighbors, "random_state": seed}
    if layers is not None:
        options["layers"] = layers
    model: COINClassifier | COINRegressor
    if chosen == "classification":
        codes, classes = encode_classes(values, where)
        fraction = next((label for label in classes if isinstance(label, float)), None)
        if fraction is not None:
            raise InvalidInputError(f"{where} is continuous ({fraction} is no class): use --task regression")
        model = COINClassifier(**options).fit(X, codes)
        # Fitted on codes, because a class of the table may itself be called -1.
        names = np.array(classes, dtype=object if isinstance(classes[0], str) else None)
        model.classes_, model.transduction_ = names, names[model.transduction_]
        labelled = {
            str(label): int(count) for label, count in zip(classes, np.bincount(codes[codes >= 0]), strict=True)
        }
    else:
        numbers = regression_values(values, where)
        model = COINRegressor(**options).fit(X, numbers)
        labelled = {"values": int(np.isfinite(numbers).sum())}
    metadata = {
        "encoder": None if encoder is None else encoder.to_state(),
        "id_column": id_column,
        "target": target,
        "task": chosen,
        "data": data.name,
        "ids": row_names(table, id_column),
        "made": provenance(typed()),
    }
    model.save(out, metadata)
    summary = {
        "task": chosen,
        "rows": table.n_rows,
        "labelled": labelled,
        "columns": [str(note) for note in encoder.describe()]
        if encoder
        else [f"{X.shape[1]} features used as they are"],
        "nodes": model.graph_.n_nodes,
        "edges": model.graph_.n_edges,
        "unreached": int(model.unlabelled_component_.sum()),
        "layers": model.layers_,
        "strength": model.strength_,
        "certificate": model.certificate_.to_dict(),
        "cv_score": None if np.isnan(model.cv_score_) else model.cv_score_,
        "seconds": time.perf_counter() - started,
        "model": str(out),
    }
    if json:
        print_json([summary])
    else:
        _show(summary, model)


def _show(summary: dict[str, Any], model: COINClassifier | COINRegressor) -> None:
    grid = Grid(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    total = sum(summary["labelled"].values())
    shown = ", ".join(f"{label} {count}" for label, count in list(summary["labelled"].items())[:12])
    shown += ", ..." if len(summary["labelled"]) > 12 else ""
    grid.add_row("data", f"{summary['rows']} rows, {total} labelled: {escape(shown)} ({summary['task']})")
    for position, line in enumerate(summary["columns"]):
        grid.add_row("columns" if position == 0 else "", escape(line))
    unreached = f", {summary['unreached']} rows out of every label's reach" if summary["unreached"] else ""
    grid.add_row("graph", f"{summary['nodes']} points, {summary['edges']} edges{unreached}")
    problem = model.certificate_.problem(model.strength_)
    limit = f"certified: up to {model.certificate_.positivity_limit:.3g} nothing leaves its range"
    grid.add_row(
        "diffusion",
        f"{model.layers_} layers of {model.strength_:.3g}, time {model.diffusion_time_:.3g}; {problem or limit}",
    )
    if summary["cv_score"] is None:
        grid.add_row("score", "too few labels to hold some out; at least ten are needed")
    elif summary["task"] == "classification":
        grid.add_row("score", f"{100 * summary['cv_score']:.1f} % accuracy on held-out labels ({model.folds} folds)")
    else:
        grid.add_row("score", f"R^2 {summary['cv_score']:.3f} on held-out labels ({model.folds} folds)")
    model_folder = escape(summary["model"])
    grid.add_row("model", f"{model_folder}, in {summary['seconds']:.1f} s")
    console.print(grid)
    console.print(f"answer rows with: condiff predict {summary['model']} DATA --out answers.csv", markup=False)
    console.print(f"see what it learnt with: condiff report {summary['model']}", markup=False)
