"""``condiff ablate``: how layers and strength of the diffusion change the accuracy."""

from __future__ import annotations

import dataclasses
import json as json_module
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from condiff.cli.output import console, print_json, typed
from condiff.cli.reproduce import Jobs
from condiff.errors import InvalidInputError
from condiff.files import write_text


def command(
    targets: Annotated[
        list[str], typer.Argument(metavar="TARGET...", help="cora, citeseer, pubmed; or a graph file or folder.")
    ],
    layers: Annotated[str, typer.Option(metavar="K,K,...", help="Numbers of diffusion layers.")] = "20,40",
    strength: Annotated[
        str, typer.Option(metavar="FROM:TO:STEP", help="Strengths per layer, both ends included, or a list a,b,c.")
    ] = "0.05:0.60:0.05",
    splits: Annotated[int, typer.Option(min=1, help="Random splits; 10 in the paper.")] = 10,
    inits: Annotated[int, typer.Option(min=1, help="Random initialisations per split; 10 in the paper.")] = 1,
    train_per_class: Annotated[int, typer.Option(min=1, help="Training nodes per class.")] = 20,
    validation_per_class: Annotated[int, typer.Option(min=1, help="Validation nodes per class.")] = 30,
    jobs: Jobs = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the store of runs, the table and the picture.")
    ] = Path("condiff-ablation"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Vary the diffusion of COIN, draw the paper's box plots, and test its two findings as claims.

    The findings: accuracy has a broad optimum in layers * strength; and at the same product, the number of layers makes
    no difference. Runs are kept in FOLDER/runs.sqlite, and the same command resumes where it stopped.

    Example: [bold]condiff ablate cora --layers 20,40 --strength 0.05:0.60:0.05[/bold]
    """
    from condiff.cli.sweeping import follow
    from condiff.diffusion import certify
    from condiff.graph import Graph
    from condiff.pages.canvas import save
    from condiff.reproduce import figures
    from condiff.reproduce.ablation import claims
    from condiff.reproduce.baselines.node.coin import COIN
    from condiff.reproduce.pool import process_pool
    from condiff.reproduce.protocol import jobs as make_jobs
    from condiff.reproduce.protocols.node import Node, NodeOptions, load
    from condiff.reproduce.provenance import provenance
    from condiff.reproduce.results import STORE, headline, write_results
    from condiff.reproduce.runner import sweep
    from condiff.reproduce.store import Store

    numbers, strengths = _numbers(layers), _strengths(strength)
    options = NodeOptions(
        targets=tuple(targets),
        splits=splits,
        inits=inits,
        train_per_class=train_per_class,
        validation_per_class=validation_per_class,
    )
    node, work = Node(), []
    limits: dict[str, dict[str, float]] = {}
    for case, drawn in node.cases(options):
        dataset = load(*case.source)
        certificate = certify(Graph.of(dataset.adjacency).normalised(self_loops="add"))
        limits[dataset.name] = {
            "stable up to": certificate.stability_limit,
            "positive up to": certificate.positivity_limit,
        }
        recommended = COIN.recommended(dataset.name)
        for number in numbers:
            for value in strengths:
                method = dataclasses.replace(recommended, layers=number, strength=value)
                work += make_jobs(node, case, {"COIN": method}, drawn, inits)

    made = provenance(typed())
    with process_pool(jobs) as pool, Store(out / STORE) as store:
        follow(sweep(work, store, pool, made), len(work), node.metrics)
        runs, makers = store.held([job.key for job in work]), store.makers()
    rows = headline(runs, node.metrics)
    found = claims(runs)
    write_results(out, rows, made, makers=makers)
    write_text(out / "claims.json", json_module.dumps(found, indent=2, allow_nan=False) + "\n")
    save(figures.draw_strength(runs, limits=limits), out / "strength.png")
    if json:
        print_json([row.to_dict() for row in rows])
        return
    table = Table("data set", "claim", "measured", "holds", box=None, pad_edge=False, header_style="bold")
    for claim in found:
        table.add_row(claim["dataset"], claim["claim"], claim["text"], "yes" if claim["holds"] else "no")
    console.print(table)
    console.print(f"\nwritten to {out}: strength.png, claims.json, summary.json, table.md, {STORE}", markup=False)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise InvalidInputError(f"--layers takes whole numbers of at least 1, separated by commas, not {text!r}")
    return found


def _strengths(text: str) -> list[float]:
    try:
        if ":" in text:
            low, high, step = (float(part) for part in text.split(":"))
            count = int((high - low) / step + 1e-9) + 1
            found = [round(low + index * step, 10) for index in range(count)]
        else:
            found = [float(part) for part in text.split(",")]
    except (ValueError, ZeroDivisionError):
        found = []
    if not found or not min(found) > 0:
        raise InvalidInputError(f"--strength takes FROM:TO:STEP or positive numbers separated by commas, not {text!r}")
    return found
