"""``condiff label``: a page on which a person labels rows, and a model follows."""

from __future__ import annotations

import re
import shlex
import sys
import time
import webbrowser
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from condiff.cli.inputs import DATA_HELP, check_model_folder, open_data
from condiff.cli.learnable import (
    Categorical,
    Drop,
    Edges,
    Embedding,
    Id,
    Image,
    Keep,
    Learnable,
    Reading,
    Text,
    Unlabelled,
)
from condiff.cli.output import batches_shown, check_out, console, counted, note, print_json, working
from condiff.encoders.embedding import progress_shown
from condiff.errors import CondiffError, InvalidInputError, MissingDependencyError
from condiff.files import read_json

if TYPE_CHECKING:
    from condiff.labelling.final import FullModel
    from condiff.labelling.rows import Labels, Rows

# What a model's folder says of the rows whose labels it was fitted on.
_ROWS = "labelled_rows"


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column to fill; a new one where the table has none of that name.")
    ] = "label",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the labelled table, as CSV; DATA-labelled.csv by default."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Fit a full model at the end, and write it here, for condiff predict."),
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
    unlabelled: Unlabelled = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    text: Text = None,
    image: Image = None,
    embedding: Embedding = "auto",
    id: Id = None,
    edges: Edges = None,
    export: Annotated[
        bool, typer.Option("--export", help="Only write the labelled table, and --model, from what was kept.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port; any free one by default.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rows that are drawn at random.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Label rows in the browser, while a model learns and asks for those that would tell it most.

    Every answer is on disk before the page goes on, in a journal beside the data; the same command goes on where it
    stopped. Ctrl-C ends it, writes the table with its labels, and with --model fits a full model on them. The page is
    served on this machine alone.

    Example: [bold]condiff label tickets.csv --target topic --model tickets-model[/bold]
    """
    table, edge_file = open_data(data, edges)

    from condiff.labelling.final import FullFit
    from condiff.labelling.journal import Journal
    from condiff.labelling.rows import Rows
    from condiff.uncertainty.suggestions import STRATEGIES

    if strategy not in STRATEGIES:
        raise InvalidInputError(f"--strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    pictures = table.path.is_dir()
    rows = Rows.of(table, target, unlabelled or ())
    place = data.parent / (data.name or "data")
    stem = place.name.partition(".")[0]
    folder = place.with_name(f"{stem}-model") if model is None else model
    out = place.with_name(f"{stem}-labelled.csv") if out is None else out
    check_out(out, *([] if data.is_dir() else [data]), suffixes=(".csv", ".tsv", ".txt"))
    if model is not None:
        _check_model(model, rows)
    reading = Reading.of(drop, keep, categorical, text, ["file"] if pictures else image, embedding, id)
    word = re.sub(r"[^\w.-]+", "-", target)
    kept = Journal(journal or place.with_name(f"{data.name}.{word}.labels.jsonl"), rows.about, len(rows))
    try:
        if export:
            written: dict[str, Any] = {"out": str(out)}
            if model is not None:
                found = Learnable.of(table, target, reading, edge_file)
                with working(f"fitting {counted(len(rows), 'row')}"):
                    full = FullFit(kept, rows, _fitting(found, rows, data, edges, folder)).run()
                written["model"] = {**asdict(full), "score": full.score}
            written["labels"] = rows.export(out, kept)
            if json:
                print_json([written])
                return
            console.print(f"{counted(written['labels'], 'label')} written to {out}", markup=False)
            if model is not None:
                console.print("\n".join(_lines(full)), markup=False)
            return
        try:
            from condiff.labelling.server import HOST, listen, new_token, serve
        except ImportError as error:
            raise MissingDependencyError(
                "the page needs starlette and uvicorn: pip install 'condiff[label]'"
            ) from error
        from condiff.labelling.session import Session

        found = Learnable.of(table, target, reading, edge_file)
        rows = replace(rows, learned=tuple(found.learned))
        with working(f"reading {counted(len(rows), 'row')}"), progress_shown(batches_shown):
            learner = _learner(found)
        session = Session(rows, learner, kept, strategy, checks, seed)
        full_fit = FullFit(kept, rows, _fitting(found, rows, data, edges, folder))
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

        def told(fitted: FullModel) -> None:
            for line in _lines(fitted):
                note(line)

        try:
            title = f"{data.name or data}: {target}"
            serve(session, full_fit, socket, token=token, title=title, out=out, ready=ready, told=told)
        except KeyboardInterrupt:  # how a session ends
            pass
        finally:
            session.stop()
            note(f"{counted(session.export(out), 'label')} written to {out}; the same command goes on")
        if not full_fit.current and (model is not None or _wanted(rows.labels(kept), folder, json)):
            with working(f"fitting {counted(len(rows), 'row')}"):
                fitted = full_fit.run()
            told(fitted)
    finally:
        kept.close()


def _learner(found: Learnable) -> Any:
    """Encode the rows and join them."""
    from condiff.labelling.learner import Learner

    X = found.encoder.transform(found.table) if found.encoded else found.table.matrix
    return Learner.of(found.adjacency if X is None else X, encoded=found.encoded, adjacency=found.adjacency)


def _fitting(
    found: Learnable, rows: Rows, data: Path, edges: Path | None, folder: Path
) -> Callable[[Labels], FullModel]:
    """What fits the full model on labels, as ``condiff fit`` would on the table with these in it, and writes it."""
    from condiff.cli.fit import fit_table, save_model
    from condiff.cli.target import Target
    from condiff.labelling.final import FullModel
    from condiff.labelling.score import held_out_scores

    words = ["condiff", "predict", str(folder), str(data), *(["--edges", str(edges)] if edges else [])]
    use = shlex.join([*words, "--out", "answers.csv"])

    def fit(labels: Labels) -> FullModel:
        started = time.perf_counter()
        _check_model(folder, rows)
        filled = found.filled(labels.words)
        wanted = Target.of(filled.table, rows.target, (), "classification")
        fitted = fit_table(filled, wanted, {"random_state": 0})
        save_model(fitted, filled, wanted, folder, data.name, **{_ROWS: rows.about})
        scores = held_out_scores(fitted.record_, labels.fair)
        return FullModel(labels.count, str(folder), use, *scores, time.perf_counter() - started)

    return fit


def _check_model(folder: Path, rows: Rows) -> None:
    """Refuse a folder that holds anything but an older model of these very rows: the same command goes on."""
    ours = False
    if (folder / "model.json").is_file():
        try:
            ours = read_json(folder / "model.json", "choose another folder")["metadata"][_ROWS] == rows.about
        except (CondiffError, OSError, LookupError, TypeError):
            ours = False
        if not ours:
            raise InvalidInputError(f"{folder} already holds another model: choose another folder with --model")
    check_model_folder(folder, force=ours)


def _wanted(labels: Labels, folder: Path, json: bool) -> bool:
    """Whether a person who said nothing of a model wants one, now that there are labels to fit it on."""
    if json or len({word for word in labels.words if word}) < 2:
        return False
    if sys.stdin.isatty() and sys.stderr.isatty():
        return typer.confirm(f"fit a full model on the {counted(labels.count, 'label')}, into {folder}?", err=True)
    note(f"for a full model of them, add to the same command: --export --model {shlex.quote(str(folder))}")
    return False


def _lines(fitted: FullModel) -> list[str]:
    """What to know of a full model."""
    return [
        f"full model fitted on {counted(fitted.labels, 'label')} in {fitted.seconds:.1f} s: {fitted.score}",
        f"it is in {fitted.folder}; answer rows with: {fitted.use}",
    ]
