"""``condiff fewshot``: labels for a folder of images from one or a few examples per class."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from condiff.cli.output import FORMULAS_HELP, batches_shown, check_out, formula_notes, note, print_json, write_csv
from condiff.files import atomic_path

if TYPE_CHECKING:
    from condiff.estimators.image_labels import ImageLabels


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of images, at any depth.")],
    labels: Annotated[
        Path, typer.Option(metavar="FILE", help="A CSV file of file,label lines for a few images; files below FOLDER.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the answers here, .csv or .json, instead of printing them."),
    ] = None,
    backbone: Annotated[
        str, typer.Option(help="efficientnet_lite0, or a folder that condiff backbone train wrote.")
    ] = "efficientnet_lite0",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initialisations.")] = 0,
    formulas: Annotated[bool, typer.Option("--formulas", help=FORMULAS_HELP)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Label every image of a folder from one or a few labelled ones per class.

    Each image becomes a row of features, by a network that was trained on ImageNet; COIN then spreads the labels over
    a graph of all images. Answers are CSV: file, label, confidence, the label given if any, what the model would say
    instead of it, and the probability of each class. Features are cached, so running again with more labels is quick.

    Example: [bold]condiff fewshot photos --labels labels.csv --out answers.csv[/bold]
    """
    from condiff.estimators.image_labels import label_images

    if out is not None:
        check_out(out, labels, suffixes=(".csv", ".json"))
    with batches_shown("images embedded") as shown:
        found = label_images(folder, labels, backbone=backbone, seed=seed, on_batch=shown)
    rows = _rows(found)
    changed = _write(rows, out, formulas) if out is not None else 0
    if json:
        print_json(rows)
    elif out is None:
        changed = _write_csv(rows, sys.stdout, formulas)
    counts = ", ".join(f"{label} {count}" for label, count in sorted(Counter(found.labels).items()))
    unsure = int((found.confidences < 0.5).sum())
    note(f"{len(rows)} images: {counts}; {unsure} with a confidence below one half")
    for remark in formula_notes(changed):
        note(remark)
    if out is not None:
        note(f"written to {out}")


def _rows(found: ImageLabels) -> list[dict[str, Any]]:
    columns = (
        found.files, found.labels, found.confidences.tolist(), found.given, found.most_probable,
        found.probabilities.tolist(),
    )  # fmt: skip
    return [
        {
            "file": file,
            "label": label,
            "confidence": round(confidence, 6),
            "given": given,
            "model_says": said if given not in (None, said) else None,
            **{f"p_{name}": round(share, 6) for name, share in zip(found.classes, shares, strict=True)},
        }
        for file, label, confidence, given, said, shares in zip(*columns, strict=True)
    ]


def _write(rows: list[dict[str, Any]], out: Path, formulas: bool) -> int:
    import json as codec

    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        if out.suffix == ".json":
            stream.write(codec.dumps(rows, indent=2, allow_nan=False) + "\n")
            return 0
        return _write_csv(rows, stream, formulas)


def _write_csv(rows: list[dict[str, Any]], stream: TextIO, formulas: bool) -> int:
    return write_csv(rows[0], (row.values() for row in rows), stream, formulas=formulas)
