"""The explorer: a page on which a person watches the output flow over the graph."""

from __future__ import annotations

from pathlib import Path
from string import Template

from condiff import __version__
from condiff.files import write_text
from condiff.pages.document import asset, document
from condiff.pages.html import Html, escape, join, tag
from condiff.pages.palette import colours
from condiff.pages.scene import Scene


def explorer_page(scene: Scene, command: str) -> str:
    """The page of a scene.

    Parameters
    ----------
    scene
        What it shows.
    command
        How the page says it was made.
    """
    shades = colours(len(scene.classes))
    brushes = [
        tag(
            "label",
            tag("input", type="radio", name="brush", value=str(code), checked=code == 0),
            tag("span", class_="swatch", style=f"background: {shade}", aria_hidden="true"),
            name,
        )
        for code, (name, shade) in enumerate(zip(scene.classes, shades, strict=True))
    ]
    body = Template(asset("explorer.html")).substitute(
        name=escape(scene.name),
        points=f"{scene.n_points:,}",
        edges=f"{_edges(scene):,}",
        labels=str(int((scene.labels >= 0).sum())),
        brushes=join(brushes, Html("\n")),
        truth_hidden="" if scene.truth is not None else "hidden",
        command=escape(command),
        version=escape(__version__),
    )
    return document(
        f"{scene.name} · condiff explorer",
        Html(body),
        styles=("base.css", "explorer.css"),
        scripts=("flow.js", "disc.js", "stage.js", "explorer.js"),
        data=scene.to_dict(),
    )


def write_explorer(scene: Scene, out: Path, command: str) -> None:
    """Write :func:`explorer_page`, whole or not at all."""
    write_text(out, explorer_page(scene, command))


def _edges(scene: Scene) -> int:
    """Edges between different points."""
    return int((scene.weights.nnz - (scene.weights.diagonal() > 0).sum()) // 2)
