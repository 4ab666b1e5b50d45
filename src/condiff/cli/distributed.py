"""``python -m condiff.distributed``: cut a problem into shards, fit it with any number of processes, predict.

``shard`` runs alone; ``fit`` and ``predict`` run under ``torchrun``, one process for each shard.
"""

from __future__ import annotations

import json as codec
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer

from condiff.errors import CondiffError, InvalidInputError

app = typer.Typer(
    name="condiff.distributed",
    help="One graph over several processes or machines.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Shards = Annotated[Path, typer.Argument(metavar="SHARDS", help="What 'shard' wrote.")]
_Timeout = Annotated[float, typer.Option(help="Seconds after which a silent rank is considered lost.")]
_BlockRows = Annotated[int, typer.Option(min=1, help="Rows that go through the base network at a time.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@app.command("shard")
def shard(
    out: Annotated[Path, typer.Argument(metavar="SHARDS", help="Folder to write; existing shards are replaced.")],
    ranks: Annotated[int, typer.Option(min=1, help="How many processes will share the work.")],
    graph: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="cora, citeseer, pubmed, a graph file, or a folder of tables."),
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or: an NPY edge list, (2, m) or (m, 2), read in blocks.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(metavar="FILE", help="NPY weights of --edges.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="--edges has directions: (source, target).")] = False,
    features: Annotated[Path | None, typer.Option(metavar="FILE", help="NPY features of the nodes of --edges.")] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="NPY classes from 0 of the nodes of --edges; -1 where unknown.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="NPY numbers of the training nodes; all labelled ones by default."),
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="NPY numbers of the nodes for early stopping.")
    ] = None,
    partition: Annotated[
        str, typer.Option(metavar="METHOD|FILE", help="auto, metis, bfs, blocks, or an NPY with the part of each node.")
    ] = "auto",
    json: _Json = False,
) -> None:
    """Cut a graph, its features and labels into one shard for each process.

    Edges and features are read in blocks, so they need not fit in memory. Weights get self-loops and are normalised
    symmetrically, as in the paper's node tasks.

    Example: [bold]python -m condiff.distributed shard SHARDS --ranks 2 --graph cora[/bold]
    """
    from condiff.distributed.writing import write_shards

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidInputError("'shard' is for one process: start it with python instead of torchrun")
    source, x, known = _inputs(graph, edges, weights, directed, features, labels, train, validation)
    description = write_shards(out, source, x, known, ranks=ranks, parts=_parts(partition, ranks))
    if json:
        print(codec.dumps({**vars(description), "parts": [vars(part) for part in description.parts]}, indent=2))
        return
    share = 100 * description.cut_entries / max(description.n_entries, 1)
    print(
        f"{description.n_nodes} nodes and {description.n_entries} weights in {ranks} parts by {description.method}; "
        f"{share:.1f} % of the weights join parts"
    )
    for rank, part in enumerate(description.parts):
        print(
            f"part {rank}: {part.nodes} nodes, {part.entries} weights, {part.receives} border rows, "
            f"{part.bytes / 1e6:.1f} MB"
        )


@app.command("fit")
def fit(
    shards: _Shards,
    out: Annotated[Path, typer.Argument(metavar="FIT", help="Folder of checkpoints; a fit that it holds is resumed.")],
    layers: Annotated[int, typer.Option(min=0, help="Diffusion layers.")] = 20,
    strength: Annotated[str, typer.Option(metavar="NUMBER|auto", help="Of each layer.")] = "auto",
    hidden: Annotated[str, typer.Option(metavar="NUMBER|input", help="Hidden width of the base network.")] = "input",
    epochs: Annotated[int, typer.Option(min=1, help="At most.")] = 1000,
    patience: Annotated[int, typer.Option(min=1, help="Epochs without progress in validation.")] = 50,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 0.01,
    weight_decay: Annotated[float, typer.Option(help="Of Adam.")] = 5e-4,
    seed: Annotated[int, typer.Option(help="Of the first weights.")] = 0,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = 10,
    block_rows: _BlockRows = 16_384,
    timeout: _Timeout = 300.0,
    json: _Json = False,
) -> None:
    """Fit a COIN; the same command resumes from the last checkpoint, even with another number of ranks.

    Example: [bold]torchrun --nproc-per-node 2 -m condiff.distributed fit SHARDS FIT[/bold]
    """
    from condiff.distributed.model import Network
    from condiff.distributed.train import Fit
    from condiff.distributed.train import fit as run
    from condiff.training import Training

    width: int | Literal["input"] = "input" if hidden == "input" else _whole("--hidden", hidden)
    network = Network(
        layers, "auto" if strength == "auto" else _number("--strength", strength), width, seed=seed, dtype=dtype
    )
    training = Training("adam", learning_rate, weight_decay=weight_decay, epochs=epochs, patience=patience)
    settings = Fit(network, training, block_rows, checkpoint_every)
    with _job(timeout, out) as ranks:
        began = _clock()
        step = max(1, epochs // 20)

        def show(epoch: int, loss: float) -> None:
            if ranks.first and (epoch + 1) % step == 0:
                print(f"epoch {epoch + 1}: loss {loss:.4f}", file=sys.stderr, flush=True)

        fitted = run(shards, out, settings, ranks=ranks, on_epoch=show)
        report = _report(fitted, ranks, shards, _clock() - began)
    if ranks.first:
        _show(report, json)


@app.command("predict")
def predict(
    shards: _Shards,
    model: Annotated[Path, typer.Argument(metavar="FIT", help="What 'fit' wrote.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for u.npy and nodes.npy of each part.")],
    block_rows: _BlockRows = 16_384,
    timeout: _Timeout = 300.0,
    json: _Json = False,
) -> None:
    """Write the diffused output of all nodes, a part for each process.

    Example: [bold]torchrun --nproc-per-node 2 -m condiff.distributed predict SHARDS FIT OUT[/bold]
    """
    from condiff.distributed.train import Fit, save_output
    from condiff.distributed.train import predict as run

    with _job(timeout, model) as ranks:
        began = _clock()
        fitted = run(shards, model, Fit(block_rows=block_rows), ranks=ranks)
        save_output(out, fitted, ranks)
        report = _report(fitted, ranks, shards, _clock() - began)
    if ranks.first:
        _show(report, json)


def main() -> None:
    """Run a command; an error that a user can fix is one line on standard error and exit code 2."""
    rank = os.environ.get("RANK")
    who = "condiff.distributed" if rank is None else f"condiff.distributed: rank {rank}"
    warnings.showwarning = lambda message, *_: print(f"{who}: warning: {message}", file=sys.stderr)
    try:
        app(prog_name="condiff.distributed")
    except (CondiffError, OSError) as error:
        print(f"{who}: error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        # Threads of the transport may still wait for the rank that was lost: an orderly exit would never happen.
        sys.stdout.flush()
        os._exit(2)


@contextmanager
def _job(timeout: float, folder: Path) -> Iterator[Any]:
    """The ranks of the job; when one is lost, the others say where a restart resumes."""
    import torch

    from condiff.distributed.group import RankLostError, joined

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    signal.signal(signal.SIGTERM, _stopped)
    try:
        with joined(timeout) as ranks:
            yield ranks
    except RankLostError as error:
        raise RankLostError(
            f"{error}; the job ends here, and the same command resumes from the last checkpoint in {folder}"
        ) from error


def _stopped(number: int, frame: FrameType | None) -> None:
    from condiff.distributed.group import RankLostError

    raise RankLostError("stopped by torchrun, as happens when another rank has ended")


def _inputs(
    graph: str | None,
    edges: Path | None,
    weights: Path | None,
    directed: bool,
    features: Path | None,
    labels: Path | None,
    train: Path | None,
    validation: Path | None,
) -> tuple[Any, Any, Any]:
    """Edges, features and labels, of a graph that loads as a whole or of arrays that are only opened."""
    import numpy as np

    from condiff.distributed.edges import EdgeFile, open_array
    from condiff.distributed.writing import Labels
    from condiff.graph import Graph

    if (graph is None) == (edges is None):
        raise InvalidInputError("give either --graph, or --edges with --features and --labels")
    source: Any
    if graph is not None:
        if given := [
            name for name, value in (("features", features), ("labels", labels), ("weights", weights)) if value
        ]:
            raise InvalidInputError(f"--graph brings its own --{given[0]}: leave it out")
        from condiff.reproduce.datasets.graphs import load_graph

        data = load_graph(graph)
        source, x, classes = Graph.of(data.adjacency), data.features, data.labels
    else:
        if features is None or labels is None or edges is None:
            raise InvalidInputError("--edges needs --features and --labels as well")
        x, classes = open_array(features), open_array(labels)
        source = EdgeFile.open(edges, len(x), weights, undirected=not directed)
    held_out = np.empty(0, dtype=np.int64) if validation is None else open_array(validation)
    known = np.flatnonzero(np.asarray(classes) >= 0)
    return source, x, Labels(classes, np.setdiff1d(known, held_out) if train is None else open_array(train), held_out)


def _parts(wanted: str, ranks: int) -> Any:
    from condiff.distributed.edges import open_array
    from condiff.distributed.partition import Partition

    return Partition(open_array(Path(wanted)), ranks) if wanted.endswith(".npy") else wanted


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInputError(f"{option} must be a number, not {text!r}") from error


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"{option} must be a whole number, not {text!r}") from error


def _clock() -> float:
    import time

    return time.perf_counter()


def _report(fitted: Any, ranks: Any, shards: Path, seconds: float) -> dict[str, Any]:
    from condiff.distributed.shards import Description
    from condiff.distributed.train import usage

    size = Description.load(shards).parts[ranks.rank].bytes
    record = fitted.record
    return {
        "accuracy": fitted.accuracy,
        "epochs": len(record.losses),
        "best_epoch": record.best_epoch,
        "loss": record.losses[-1],
        "seconds": seconds,
        "ranks": usage(ranks, size),
    }


def _show(report: dict[str, Any], json: bool) -> None:
    if json:
        print(codec.dumps(report, indent=2))
        return
    accuracy = "" if report["accuracy"] is None else f"; accuracy {report['accuracy']:.2f} %"
    print(f"{report['epochs']} epochs, loss {report['loss']:.4f}{accuracy}; {report['seconds']:.1f} s")
    for rank, used in enumerate(report["ranks"]):
        print(
            f"rank {rank}: {used['rows']:.0f} border rows sent ({used['payload'] / 1e6:.2f} MB), "
            f"{used['seconds']:.2f} s in exchanges, {used['peak_memory'] / 1e6:.0f} MB of memory at most"
        )
