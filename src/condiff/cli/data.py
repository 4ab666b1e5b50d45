"""``condiff data``: which data sets there are, where they are, and whether they are complete."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from condiff.cli.output import console, error_line, print_json
from condiff.errors import DataUnavailableError, InvalidFileError
from condiff.files import cache_folder
from condiff.reproduce.datasets.registry import DATASETS, get_dataset
from condiff.reproduce.datasets.sources import (
    DatasetStatus,
    data_folder,
    fetch,
    status,
    top_folders,
    verify,
)

app = typer.Typer(
    name="data",
    help="List, fetch and verify the data sets.\n\n"
    "Files are looked for in the folder $CONDIFF_DATA, then in the user's cache ($CONDIFF_CACHE changes its place), "
    "and are downloaded into the cache if they are in neither.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Data sets; all by default.")]


@app.command("list")
def list_command(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Show every data set: its files, size, and where it was found.

    Example: [bold]condiff data list[/bold]
    """
    found = [status(name) for name in DATASETS]
    if json:
        print_json([_row(entry) for entry in found])
        return
    table = Table("name", "files", "size", "where", "description", box=None, pad_edge=False, header_style="bold")
    for entry in found:
        files = DATASETS[entry.name].files
        size = f"{sum(file.size for file in files) / 1e6:.1f} MB"
        table.add_row(entry.name, str(len(files)), size, _roots(entry), DATASETS[entry.name].description)
    console.print(table)
    if root := data_folder():
        console.print(f"\nCONDIFF_DATA is {escape(str(root))}")
    if any(entry.state == "missing" for entry in found):
        console.print(
            f"\n`condiff data fetch NAME` looks for what is missing; the cache is {escape(str(cache_folder()))}"
        )


@app.command("fetch")
def fetch_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets, or 'all'.")],
) -> None:
    """Download what is not yet on this machine, verify it, and show where it is.

    Example: [bold]condiff data fetch cora citeseer[/bold]
    """
    failed = False
    for name in _known([] if "all" in names else names):
        try:
            paths = fetch(name)
        except (DataUnavailableError, InvalidFileError) as error:
            # The other data sets may still be available.
            error_line(str(error))
            failed = True
            continue
        folders = ", ".join(str(folder) for folder in top_folders(paths))
        console.print(f"{name}: {len(paths)} file{'s' * (len(paths) > 1)} in {escape(folders)}")
    if failed:
        raise typer.Exit(2)


@app.command("verify")
def verify_command(names: _Names = None) -> None:
    """Compare the files on this machine with their pinned SHA-256; exits with 2 if any is damaged.

    Example: [bold]condiff data verify cora[/bold]
    """
    damaged = False
    for name in _known(names or []):
        checked = verify(name)
        damaged |= checked.state == "damaged"
        folders = ", ".join(str(folder) for folder in checked.folders)
        console.print(f"{name}: {_faults(checked) or f'OK, in {escape(folders)}'}")
        for file in checked.files:
            if file.state == "damaged":
                console.print(f"  damaged: {escape(str(file.path))} (replace or delete it, then fetch it again)")
    if damaged:
        raise typer.Exit(2)


def _known(names: list[str]) -> list[str]:
    """The named data sets, or all; every name is checked before any work is done."""
    return [get_dataset(name).name for name in names or DATASETS]


def _row(entry: DatasetStatus) -> dict[str, object]:
    dataset = DATASETS[entry.name]
    return {
        "name": entry.name,
        "files": len(dataset.files),
        "bytes": sum(file.size for file in dataset.files),
        "state": entry.state,
        "folders": [str(folder) for folder in entry.folders],
        "description": dataset.description,
        "origin": dataset.origin,
        "licence": dataset.licence,
    }


def _roots(entry: DatasetStatus) -> str:
    """What is wrong, or else where the files are."""
    root = data_folder()
    in_data = {root is not None and folder.is_relative_to(root) for folder in entry.folders}
    return _faults(entry) or ", ".join("CONDIFF_DATA" if given else "cache" for given in sorted(in_data))


def _faults(entry: DatasetStatus) -> str:
    states = [file.state for file in entry.files]
    if set(states) == {"missing"}:
        return "missing"
    faults = [f"{states.count(state)} {state}" for state in ("damaged", "missing") if state in states]
    return f"{' and '.join(faults)} of {len(states)} files" if faults else ""
