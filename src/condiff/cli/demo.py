"""``condiff demo``: the embedded default, in about a minute."""

from __future__ import annotations

import json as json_module
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from condiff.cli.output import console, print_json, progress
from condiff.cli.reproduce import Jobs
from condiff.files import write_text


def command(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the table and the picture.")] = Path(
        "condiff-demo"
    ),
    draws: Annotated[int, typer.Option(min=2, help="Draws of the labels; more are more certain and take longer.")] = 10,
    jobs: Jobs = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Classify scikit-learn's digits from 1, 2, 5 and 10 labels per class, beside other methods.

    Nothing is downloaded. Writes the table (JSON) and a picture of accuracy against diffusion time.

    Example: [bold]condiff demo --draws 20[/bold]
    """
    from condiff.reproduce import demo, figures
    from condiff.reproduce.pool import process_pool
    from condiff.reproduce.provenance import provenance

    started = time.perf_counter()
    runs: list[demo.Run] = []
    with process_pool(jobs) as pool:
        for found in progress(demo.run_all(pool, draws), len(demo.jobs(draws)), "digits"):
            runs.extend(found)
    rows = demo.summarise(runs)
    table_path, picture_path = out / "accuracy.json", out / "accuracy-against-time.png"
    write_text(table_path, json_module.dumps(rows, indent=2) + "\n")
    made = provenance(f"condiff demo --draws {draws}")
    write_text(out / "provenance.json", json_module.dumps(made, indent=2) + "\n")
    figures.save(figures.draw_time(runs), picture_path)
    if json:
        print_json(rows)
        return
    table = Table(
        "method",
        *(f"{labels} per class" for labels in demo.LABELS_PER_CLASS),
        title=f"Accuracy (%) on 1,797 digits, mean ± standard deviation over {draws} draws of the labels",
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for method in demo.METHODS:
        cells = [f"{row['mean']:.1f} ± {row['std']:.1f}" for row in rows if row["method"] == method]
        table.add_row(method, *cells, style="bold" if method == "COIN" else None)
    console.print(table)
    console.print(
        f"\nin {time.perf_counter() - started:.0f} s; written to {table_path} and {picture_path}", markup=False
    )
