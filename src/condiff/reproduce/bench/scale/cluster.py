"""A table that is fitted on the workers of a Dask cluster: time, memory and traffic of each stage, and the accuracy.

The rows are those of :func:`~condiff.reproduce.bench.scale.make_points` with 32 columns, in Parquet files. Workers are
processes of this machine with a memory limit each. With ``kill`` one of them is ended by signal 9 in every stage, as
soon as the first item of that stage has been finished, and the answers are compared with those of an undisturbed fit.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.distributed.answers import ANSWERS
from condiff.distributed.crew import crew
from condiff.distributed.tables import fit_table
from condiff.estimators import COINClassifier
from condiff.files import write_text
from condiff.reproduce.bench.scale.points import Points, make_points
from condiff.reproduce.provenance import provenance

FEATURES = 32
#: Rows up to which one process is measured beside them.
MOST_ALONE = 500_000
_FILE_ROWS = 250_000
_SAID = ("seconds", "choice", "nodes", "edges", "blocks", "border", "layers", "recall", "visited", "cv_score")
_TARGET = "kind"


def write_parquet(points: Points, folder: Path) -> Path:
    """The points as files of a quarter of a million rows."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(points.x), _FILE_ROWS):
        x, shown = points.x[start : start + _FILE_ROWS], points.shown[start : start + _FILE_ROWS]
        columns = {f"x{column:02d}": x[:, column] for column in range(x.shape[1])}
        columns[_TARGET] = pyarrow.array(shown, mask=shown < 0)
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"rows-{start // _FILE_ROWS:04d}.parquet")
    return folder


def run_cluster(
    out: Path,
    *,
    rows: Sequence[int],
    workers: Sequence[int],
    memory: str,
    base: str,
    kill: bool,
    command: str,
    report: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Run what ``out`` does not hold yet, each result written as it comes; returns those asked for.

    Parameters
    ----------
    out
        A JSON file with one row for each size and number of workers; no workers is one process without Dask.
    rows, workers, memory
        Sizes, numbers of workers, and the memory limit of each.
    base
        What is diffused, as the estimators' parameter has it.
    kill
        End a worker in every stage.
    command
        What made the results, for the record.
    """
    done: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    wanted = []
    for size in rows:
        for number in ([0] if size <= MOST_ALONE and not kill else []) + list(workers):
            key = {"rows": size, "workers": number, "base": base, "memory": memory if number else None}
            key |= {"kill": kill and number > 0}
            row = next((each for each in done if key.items() <= each.items()), None)
            if row is None:
                report(f"{size:,} rows, {number} workers: running")
                row = key | _measured(size, number, memory, base, kill, report) | {"made": provenance(command)}
                done.append(row)
                write_text(out, json.dumps(done, indent=2) + "\n")
            wanted.append(row)
    return wanted


def _measured(
    size: int, workers: int, memory: str, base: str, kill: bool, report: Callable[[str], None]
) -> dict[str, Any]:
    points = make_points(size, features=FEATURES)
    facts: dict[str, Any] = {"best_accuracy": points.best_accuracy}
    if not workers:
        started, spent = time.monotonic(), time.process_time()
        model = COINClassifier(base=base, graph="knn", scaling="standard").fit(points.x, points.shown)
        facts |= {"layers": model.layers_, "choice": str(model.choice_)}
        used = {"seconds": time.monotonic() - started, "processor_seconds": time.process_time() - spent}
        return facts | used | {"accuracy": points.accuracy(model.transduction_), "cv_score": model.cv_score_}
    with tempfile.TemporaryDirectory(prefix="condiff-cluster-") as place:
        source = write_parquet(points, Path(place) / "source")
        model_folder = Path(place) / "model"
        with crew(workers=workers, memory=memory) as team, _killer(team.client, model_folder, kill) as killed:
            found = fit_table(source, _TARGET, model_folder, cluster=team.client, report=report, base=base)
        answers = _labels(model_folder / ANSWERS)
        stages = [asdict(each) for each in found.stages]
        facts |= {
            name: value
            for name, value in found.to_dict().items()
            if name
            in ("seconds", "choice", "nodes", "edges", "blocks", "border", "layers", "recall", "visited", "cv_score")
        }
        return facts | {
            "processor_seconds": sum(each["seconds"] for each in stages),
            "accuracy": points.accuracy(answers),
            "memory_bytes": max(each["memory"] for each in stages),
            "moved_bytes": sum(each["moved"] for each in stages),
            "killed": killed,
            "answers": _digest(answers),
            "stages": stages,
        }


def _labels(folder: Path) -> NDArray[np.int64]:
    import pyarrow.parquet

    return np.asarray(pyarrow.parquet.read_table(folder, columns=["label"])["label"].to_numpy()).astype(np.int64)


def _digest(answers: NDArray[np.int64]) -> str:
    import hashlib

    return hashlib.sha256(answers.astype(np.int8).tobytes()).hexdigest()[:16]


@contextlib.contextmanager
def _killer(client: Any, model: Path, wanted: bool) -> Iterator[list[str]]:
    """End one worker after the first item of every stage, all layers being one; the names of these stages."""
    killed: list[str] = []
    over = threading.Event()

    def watch() -> None:
        marks = model.with_name(f"{model.name}.work") / "marks"
        while not over.wait(0.05):
            with contextlib.suppress(OSError):  # the folder may be moved away, and a worker be between two lives
                begun = sorted({mark.parent.name.partition("-")[0] for mark in marks.glob("*/*.json")} - set(killed))
                workers = sorted(client.run(os.getpid, on_error="ignore").values()) if begun else []
                if workers:
                    os.kill(workers[len(killed) % len(workers)], signal.SIGKILL)
                    killed.append(begun[0])

    thread = threading.Thread(target=watch, daemon=True)
    if wanted:
        thread.start()
    try:
        yield killed
    finally:
        over.set()
        if wanted:
            thread.join()
