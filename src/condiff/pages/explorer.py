"""The explorer: a page on which a person watches the output flow over the graph."""

from __future__ import annotations

from pathlib import Path

from condiff.files import write_text
from condiff.pages.canvas import class_colours
from condiff.pages.report import render
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
    loops = int((scene.weights.diagonal() > 0).sum())
    return render(
        "explorer.html",
        title=f"{scene.name} · condiff explorer",
        scene=scene,
        brushes=list(zip(scene.classes, class_colours(len(scene.classes)), strict=True)),
        edges=(scene.weights.nnz - loops) // 2,
        labels=int((scene.labels >= 0).sum()),
        command=command,
        data=scene.to_dict(),
    )


def write_explorer(scene: Scene, out: Path, command: str) -> None:
    """Write :func:`explorer_page`, whole or not at all."""
    write_text(out, explorer_page(scene, command))
