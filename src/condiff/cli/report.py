"""``condiff report``: results or a model as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condiff.cli.output import check_out, console, print_json, typed, write_csv
from condiff.errors import InvalidInputError
from condiff.files import atomic_path


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The --out folder of condiff reproduce, ablate, demo or fit, or a model."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page; DIR/report.html by default.")
    ] = None,
    suggestions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a model: also write the rows to label next, as CSV.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Write one HTML page about results or a model: no network, opens from disk, prints.

    Of results: sortable tables with published values and differences, box plots, score against time, and what made
    every run. Of a model: how good it is, which points the diffusion changed and why, what to label next, and the
    certificate. Of a forecaster: what it is made of, its back-test, the neighbours, and a fan chart of every series.

    Example: [bold]condiff report results/node --out node.html[/bold]
    """
    from condiff.reproduce.report.folders import require_folder

    require_folder(folder)

    from condiff.reproduce.report.report import write_report

    target = folder / "report.html" if out is None else out
    if suggestions is not None:
        check_out(suggestions, suffixes=(".csv",))
        if not (folder / "model.json").is_file():
            raise InvalidInputError(f"--suggestions are of a model, and {folder} holds none")
    if suggestions is not None:
        _write_suggestions(folder, suggestions)
    write_report(folder, target, typed())
    if json:
        print_json([{"folder": str(folder), "out": str(target), "bytes": target.stat().st_size}])
        return
    console.print(f"written to {target}: open it in a browser", markup=False)


def _write_suggestions(folder: Path, out: Path) -> None:
    """Rows to label next, with their names, the best first."""
    from condiff.estimators import load

    model = load(folder)
    if not hasattr(model, "suggest"):
        raise InvalidInputError(f"--suggestions are rows to label, and {folder} holds a {type(model).__name__}")
    known = model.metadata_ if isinstance(model.metadata_, dict) else {}
    named = known.get("ids")
    ids = named if isinstance(named, list) else []
    header = ["row", "id", "answer", "probability", "rival", "rival_probability"]
    rows = [
        [
            it.row + 1,
            ids[it.row] if it.row < len(ids) else "",
            it.answer,
            it.probability,
            it.rival,
            it.rival_probability,
        ]
        for it in model.suggest(20)
    ]
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        write_csv(header, rows, stream)
