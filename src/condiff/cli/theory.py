"""``condiff theory``: which axioms an example satisfies, with which constants, and which equation it solves."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from condiff.cli import theory_pictures
from condiff.cli.output import console, print_json, progress

app = typer.Typer(
    name="theory",
    help="The theory, running: axioms, generators, certified smoothing, pictures.\n\n"
    "The examples are those of the paper's framework, as operators on functions or on the nodes of a graph, and some "
    "that break an axiom each. An operator of your own is checked from Python: condiff.theory.check_axioms.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("axioms")
def axioms_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Examples; all by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Measure the six axioms on the examples: a table, or with names also the worst cases found.

    Example: [bold]condiff theory axioms euler-past-limit dropout[/bold]
    """
    from condiff.theory.verdicts import AXIOMS
    from condiff.theory.zoo import ZOO, get_entry

    chosen = [get_entry(name) for name in names or ZOO]
    tables = [entry.check() for entry in progress(chosen, len(chosen), "examples")]
    if json:
        print_json([{"example": entry.name} | table.to_dict() for entry, table in zip(chosen, tables, strict=True)])
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("example", no_wrap=True)
    for axiom in AXIOMS.values():
        shown.add_column(axiom)
    for entry, table in zip(chosen, tables, strict=True):
        cells = [f"[red]{row.cell.replace('**', '')}[/red]" if not row.holds else row.cell for row in table]
        shown.add_row(entry.name, *cells)
    console.print(shown)
    for table in tables if names else []:
        console.print("\n" + escape(str(table)))


@app.command("generator")
def generator_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An example; condiff theory axioms lists them.")],
    at: Annotated[float, typer.Option(min=0.0, help="The time.")] = 0.0,
    points: Annotated[int, typer.Option(min=1, help="Number of points, or of nodes of a graph, to show.")] = 4,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Recover velocity and diffusion of an example from its small-time action, with error bars.

    The example's own formulas are shown beside them, where it has any.

    Example: [bold]condiff theory generator dropout[/bold]
    """
    import numpy as np

    from condiff.errors import InvalidInputError
    from condiff.theory.function_axioms import Box
    from condiff.theory.generator import recover, recover_on_graph
    from condiff.theory.operators import FunctionOperator
    from condiff.theory.zoo import get_entry

    entry = get_entry(name)
    operator = entry.build()
    if at > 0.98 * operator.horizon:
        raise InvalidInputError(f"the flow of {name} ends at {operator.horizon:g}: --at must be well below")
    if isinstance(operator, FunctionOperator):
        x = Box(operator.dimension).points(points, seed=0)
        found = recover(operator, x, at)
        said = entry.coefficients(x, at)
    elif entry.points is not None:
        found = recover_on_graph(operator, entry.points(), at)
        said = None
    else:
        raise InvalidInputError(f"{name} has no generator on the points of its graph: it is not linear")
    rows = [_row(found, k) for k in range(min(points, len(found.x)))]
    for k, row in enumerate(rows if said is not None else []):
        assert said is not None
        row |= {"said_v": said[0][k].tolist(), "said_sigma": said[1][k].tolist()}
    if json:
        print_json([{"example": name, "t": at, "semidefinite": found.is_semidefinite, "points": rows}])
        return
    console.print(f"{entry.title}: v = {escape(entry.v)}; sigma = {escape(entry.sigma)}")
    console.print(f"recovered at t = {at:g} from times {', '.join(f'{time:.3g}' for time in found.times)}\n")
    for row in rows:
        console.print(f"x = {_vector(row['x'])}")
        console.print(f"  v     = {_vector(row['v'])} +- {max(row['v_error']):.0e}")
        console.print(f"  sigma = {_vector(row['sigma'])} +- {np.max(row['sigma_error']):.0e}")
        if said is not None:
            console.print(f"  said:   {_vector(row['said_v'])}, {_vector(row['said_sigma'])}")
    verdict = "positive semi-definite" if found.is_semidefinite else "[red]not positive semi-definite[/red]"
    if entry.counterexample:
        console.print("\nthis example breaks an axiom: it need not solve the equation with these coefficients")
    console.print(f"\nsigma is {verdict}; smallest eigenvalue {found.smallest_eigenvalue.min():.3g}")


app.command("smooth")(theory_pictures.smooth)
app.command("figures")(theory_pictures.figures)


def _row(found: Any, k: int) -> dict[str, Any]:
    return {
        "x": found.x[k].tolist(),
        "v": found.v[k].tolist(),
        "v_error": found.v_error[k].tolist(),
        "sigma": found.sigma[k].tolist(),
        "sigma_error": found.sigma_error[k].tolist(),
    }


def _vector(values: Any) -> str:
    if isinstance(values, list):
        return "(" + ", ".join(_vector(value) for value in values) + ")"
    return f"{0.0 if abs(values) < 1e-12 else values:.6g}"  # rounding, not diffusion
