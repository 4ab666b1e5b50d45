"""The report of a folder, whatever it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError
from condiff.files import read_json, refusing, write_text
from condiff.pages.forecast import forecaster_page
from condiff.pages.model import model_page
from condiff.pages.report import Card, Cell, Column, Report, Section, Table, picture, versions
from condiff.reproduce.figures.along import draw_labels
from condiff.reproduce.report.folders import is_results, read_results, require_folder
from condiff.reproduce.report.results import results_report

if TYPE_CHECKING:
    from condiff.estimators import PanelForecaster

_ACCURACY = "accuracy.json"


def report(folder: Path, command: str) -> str:
    """The page of a results folder, a model folder, or a folder of ``condiff demo``.

    Parameters
    ----------
    folder
        What to report on.
    command
        How the page says it was made.
    """
    require_folder(folder)
    if (folder / "model.json").is_file():
        from condiff.estimators import COINClassifier, COINRegressor, PanelForecaster, load

        model, name = load(folder), folder.resolve().name
        if isinstance(model, PanelForecaster):
            return forecaster_page(model, name, command, places=_places(model))
        if not isinstance(model, COINClassifier | COINRegressor):
            raise InvalidFileError(f"{folder} holds a {type(model).__name__}, of which there is no report")
        return model_page(model, name, command)
    if is_results(folder):
        return results_report(read_results(folder)).page(command)
    if (folder / _ACCURACY).is_file():
        return _demo(folder).page(command)
    raise InvalidFileError(
        f"{folder} holds neither results (runs.sqlite, summary.json) nor a model (model.json): name the --out folder "
        "of condiff reproduce, ablate, demo or fit"
    )


def write_report(folder: Path, out: Path, command: str) -> None:
    """Write :func:`report`, whole or not at all."""
    write_text(out, report(folder, command))


def _places(model: PanelForecaster) -> NDArray[np.float64] | None:
    """Where ``condiff forecast`` was told that series are; None where it was not."""
    known = model.metadata_.get("places") if isinstance(model.metadata_, dict) else None
    try:
        found = np.array(known, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return found if found.shape == (model.n_regions_, 2) and np.isfinite(found).all() else None


def _demo(folder: Path) -> Report:
    """The demo's accuracies as a table and lines."""
    with refusing(folder / _ACCURACY, "what condiff demo writes", "run condiff demo again"):
        rows: list[dict[str, Any]] = read_json(folder / _ACCURACY, "run condiff demo again")
        made = folder / "provenance.json"
        origin = read_json(made, "run condiff demo again") if made.is_file() else {}
        cells = {(row["method"], row["labels_per_class"]): (row["mean"], row["std"]) for row in rows}
        texts = {key: f"{mean:.1f} ± {std:.1f}" for key, (mean, std) in cells.items()}
        draws = rows[0]["runs"]
        numbers = sorted({number for _, number in cells})
    methods = list(dict.fromkeys(method for method, _ in cells))
    shown = [
        [Cell(method)]
        + [
            Cell(texts[method, number], cells[method, number][0]) if (method, number) in cells else Cell("-")
            for number in numbers
        ]
        for method in methods
    ]
    columns = [Column("method", "text"), *(Column(f"{number} per class") for number in numbers)]
    caption = f"Accuracy (%) on the unlabelled digits: mean ± standard deviation over {draws} draws of the labels."
    table = Table(caption, columns, shown, highlight=[method == "COIN" for method in methods])
    series = {
        method: [(number, cells[method, number][0]) for number in numbers if (method, number) in cells]
        for method in methods
    }
    order = sorted(methods, key=lambda method: series[method][-1][1], reverse=True)
    about = (
        f"Lines of {len(methods)} methods. With {numbers[-1]} labels per class, from best to worst: {', '.join(order)}."
    )
    figure = picture(draw_labels(series), "Accuracy against the labels per class", about)
    cards = [
        Card(f"COIN, {number} per class", f"{mean:.1f}", unit=f"± {std:.1f} %")
        for (method, number), (mean, std) in sorted(cells.items())
        if method == "COIN"
    ]
    sections = [Section("Accuracy", [table, figure]), Section("How it was made", [versions(origin)])]
    lede = "Handwritten digits with a few labels per class, COIN beside what one would try instead."
    return Report("Digits with few labels", "The demo", lede, cards, sections)
