"""``condiff predict``: answers of a saved model for the rows of a table."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from condiff.cli.output import console, print_json
from condiff.errors import InvalidInputError
from condiff.files import atomic_path
from condiff.readers.tables import read_table


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that condiff fit wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A CSV, TSV, Parquet, NPZ or NPY file.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the answers: .csv or .parquet.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Answer the rows of a table: its ids with label and probabilities, or with value.

    Rows that the model was fitted on get their fitted answer, so predicting the same file completes it.

    Example: [bold]condiff predict flowers-model flowers.csv --out answers.csv[/bold]
    """
    from condiff.encoders.table import model_encoder, row_names, table_features
    from condiff.estimators import COINClassifier, load

    if out.suffix not in (".csv", ".parquet"):
        raise InvalidInputError(f"--out must end in .csv or .parquet, but is {out}")
    fitted = load(model)
    encoder = model_encoder(fitted, model)
    table = read_table(data)
    X = table_features(table, encoder)
    columns: dict[str, list[Any]] = {"id": row_names(table, fitted.metadata_["id_column"] or table.id_column())}
    if isinstance(fitted, COINClassifier):
        probabilities = fitted.predict_proba(X)
        labels = fitted.classes_[probabilities.argmax(axis=1)]
        columns["label"] = labels.tolist()
        columns["confidence"] = probabilities.max(axis=1).round(6).tolist()
        for position, name in enumerate(fitted.classes_.tolist()):
            columns[f"p_{name}"] = probabilities[:, position].round(6).tolist()
        counts = {
            str(label): count for label, count in sorted(Counter(columns["label"]).items(), key=lambda c: str(c[0]))
        }
        unsure = int((probabilities.max(axis=1) < 0.5).sum())
        told = ", ".join(f"{label} {count}" for label, count in counts.items())
        summary: dict[str, Any] = {"rows": table.n_rows, "labels": counts, "below_half": unsure, "out": str(out)}
        line = f"{table.n_rows} rows: {told}; {unsure} with a confidence below one half"
    else:
        values = np.asarray(fitted.predict(X))
        columns["value"] = values.tolist()
        summary = {"rows": table.n_rows, "mean": float(values.mean()), "out": str(out)}
        line = f"{table.n_rows} rows: values from {values.min():.4g} to {values.max():.4g}, mean {values.mean():.4g}"
    _write(columns, out)
    if json:
        print_json([summary])
    else:
        console.print(line, markup=False)
        console.print(f"written to {out}", markup=False)


def _write(columns: dict[str, list[Any]], out: Path) -> None:
    with atomic_path(out) as temporary:
        if out.suffix == ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table(columns), temporary)
            return
        with temporary.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
