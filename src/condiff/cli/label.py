"""``condiff label``: a page on which a person labels rows, and a model follows."""

from __future__ import annotations

import re
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from condiff.cli.inputs import DATA_HELP, EDGES_HELP, id_columns, open_data, row_index
from condiff.cli.output import batches_shown, check_out, console, counted, note, print_json, working
from condiff.encoders.columns import DroppedColumn
from condiff.encoders.embedding import progress_shown
from condiff.encoders.learning import learn_columns
from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.readers.cells import TEXT
from condiff.readers.columns import Column, ColumnDict


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP[:-1] + "; or a folder of images.")],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column to fill; a new one where the table has none of that name.")
    ] = "label",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the labelled table, as CSV; DATA-labelled.csv by default."),
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where every answer is kept; beside DATA by default.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="Which rows are asked for: change, margin, entropy, coverage, variance, sigma, random.")
    ] = "change",
    checks: Annotated[
        float, typer.Option(min=0, max=1, help="Share of questions drawn at random, to measure the answers.")
    ] = 0.2,
    unlabelled: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word in the target that means: not known.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Do not learn from this column.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Learn from this column even if it looks like an id.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Numbers in this column are names, such as zip codes.")
    ] = None,
    text: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="This column holds texts.")] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="This column names image files, relative to the table's folder."),
    ] = None,
    embedding: Annotated[
        str, typer.Option(metavar="MODEL", help="What reads texts: a sentence model's name or folder, tfidf, or auto.")
    ] = "auto",
    id: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="This column names the rows; it is not learned from.")
    ] = None,
    edges: Annotated[Path | None, typer.Option(metavar="FILE", help=EDGES_HELP)] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Only write the labelled table from what was kept, without a page.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port; any free one by default.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rows that are drawn at random.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Label rows in the browser, while a model learns and asks for those that would tell it most.

    Every answer is on disk before the page goes on, in a journal beside the data; the same command goes on where it
    stopped. Ctrl-C ends it and writes the table with its labels. The page is served on this machine alone.

    Example: [bold]condiff label tickets.csv --target topic[/bold]
    """
    from condiff.labelling.journal import Journal
    from condiff.labelling.rows import Rows, image_table
    from condiff.uncertainty.suggest import STRATEGIES

    if strategy not in STRATEGIES:
        raise InvalidInputError(f"--strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    pictures = data.is_dir() and not (data / "nodes.csv").is_file()
    table, edge_file = (image_table(data), None) if pictures else open_data(data, edges)
    rows = Rows.of(table, target, unlabelled or ())
    place = data.parent / (data.name or "data")
    out = place.with_name(f"{data.name.partition('.')[0]}-labelled.csv") if out is None else out
    check_out(out, *([] if data.is_dir() else [data]), suffixes=(".csv", ".tsv", ".txt"))
    word = re.sub(r"[^\w.-]+", "-", target)
    kept = Journal(journal or place.with_name(f"{data.name}.{word}.labels.jsonl"), rows.about, len(rows))
    try:
        if export:
            _written(rows.export(out, kept), out, json)
            return
        try:
            from condiff.labelling.server import HOST, listen, new_token, serve
        except ImportError as error:
            raise MissingDependencyError(
                "the page needs starlette and uvicorn: pip install 'condiff[label]'"
            ) from error
        from condiff.labelling.session import Session

        columns: dict[str, Any] = {
            "drop": [name for name in [target, *(drop or ()), *(id or ())] if name in table.columns or name != target],
            "keep": keep or [], "categorical": categorical or [], "text": text or [],
            "image": ["file"] if pictures else image or [], "embedding": embedding,
        }  # fmt: skip
        learner, rows = _learner(rows, columns, edge_file, id or [], pictures)
        session = Session(rows, learner, kept, strategy, checks, seed)
        with working(f"joining {counted(len(rows), 'row')}"):
            session.start()
        socket = listen(port)
        token = new_token()
        address = f"http://{HOST}:{socket.getsockname()[1]}/{token}/"

        def ready() -> None:
            if json:
                print_json([{"address": address, "journal": str(kept.path), "out": str(out)}])
            else:
                console.print(f"label at {address}", markup=False)
                console.print(f"every answer is kept in {kept.path}; Ctrl-C ends it and writes {out}", markup=False)
            console.file.flush()
            if browser:
                webbrowser.open(address)

        try:
            serve(session, socket, token=token, title=f"{data.name or data}: {target}", out=out, ready=ready)
        except KeyboardInterrupt:  # how a session ends
            pass
        finally:
            session.stop()
            note(f"{counted(session.export(out), 'label')} written to {out}; the same command goes on")
    finally:
        kept.close()


def _learner(rows: Any, columns: dict[str, Any], edges: Path | None, ids: list[str], pictures: bool) -> Any:
    """Encode the rows and join them."""
    from condiff.encoders.table import TableEncoder
    from condiff.labelling.learner import Learner

    table = rows.table
    content: Any = table
    if pictures:  # names are relative to the folder, and the encoder reads from where we are
        paths = [str(table.path / file) for file in table.column("file").words().tolist()]
        content = ColumnDict({"file": Column("file", "text", np.array(paths, dtype=TEXT))}, len(paths), table.source)
    with progress_shown(batches_shown):
        learned = [] if table.matrix is not None else learn_columns(content, needed=edges is None, **columns)
    used = [column.name for column in learned if not isinstance(column, DroppedColumn)]
    adjacency = None
    if edges is not None:
        from condiff.readers.graph_file import read_links

        names = [column.name for column in learned if column.note.kind in ("code", "image")]
        found = id_columns(table, ids, [*used, rows.target], names)
        adjacency = read_links(edges, row_index(table, found), Path(table.source).name)
    with working(f"reading {counted(len(rows), 'row')}"), progress_shown(batches_shown):
        X = table.matrix
        if used:
            X = TableEncoder.of(learned, table.n_rows, **columns).transform(content)
        X = adjacency if X is None else X
        return Learner.of(X, encoded=bool(used), adjacency=adjacency), replace(rows, learned=tuple(learned))


def _written(labels: int, out: Path, json: bool) -> None:
    if json:
        print_json([{"labels": labels, "out": str(out)}])
    else:
        console.print(f"{counted(labels, 'label')} written to {out}", markup=False)
