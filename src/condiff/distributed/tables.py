"""The whole fit of a table on a Dask cluster: rows in a folder of Parquet files, answers beside them.

Stages, each resumable: gather the labels and a draw of the other rows, learn what the columns hold, count, encode; fit
a pilot on what was gathered, an ordinary estimator that brings the base, the length of the diffusion, the held-out
score and the calibration; learn the cells of an index, bring the rows of each together, search neighbours, weigh and
join them; apply the base, diffuse it layer by layer, read the answers and write them part by part. No process ever
holds all rows, and the scheduler none.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from condiff.diffusion import Certificate
from condiff.distributed import answers
from condiff.distributed import cells as graph
from condiff.distributed import rows as reading
from condiff.distributed.answers import ANSWERS
from condiff.distributed.crew import Crew, Used, Work, crew, used
from condiff.distributed.pilot import fit_pilot, read_labels
from condiff.distributed.rows import Part, Reading, parts_of
from condiff.distributed.table_cost import block_memory
from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError
from condiff.estimators import load
from condiff.files import atomic_folder, atomic_path
from condiff.graph.approximate import RECALL

__all__ = ["Sizes", "TableFit", "Used", "fit_table", "predict_table"]

#: Where the parts of a graph that was fitted on a cluster are, within a model's folder.
CLUSTER = "cluster"
_PLAN = "plan"
# Share of a worker's memory that a block may take.
_SHARE = 0.35
_FEWEST_ROWS, _MOST_BLOCKS = 65_536, 256
# Random signs that measure how much a diffusion has smoothed, and the most layers that they are followed for.
_PROBES, _MOST_LAYERS = 8, 500


@dataclass(frozen=True)
class Sizes:
    """How work is cut; the defaults suit workers of a gigabyte and more.

    Attributes
    ----------
    part_rows
        Rows that are read and encoded together; a row group of a file is never cut.
    block_rows
        Rows of a block of the graph; by default as the memory of the workers allows, and 65,536 at least.
    pilot_rows, most_labels
        Rows without a label, and at most how many with one, that are gathered in one place.
    recall
        Share of the true neighbours that is to be found.
    """

    part_rows: int = 262_144
    block_rows: int | None = None
    pilot_rows: int = 20_000
    most_labels: int = 20_000
    recall: float = RECALL


_SIZES = Sizes()


@dataclass(frozen=True)
class TableFit:
    """What a fit on a cluster found.

    Attributes
    ----------
    model
        Its folder: an ordinary model of the gathered rows, with the blocks of all rows beside it.
    rows, nodes, edges, blocks
        Sizes: rows, different ones, edges between these, and blocks.
    border
        Share of the edges that lead from a block to another.
    labelled
        Labels of each class, or of all values.
    choice, layers, strength
        The base, and how it was diffused.
    recall
        Share of the true neighbours that was found, measured on a sample; 1 where there is no diffusion.
    visited
        Cells of the index that a query visits.
    cv_score
        Held-out accuracy or R^2; NaN where there were too few labels.
    certificate
        Step-size limits of the graph.
    unreached
        Nodes that no label reaches, which the base answers alone.
    columns
        What became of every column.
    stages
        What each stage has cost.
    seconds
        Since the call, without what an earlier one had finished.
    """

    model: Path
    task: str
    rows: int
    nodes: int
    edges: int
    blocks: int
    border: float
    labelled: dict[str, int]
    choice: str
    layers: int
    strength: float
    recall: float
    visited: int
    cv_score: float
    certificate: Certificate | None
    unreached: int
    columns: list[str]
    stages: list[Used] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; what has no value is None."""
        certificate = None if self.certificate is None else self.certificate.to_dict()
        score = None if math.isnan(self.cv_score) else self.cv_score
        return asdict(self) | {"model": str(self.model), "certificate": certificate, "cv_score": score}

    def lines(self) -> list[tuple[str, str]]:
        """What there is to know, under short headings."""
        labels = ", ".join(f"{label} {count}" for label, count in list(self.labelled.items())[:12])
        diffusion = "none: no graph was made"
        if self.certificate is not None:
            limit = self.certificate.positivity_limit
            diffusion = (
                f"{self.layers} layers of {self.strength:.3g}, within the positivity limit {limit:.3g}, in blocks by "
                "Dask tasks: between layers only border rows move, and workers may come and go"
            )
        score = (
            "too few labels to hold some out"
            if math.isnan(self.cv_score)
            else f"{self.cv_score:.3f} on held-out labels"
        )
        return [
            ("data", f"{self.rows:,} rows, {sum(self.labelled.values()):,} labelled: {labels} ({self.task})"),
            *(("columns", line) for line in self.columns[:20]),
            ("graph", f"{self.nodes:,} points, {self.edges:,} edges in {self.blocks} blocks, {self.border:.1%} of them "
             f"between blocks; {self.recall:.1%} of a sample's neighbours were found"),
            *([("", f"{self.unreached:,} points out of every label's reach")] if self.unreached else []),
            ("chosen", self.choice),
            ("diffusion", diffusion),
            ("score", score),
            ("answers", str(self.model / ANSWERS)),
            ("time", f"{self.seconds:.1f} s"),
            ("model", str(self.model)),
        ]  # fmt: skip


