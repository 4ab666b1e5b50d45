"""The report of ``condiff demo``'s folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from condiff.errors import InvalidFileError
from condiff.pages.html import join
from condiff.pages.layout import Card, Section, report_page, versions
from condiff.pages.tables import Cell, Column, table
from condiff.reproduce.report.charts import line_chart

ACCURACY = "accuracy.json"


def demo_page(folder: Path, command: str) -> str:
    """The demo's accuracies as a table and lines."""
    try:
        rows: list[dict[str, Any]] = json.loads((folder / ACCURACY).read_text(encoding="utf-8"))
        made = folder / "provenance.json"
        origin = json.loads(made.read_text(encoding="utf-8")) if made.is_file() else {}
        cells = {(row["method"], row["labels_per_class"]): row for row in rows}
        draws = rows[0]["runs"]
        labels = sorted({number for _, number in cells})
        methods = list(dict.fromkeys(method for method, _ in cells))
        series = {
            method: [(number, cells[method, number]["mean"]) for number in labels if (method, number) in cells]
            for method in methods
        }
        shown = [
            [
                Cell(method),
                *(
                    Cell(f"{row['mean']:.1f} ± {row['std']:.1f}", row["mean"]) if row else Cell("-")
                    for row in (cells.get((method, number)) for number in labels)
                ),
            ]
            for method in methods
        ]
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidFileError(f"{folder / ACCURACY} is damaged ({error}): run condiff demo again") from error
    columns = [Column("method", "text"), *(Column(f"{number} a class") for number in labels)]
    caption = f"Accuracy (%) on the unlabelled digits: mean ± standard deviation over {draws} draws of the labels."
    made_table = table(caption, columns, shown, highlight=[method == "COIN" for method in methods])
    figure = line_chart(series, "Accuracy against the labels of a class", "labels of a class", "accuracy (%)")
    cards = [
        Card(f"COIN, {number} a class", f"{row['mean']:.1f}", unit=f"± {row['std']:.1f} %")
        for number in labels
        if (row := cells.get(("COIN", number)))
    ]
    sections = [Section("Accuracy", join([made_table, figure])), Section("How it was made", versions(origin))]
    lede = "Handwritten digits with a few labels a class, COIN beside what one would try instead."
    return report_page("Digits with few labels", "The demo", lede, cards, sections, command)
