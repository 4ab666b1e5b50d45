"""The report of a folder, whatever it holds."""

from __future__ import annotations

from pathlib import Path

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import write_text
from condiff.pages.model import model_page
from condiff.reproduce.report.demo import ACCURACY, demo_page
from condiff.reproduce.report.folders import is_results, read_results
from condiff.reproduce.report.results import results_page


def report(folder: Path, command: str) -> str:
    """The page of a results folder, a model folder, or a folder of ``condiff demo``.

    Parameters
    ----------
    folder
        What to report on.
    command
        How the page says it was made.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InvalidInputError(f"{folder} {what}: name a folder of results or of a model")
    if (folder / "model.json").is_file():
        from condiff.estimators import load

        return model_page(load(folder), folder.resolve().name, command)
    if is_results(folder):
        return results_page(read_results(folder), command)
    if (folder / ACCURACY).is_file():
        return demo_page(folder, command)
    raise InvalidFileError(
        f"{folder} holds neither results (runs.sqlite, summary.json) nor a model (model.json): name the --out folder "
        "of condiff reproduce, ablate, demo or fit"
    )


def write_report(folder: Path, out: Path, command: str) -> None:
    """Write :func:`report`, whole or not at all."""
    write_text(out, report(folder, command))
