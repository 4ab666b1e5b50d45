"""``condiff report``: results or a model as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condiff.cli.output import console, print_json, typed


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The --out folder of condiff reproduce, ablate, demo or fit."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page; DIR/report.html by default.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Write one HTML page about results or a model: no network, opens from disk, prints.

    Of results: sortable tables with published values and differences, box plots, score against time, and what made
    every run. Of a model: how good it is, which points the diffusion changed and why, what to label next, and the
    certificate.

    Example: [bold]condiff report results/node --out node.html[/bold]
    """
    from condiff.reproduce.report.report import write_report

    target = folder / "report.html" if out is None else out
    write_report(folder, target, typed())
    if json:
        print_json([{"folder": str(folder), "out": str(target), "bytes": target.stat().st_size}])
        return
    console.print(f"written to {target}: open it in a browser", markup=False)
