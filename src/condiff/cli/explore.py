"""``condiff explore``: a page on which the output flows over the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condiff.cli.output import console, print_json, typed
from condiff.errors import InvalidInputError, did_you_mean
from condiff.pages import EXAMPLES
from condiff.readers.tables import check_exists


def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="moons, circles, digits; a CSV, TSV, Parquet or NPZ file; or a folder of condiff fit.",
        ),
    ] = "moons",
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="For a file: the column to learn, empty where unknown.")
    ] = None,
    points: Annotated[int, typer.Option(min=20, max=20_000, help="For moons and circles: how many points.")] = 600,
    layout: Annotated[
        str, typer.Option(help="How to reduce many columns to two: pca, tsne, or auto (t-SNE up to 3,000 points).")
    ] = "auto",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed for which points are labelled; for a file, of the initialisations.")
    ] = 1,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the page.")] = Path("explorer.html"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Write a page on which you drag layers and strength and watch the answers flow over the graph.

    Click a point to label it and see the answer change at once; push the strength past its limits and see what breaks.
    The page computes by itself, needs no network, and opens from disk. Of a file with two columns besides the target,
    these are the places in the plane; an NPZ file may bring its own as the array 'embedding'.

    Examples
    --------
    [bold]condiff explore moons[/bold]

    [bold]condiff explore flowers.csv --target species --out flowers.html[/bold]
    """
    if layout not in ("auto", "pca", "tsne"):
        raise InvalidInputError(f"--layout must be auto, pca or tsne, not {layout!r}")
    path = Path(source)
    if source not in EXAMPLES and not path.suffix and not path.exists():
        hint = did_you_mean(source, EXAMPLES)
        raise InvalidInputError(
            f"unknown source {source!r}{hint}: give {', '.join(EXAMPLES)}, a file, or a model's folder"
        )
    if source not in EXAMPLES and not path.is_dir():
        if target is None:
            raise InvalidInputError(f"name the column of {path} to learn with --target")
        check_exists(path)

    from condiff.estimators import COINClassifier, load
    from condiff.pages.explorer import write_explorer
    from condiff.pages.scene import Layout, example_scene, scene_of_model, shown_names, table_scene

    how: Layout = layout  # type: ignore[assignment]
    if source in EXAMPLES:
        scene = example_scene(source, points, layout=how, seed=seed)
    elif path.is_dir():
        model = load(path)
        if not isinstance(model, COINClassifier):
            raise InvalidInputError(f"{path} holds a {type(model).__name__}: the explorer shows one class per row")
        known = model.metadata_ if isinstance(model.metadata_, dict) else {}
        names = shown_names(known.get("ids"), known.get("texts"), known.get("cells"))
        images = known.get("pictures")
        pictures = [str(each) for each in images] if isinstance(images, list) else None
        scene = scene_of_model(model, path.resolve().name, names=names, pictures=pictures, layout=how)
    else:
        assert target is not None
        scene = table_scene(path, target, layout=how, seed=seed)
    write_explorer(scene, out, typed())
    if json:
        size = out.stat().st_size
        print_json([{"out": str(out), "points": scene.n_points, "classes": list(scene.classes), "bytes": size}])
        return
    console.print(
        f"{scene.n_points:,} points in {len(scene.classes)} classes, written to {out}: open it in a browser",
        markup=False,
    )