def fit_table(
    source: Any,
    target: str,
    out: str | Path,
    *,
    cluster: Any = None,
    workers: int | None = None,
    memory: str | int = "auto",
    task: str = "auto",
    unlabelled: Collection[str] = (),
    columns: Mapping[str, Any] | None = None,
    sizes: Sizes = _SIZES,
    force: bool = False,
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> TableFit:
    """Fit a table that lies in Parquet files, on the workers of a Dask cluster.

    A call that was stopped, or whose workers or scheduler were lost, continues where it was when it is made again.

    Parameters
    ----------
    source
        A folder of Parquet files, or a Dask DataFrame, whose partitions are written to such files first. All workers
        must reach the folder, and that of ``out``, under the same path.
    target
        The column to learn; rows where it is empty have no label.
    out
        Folder to write: the model, with answers for all rows in ``answers``.
    cluster
        Address of a scheduler, such as ``tcp://10.0.0.1:8786``, or a client of one; by default processes of this
        machine.
    workers, memory
        Without a scheduler: how many processes, and the memory limit of each.
    task
        ``classification``, ``regression`` or ``auto``.
    unlabelled
        Words in the target that mean that there is no label.
    columns
        Parameters of :class:`condiff.encoders.TableEncoder`.
    sizes
        How the work is cut.
    force
        Replace a model that is there.
    report
        Takes lines of progress.
    options
        Parameters of :class:`condiff.COINClassifier` or :class:`condiff.COINRegressor`; weights and sizes of classes by
        their names. The base is fitted on the gathered rows and diffused over nearest neighbours of all rows.
    """
    started = time.monotonic()
    out = Path(out)
    _check_options(task, options)
    if (out / "model.json").exists() and not force:
        raise InvalidInputError(f"{out} already holds a model: choose another name, or replace it with force")
    tell = report or (lambda line: None)
    work = Work(out.with_name(f"{out.name}.work"))
    told: dict[str, Any] = {"drop": [], "keep": [], "categorical": [], "text": [], "image": [], "embedding": "auto"}
    told |= dict(columns or {})
    told["drop"] = [target, *told["drop"]]
    seed = int(options.get("random_state", 0))
    how = Reading(target, tuple(unlabelled), told, sizes.pilot_rows, sizes.most_labels, seed)
    with crew(cluster, workers=workers, memory=memory, report=tell) as team:
        folder = _folder_of(source, work, team)
        parts = parts_of(folder, sizes.part_rows)
        settings = {"reading": asdict(how), "sizes": asdict(sizes), "task": task, "options": options}
        _open(work, parts, settings, tell)
        found = _fit(_Job(team, work, parts), how, sizes, task, options)
        _move_in(work, out)
    stages = [Used(**each) for each in json.loads((out / CLUSTER / "stages.json").read_text(encoding="utf-8"))]
    largest = found["largest"]
    certificate = Certificate(found["nodes"], largest, math.nan, 2 * largest, "gershgorin") if found["layers"] else None
    found |= {"model": out, "certificate": certificate, "stages": stages, "seconds": time.monotonic() - started}
    found["cv_score"] = math.nan if found["cv_score"] is None else found["cv_score"]
    return TableFit(**{each.name: found[each.name] for each in fields(TableFit)})


def predict_table(
    model: str | Path,
    source: Any,
    out: str | Path,
    *,
    cluster: Any = None,
    workers: int | None = None,
    memory: str | int = "auto",
    sizes: Sizes = _SIZES,
    report: Callable[[str], None] | None = None,
) -> int:
    """Answer the rows of Parquet files with a model of :func:`fit_table`; returns their number.

    Rows that the model was fitted on get their fitted answer, others are diffused along with their neighbours among
    these. ``out`` becomes a folder with one Parquet file for each part of the source, in its order.

    Parameters
    ----------
    model
        A folder that :func:`fit_table` wrote.
    source, cluster, workers, memory, sizes, report
        As for :func:`fit_table`.
    out
        Folder to write; it must not exist, or be empty.
    """
    model, out = Path(model), Path(out)
    if not (model / CLUSTER / f"{_PLAN}.json").is_file():
        raise InvalidFileError(f"{model} was not fitted on a cluster: use condiff.load, or condiff predict with a file")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInputError(f"{out} exists: choose another name or remove it")
    tell = report or (lambda line: None)
    work = Work(out.with_name(f"{out.name}.work"))
    with crew(cluster, workers=workers, memory=memory, report=tell) as team:
        parts = parts_of(_folder_of(source, work, team), sizes.part_rows)
        stamp = (model / CLUSTER / f"{_PLAN}.json").stat().st_mtime_ns
        _open(work, parts, {"model": str(model.resolve()), "stamp": stamp}, tell)
        _link(work, model)
        _predict(_Job(team, work, parts), work.read_json(_PLAN))
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(out) as temporary:
            for file in sorted(work.path(ANSWERS).iterdir()):
                file.replace(temporary / file.name)
    shutil.rmtree(work.folder, ignore_errors=True)
    return sum(part.rows for part in parts)


# ---- the order of the stages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """Workers, their folder, and the parts of the source."""

    team: Crew
    work: Work
    parts: list[Part]

    def each(self, stage: str, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A stage of as many items as there are arguments."""
        return list(self.team.run(self.work, stage, function, dict(enumerate(arguments))).values())

    def by_part(self, stage: str, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return self.each(stage, function, [(part, *arguments) for part in self.parts])

    def once(self, stage: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.each(stage, function, [arguments])[0]

    def answer(self, n_blocks: int, folder: str) -> None:
        """Write answers part by part."""
        before = np.cumsum([0] + [part.rows for part in self.parts]).tolist()
        arguments = [(part, n_blocks, folder, first) for part, first in zip(self.parts, before, strict=False)]
        self.each("answers", answers.write_answers, arguments)


def _fit(job: _Job, how: Reading, sizes: Sizes, task: str, options: dict[str, Any]) -> dict[str, Any]:
    work, n_rows, n_parts = job.work, sum(part.rows for part in job.parts), len(job.parts)
    if not sum(job.by_part("gather", reading.gather_some, how, n_rows)):
        raise InvalidInputError(
            f"the target column {how.target!r} is empty in every row: fill it for the rows whose answer you know"
        )
    gathered = job.once("learn", reading.learn, how, n_rows, n_parts)
    job.once("labels", read_labels, how, task)
    if gathered < n_rows:
        job.by_part("count", reading.tally)
        job.once("recount", reading.recount, n_parts, n_rows)
    with ThreadPoolExecutor(1) as beside:  # one worker fits the pilot while the others go on with the rows
        fitting = beside.submit(job.once, "pilot", fit_pilot, how, options, gathered == n_rows)
        learnt = math.ceil(graph.rows_to_learn(n_rows) / n_parts)
        width = job.by_part("encode", reading.encode, how, learnt, how.seed)[0]
        n_cells = job.once("cells", graph.learn_cells, n_parts, graph.number_of_cells(n_rows), how.seed)
        job.each("sort", graph.sort_by_cell, [(True,)] * n_parts)
        pilot = fitting.result()
    work.remove("encoded", "learnt", "targets", "some", "tally")
    row_bytes = block_memory(width, pilot["n_neighbors"], pilot["outputs"], 1)
    cells = _cut(job, sizes, row_bytes, n_rows, n_cells)
    nodes = job.each("collect", graph.collect, [(own, n_parts, "nodes", True) for own in cells])
    work.remove("sorted", "sorted_targets", "places", "sizes")
    where = (np.cumsum([0, *nodes]).tolist(), cells)
    before = job.each("base", answers.apply_base, [()] * len(cells))
    found: dict[str, Any] = {"recall": 1.0, "visited": 0, "edges": 0, "border": 0.0, "largest": 0.0}
    if pilot["layers"]:
        found |= _join(job, where, pilot, sizes.recall)
        pilot |= _steps(job, where, pilot, found["largest"], options)
        _diffuse(job, where, pilot["layers"], pilot["strength"])
    after = job.each("spread", answers.look, [(where[0], pilot["layers"])] * len(cells))
    read = answers.fit_read_out(work, before, after)
    unreached = sum(job.each("read", answers.read_nodes, [(read, pilot["layers"])] * len(cells)))
    work.write_json(_PLAN, {**pilot, **found, "where": where, "read": read, "target": asdict(how)})
    job.answer(len(cells), "nodes")
    return {**pilot, **found, "rows": n_rows, "nodes": where[0][-1], "blocks": len(cells), "unreached": unreached}


def _cut(job: _Job, sizes: Sizes, row_bytes: float, n_rows: int, n_cells: int) -> list[tuple[int, int]]:
    """Blocks as runs of cells; once cut they stay, because what was finished has their numbers."""
    if not job.work.path("cut.json").is_file():
        filled = np.zeros(n_cells, np.int64)
        for part in range(len(job.parts)):
            filled += job.work.load(f"sizes/{part:06d}")
        fitting = int(_SHARE * job.team.memory / row_bytes)
        block_rows = sizes.block_rows or min(fitting, max(_FEWEST_ROWS, n_rows // _MOST_BLOCKS))
        job.work.write_json("cut", graph.cut_into_blocks(filled, max(block_rows, 1)))
    return [(int(first), int(last)) for first, last in job.work.read_json("cut")]


def _join(job: _Job, where: graph.Where, pilot: dict[str, Any], recall: float) -> dict[str, Any]:
    """Make the graph."""
    starts, cells = where
    k = min(pilot["n_neighbors"], starts[-1])
    rank = min(pilot["bandwidth_rank"], k)
    job.each("truth", graph.true_neighbours, [(k, first) for first, _ in cells])
    visits = job.once("visits", graph.cells_to_visit, len(cells), k, recall)
    job.each("neighbours", graph.find_neighbours, [(where, "nodes", k, rank, visits["visited"], True)] * len(cells))
    leaving = job.each("weights", graph.weigh, [(where,)] * len(cells))
    coming = [[block for block, ends in enumerate(leaving) if str(here) in ends] for here in range(len(cells))]
    job.each("join", graph.join, [(where, others) for others in coming])
    whole = job.each("normalise", graph.normalise, [(where,)] * len(cells))
    job.work.remove("edges", "nodes/near", "nodes/far", "truth", "graph/joined")
    job.work.save("reached", graph.reached_components(whole))
    largest = max(each["largest"] for each in whole)
    entries = sum(each["entries"] for each in whole)
    return {
        **visits,
        "largest": largest,
        "edges": entries // 2,
        "border": sum(each["outside"] for each in whole) / max(1, entries),
    }


def _steps(
    job: _Job, where: graph.Where, pilot: dict[str, Any], largest: float, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Layers and strength on the whole graph.

    A layer over all rows reaches less far than one of the pilot, whose rows are fewer. So a base that was fitted on the
    labels alone is diffused until as many degrees of freedom are left as in the pilot, and a network until as many are
    as on one machine, or for the share of that time that the pilot chose. Given layers are taken as they are, and so
    are those of a pilot of all rows: half steps for a base that was fitted on the labels alone.
    """
    limit, given = 1.0 / (largest or 1.0), options.get("strength", "auto")
    if pilot["freedom"] is None or options.get("layers", "auto") != "auto":
        step = 0.5 * limit if pilot["half_steps"] else limit
        return {"strength": step if given == "auto" else float(given)}
    time = pilot["share"] * _time(job, where, pilot["freedom"], limit)
    layers = max(1, math.ceil(time / (limit if given == "auto" else float(given)) - 1e-9))
    choice = f"{pilot['choice']} of the pilot, {layers} layers over all rows"
    return {"layers": layers, "strength": time / layers if given == "auto" else float(given), "choice": choice}


def _time(job: _Job, where: graph.Where, freedom: float, step: float) -> float:
    """The time at which so many degrees of freedom are left, as :func:`condiff.diffusion_time` has it.

    The heat trace at time t is the mean square of random signs that were diffused for half of it.
    """
    n_blocks = len(where[1])
    job.each("signs", graph.draw_signs, [(_PROBES, 0)] * n_blocks)
    passed = [(0.0, float(where[0][-1]))]
    for layer in range(1, _MOST_LAYERS + 1):
        squares = job.each(f"trace-{layer:04d}", graph.diffuse, [(where, layer, step, "z")] * n_blocks)
        job.work.remove(f"z{layer - 1:04d}")
        time, left = 2 * layer * step, sum(squares) / _PROBES
        if left <= freedom:
            before, above = passed[-1]
            time = before + math.log(above / freedom) / math.log(above / left) * (time - before)
            break
        passed.append((time, left))
        # Parts that exchange no heat keep the trace up: it has come to rest where ten times as long changes little.
        early = passed[len(passed) // 10]
        if early[0] >= step and left > 0.9 * early[1]:
            time = early[0]
            break
    job.work.remove(f"z{layer:04d}")
    return time


def _diffuse(job: _Job, where: graph.Where, layers: int, strength: float, follow: bool = False) -> None:
    """Go through the layers, of which two are kept at a time, and the first; ``follow``: new rows go along."""
    for layer in range(1, layers + 1):
        if follow:
            job.each(f"follow-{layer:04d}", graph.follow, [(where, layer, strength)] * len(where[1]))
        if layer < layers or not follow:
            job.each(f"layer-{layer:04d}", graph.diffuse, [(where, layer, strength)] * len(where[1]))
        if layer > 1:
            job.work.remove(f"u{layer - 1:04d}", f"new/u{layer - 1:04d}")


def _predict(job: _Job, plan: dict[str, Any]) -> None:
    work, n_parts = job.work, len(job.parts)
    starts, cells = plan["where"]
    where = (starts, [(int(first), int(last)) for first, last in cells])
    job.by_part("encode", reading.encode, None, 0, 0)
    job.each("sort", graph.sort_by_cell, [(False,)] * n_parts)
    work.remove("encoded")
    job.each("collect", graph.collect, [(own, n_parts, "asked", False) for own in where[1]])
    work.remove("sorted", "places", "sizes")
    new = sum(job.each("match", graph.match, [()] * len(cells)))
    if new:
        job.each("base", answers.apply_base_to_new, [()] * len(cells))
        if plan["layers"]:
            k = max(1, min(plan["n_neighbors"] - 1, starts[-1]))
            rank = max(1, min(plan["bandwidth_rank"] - 1, k))
            asked = (where, "new", k, rank, plan["visited"], False)
            job.each("neighbours", graph.find_neighbours, [asked] * len(cells))
            job.each("weights", graph.hang, [(where,)] * len(cells))
            _diffuse(job, where, plan["layers"], plan["strength"], follow=True)
    job.each("read", answers.read_asked, [(plan["read"], plan["layers"])] * len(cells))
    job.answer(len(cells), "asked")


# ---- folders ------------------------------------------------------------------------------------------------------


def _check_options(task: str, options: Mapping[str, Any]) -> None:
    if task not in ("auto", "classification", "regression"):
        raise InvalidInputError(f"task must be auto, classification or regression, not {task!r}")
    if importlib.util.find_spec("faiss") is None:
        raise MissingDependencyError("a graph on a cluster needs faiss: pip install 'condiff[knn]'")
    for name, allowed in (("graph", ("auto", "knn")), ("quota", ("soft",))):
        if options.get(name, allowed[0]) not in allowed:
            raise InvalidInputError(
                f"{name}={options[name]!r} needs all rows in one place; on a cluster {name} is {allowed[-1]!r}"
            )


def _folder_of(source: Any, work: Work, team: Crew) -> Path:
    """Where the rows lie; the partitions of a Dask DataFrame are written to files first."""
    if not hasattr(source, "to_delayed"):
        folder = Path(source)
        if not folder.is_dir():
            raise InvalidFileError(f"{folder} is not a folder: give one that holds Parquet files")
        return folder
    from dask.base import tokenize

    folder = work.path(f"source-{tokenize(source)}")  # another frame, or this one changed, has another name
    partitions = source.to_delayed()
    names = [folder / f"part-{number:06d}.parquet" for number in range(len(partitions))]
    folder.mkdir(parents=True, exist_ok=True)
    lacking = [(name, each) for name, each in zip(names, partitions, strict=True) if not name.is_file()]
    if lacking:
        from dask.delayed import delayed

        writing = [delayed(_write_partition)(each, str(name)) for name, each in lacking]
        team.client.gather(team.client.compute(writing))
    return folder


def _write_partition(frame: Any, path: str) -> None:
    with atomic_path(Path(path)) as temporary:
        frame.to_parquet(temporary, index=False)


def _open(work: Work, parts: Sequence[Part], settings: dict[str, Any], tell: Callable[[str], None]) -> None:
    """Continue in a folder that was begun with the same files and settings; begin anew otherwise."""
    files = {part.file: (Path(part.file).stat().st_size, Path(part.file).stat().st_mtime_ns) for part in parts}
    asked = json.dumps([settings, sorted(files.items()), [asdict(part) for part in parts]], default=str)
    digest = hashlib.sha256(asked.encode()).hexdigest()
    if work.path("begun.json").is_file() and work.read_json("begun") == digest:
        tell(f"continuing in {work.folder}")
        return
    if work.folder.is_dir():
        for each in work.folder.iterdir():
            if not Path(parts[0].file).is_relative_to(each.resolve()):
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    work.folder.mkdir(parents=True, exist_ok=True)
    work.write_json("begun", digest)


def _move_in(work: Work, out: Path) -> None:
    """Make a model of what was written: the pilot, the graph beside it, and the answers."""
    work.write_json("stages", [asdict(each) for each in used(work)])
    with atomic_folder(out) as temporary:
        for file in work.path("pilot").iterdir():
            file.replace(temporary / file.name)
        (temporary / CLUSTER).mkdir()
        for name in (f"{_PLAN}.json", "stages.json", "centres.npy", "nodes", "graph", "u0000"):
            if work.path(name).exists():
                work.path(name).replace(temporary / CLUSTER / name)
        work.path(ANSWERS).replace(temporary / ANSWERS)
    shutil.rmtree(work.folder, ignore_errors=True)


def _link(work: Work, model: Path) -> None:
    """Let a prediction see the graph of a model under the names that it had at the fit."""
    links = {name.name: name for name in (model / CLUSTER).iterdir()} | {"pilot": model}
    for name, there in links.items():
        if not work.path(name).exists():
            work.path(name).symlink_to(there.resolve())
    work.write_json("encoder", load(model).encoder_.to_state())
