"""``condiff certify``: how large a diffusion step may be on a graph, and what a given one does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from condiff.cli.output import console, print_json

if TYPE_CHECKING:
    from condiff.diffusion import Certificate
    from condiff.readers.node import NodeDataset


def command(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH|NAME", help="A graph file or folder, or cora, citeseer, pubmed.")
    ],
    strength: Annotated[
        float | None, typer.Option(min=0.0, help="Diffusion strength per layer whose effect to show.")
    ] = None,
    layers: Annotated[int, typer.Option(min=1, help="Number of layers of that strength.")] = 20,
    normalisation: Annotated[
        str, typer.Option(help="symmetric (D^-1/2 W D^-1/2), random_walk (D^-1 W) or none.")
    ] = "symmetric",
    self_loops: Annotated[str, typer.Option(help="add (the paper's), remove or keep.")] = "add",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Show the step-size limits of a graph, and what a given strength does on it.

    Explicit diffusion is stable up to 2 / lambda_max, and keeps probabilities valid up to 1 / max L_ii.
    Named graphs are reduced to their largest connected component, as in the paper.

    Example: [bold]condiff certify cora --strength 0.35[/bold]
    """
    dataset = _read(graph)

    from condiff.diffusion import certify
    from condiff.graph import Graph

    kind: Any = normalisation
    loops: Any = self_loops
    weights = Graph.of(dataset.adjacency).normalised(kind, loops)
    certificate = certify(weights)
    row: dict[str, Any] = {"graph": dataset.name, "edges": dataset.n_edges} | certificate.to_dict()
    if strength is not None:
        row |= {"strength": strength, "layers": layers, "problem": certificate.problem(strength)}
    if json:
        print_json([row])
        return
    _show(dataset, certificate, strength, layers)


def _read(graph: str) -> NodeDataset:
    from condiff.readers.node import largest_component
    from condiff.reproduce.datasets.graphs import load_graph
    from condiff.reproduce.datasets.planetoid import NAMES

    dataset = load_graph(graph, needs_features=False)
    return largest_component(dataset) if graph in NAMES else dataset


def _show(dataset: NodeDataset, certificate: Certificate, strength: float | None, layers: int) -> None:
    table = Table(
        box=None,
        show_header=False,
        pad_edge=False,
        title=f"Certificate of {escape(dataset.name)}",
        title_justify="left",
    )
    table.add_row("nodes", f"{dataset.n_nodes}")
    table.add_row("edges", f"{dataset.n_edges}")
    table.add_row(
        "lambda_max",
        f"{certificate.lambda_max:.3f}",
        f"at most {certificate.lambda_max_bound:.6g}, by {certificate.evidence}",
    )
    table.add_row("stability limit", f"{certificate.stability_limit:.3f}", "beyond it some modes grow with every layer")
    table.add_row(
        "positivity limit", f"{certificate.positivity_limit:.3f}", "up to it probabilities stay probabilities"
    )
    console.print(table)
    if strength is None:
        return
    problem = certificate.problem(strength)
    if problem is None:
        console.print(f"[green]strength {strength:g} is certified:[/green] {layers} layers keep probabilities valid")
        return
    more = math.ceil(layers * strength / certificate.positivity_limit)
    console.print(f"[yellow]{problem}[/yellow]")
    console.print(
        f"the same diffusion time within the limit: {more} layers of {layers * strength / more:.4g} "
        f"(instead of {layers} of {strength:g})"
    )
