"""``condiff theory smooth`` and ``condiff theory figures``: certified radii, and the theory's pictures."""

from __future__ import annotations

import csv
import json as codec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from condiff.cli.output import console, print_json, progress, typed
from condiff.errors import InvalidInputError
from condiff.files import atomic_path, write_text

_DIGITS = "digits"
_SHOWN = 10
_NOISE = 0.25


def smooth(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that condiff fit wrote; or digits.")],
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]", help="A CSV, TSV, Parquet or NPZ file.")] = None,
    noise: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the noise; 0.25 by default, and 0.5 as well for the digits."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Probability with which a certificate may be wrong.")] = 0.001,
    samples: Annotated[int, typer.Option(min=1, help="Votes per row; more certify larger radii.")] = 500,
    together: Annotated[
        bool, typer.Option("--together", help="Let alpha bound the probability that any row's certificate is wrong.")
    ] = False,
    points: Annotated[int, typer.Option(min=2, max=1000, help="Digits that are certified.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to write: a .csv file; for the digits a folder.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Certify answers by randomised smoothing: how far each row may move before its answer changes.

    For a model and a table, each row gets the answer that is most frequent under Gaussian noise, and a radius within
    which that answer holds; or it abstains. Noise and radius are in the units that the model sees: numbers
    standardised, categories 0 or 1. For the digits, the network and COIN, with and without noise in training, are
    fitted from 5 labels per class, and the share of right answers is shown against the radius.

    Examples: [bold]condiff theory smooth flowers-model flowers.csv --out radii.csv[/bold],
    [bold]condiff theory smooth digits --out smoothing[/bold]
    """
    if noise is not None and not 0 < noise < float("inf"):
        raise InvalidInputError(f"--noise must be a positive number, not {noise}")
    if not 0 < alpha < 0.5:
        raise InvalidInputError(f"--alpha must be above 0 and below 0.5, not {alpha}")
    if data is not None:
        _smooth_table(Path(model), data, noise or _NOISE, alpha, samples, together, seed, out, json)
    elif model == _DIGITS:
        if together:
            raise InvalidInputError("--together goes with a model and a table")
        _smooth_digits(noise, alpha, samples, points, seed, out, json)
    else:
        raise InvalidInputError(f"give a table to certify beside the model {model}, or digits alone")


def figures(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the pictures.")] = Path("condiff-theory"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Draw the theory: u(x, 0), u(x, T-1) and u(x, T) on the plane, scale space, and the output flowing over the graph.

    Writes three-times.png, scale-space.png and flow.gif, in about half a minute.

    Example: [bold]condiff theory figures --out pictures[/bold]
    """
    from condiff.pages.canvas import save
    from condiff.reproduce.evolution import PLANES, evolve
    from condiff.reproduce.figures.theory import draw_scale_space, draw_three_times, flow_animation
    from condiff.reproduce.scale_space import DeepMoons, photograph

    evolutions = [evolve(name) for name in PLANES]
    targets = [out / name for name in ("three-times.png", "scale-space.png", "flow.gif")]
    save(draw_three_times(evolutions), targets[0])
    save(draw_scale_space(photograph(), DeepMoons()), targets[1])
    flow_animation(evolutions, targets[2])
    if json:
        print_json([{"out": str(target), "bytes": target.stat().st_size} for target in targets])
        return
    for target in targets:
        console.print(f"written to {target}", markup=False)


def _smooth_table(
    model: Path,
    data: Path,
    noise: float,
    alpha: float,
    samples: int,
    together: bool,
    seed: int,
    out: Path | None,
    json: bool,
) -> None:
    from condiff.encoders.encoding import rows_for
    from condiff.encoders.table import row_names
    from condiff.estimators import COINClassifier, load
    from condiff.readers.tables import read_table
    from condiff.theory.smoothing import SmoothedClassifier

    if out is not None and out.suffix != ".csv":
        raise InvalidInputError(f"--out must end in .csv for a table, but is {out}")
    fitted = load(model)
    if not isinstance(fitted, COINClassifier):
        raise InvalidInputError(f"{model} holds a {type(fitted).__name__}: a certificate is about classes")
    table = read_table(data)
    read = rows_for(fitted, table)
    numbers = read if fitted.encoder_ is None else fitted.encoder_.transform(read)
    smoothed = SmoothedClassifier(fitted.on_numbers(), noise, alpha=alpha, samples=samples, random_state=seed)
    found = smoothed.certify(numbers, correction="bonferroni" if together else "none")
    radius = found.radius.round(6)
    rows = [
        {"id": name, "label": label, "radius": far, "abstained": bool(unsure)}
        for name, label, far, unsure in zip(
            row_names(table, table.id_column()),
            found.labels.tolist(),
            radius.tolist(),
            found.abstained.tolist(),
            strict=True,
        )
    ]
    if out is not None:
        with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows({**row, "abstained": int(row["abstained"])} for row in rows)
    if json:
        print_json(rows)
        return
    kept = radius[~found.abstained]
    middle = f"median radius {np.median(kept):.3g}, largest {kept.max():.3g}" if len(kept) else "no radius"
    console.print(f"{len(rows)} rows: {len(kept)} certified, {middle}; {len(rows) - len(kept)} abstained", markup=False)
    whose = "all certificates together hold" if together else "each certificate holds"
    console.print(
        f"noise {noise:g}, {samples} votes per row; {whose} with a probability of {1 - alpha:g}", markup=False
    )
    if out is not None:
        console.print(f"written to {out}", markup=False)
        return
    shown = Table("id", "label", "radius", box=None, pad_edge=False, header_style="bold")
    for row in rows[:_SHOWN]:
        shown.add_row(str(row["id"]), str(row["label"]), "abstained" if row["abstained"] else f"{row['radius']:.3f}")
    console.print(shown)
    if len(rows) > _SHOWN:
        console.print(f"and {len(rows) - _SHOWN} more: --out FILE.csv writes them all")


def _smooth_digits(
    noise: float | None, alpha: float, samples: int, points: int, seed: int, out: Path | None, json: bool
) -> None:
    from condiff.reproduce.provenance import provenance
    from condiff.reproduce.robustness import METHODS, NOISES, Protocol, curves

    if out is not None and out.exists() and not out.is_dir():
        raise InvalidInputError(f"--out must be a folder for the digits, but {out} is a file")
    noises = NOISES if noise is None else (noise,)
    protocol = Protocol(points=points, samples=samples, alpha=alpha, seed=seed)
    found = list(progress(curves(noises, protocol), len(noises) * len(METHODS), "curves"))
    if out is not None:
        from condiff.pages.canvas import save
        from condiff.reproduce.figures.theory import draw_certified

        content = {"made": provenance(typed()), "curves": found}
        write_text(out / "certified.json", codec.dumps(content, indent=1) + "\n")
        save(draw_certified(found), out / "certified.png")
    if json:
        print_json(found)
        return
    for number in noises:
        console.print(_curve_table([row for row in found if row["noise"] == number]))
    if out is not None:
        console.print(f"written to {out / 'certified.json'} and {out / 'certified.png'}", markup=False)


def _curve_table(rows: list[dict[str, Any]]) -> Table:
    first = rows[0]
    chosen = range(0, len(first["radii"]), 10)
    table = Table(
        "method",
        *(f"r = {first['radii'][place]:.3g}" for place in chosen),
        "mean radius",
        title=f"Certified accuracy (%) of {first['points']} digits at radius r, noise {first['noise']:g}",
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for row in rows:
        cells = [f"{100 * row['certified_accuracy'][place]:.1f}" for place in chosen]
        table.add_row(row["method"], *cells, f"{row['mean_radius']:.3f}")
    return table
