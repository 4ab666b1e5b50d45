"""A default fit of many rows that lie in a file and are mapped into memory: time, memory, accuracy.

    python benchmarks/mapped.py [--rows 10000000] [--columns 32] [--out FILE.json]

The points are those of `condiff bench scale` with fewer columns, ten classes of which a hundred rows each have a label.
They are written to a temporary NPY file by a process of its own, so that the memory is that of the fit alone. Keep the
machine idle meanwhile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from condiff import COINClassifier
from condiff.files import write_text
from condiff.reproduce.bench.scale import make_points
from condiff.reproduce.provenance import provenance

#: Rows that are answered after the fit.
NEW = 10_000


def write(folder: str, rows: int, columns: int) -> None:
    points = make_points(rows + NEW, features=columns)
    np.save(Path(folder) / "x.npy", points.x)
    np.savez(Path(folder) / "labels.npz", labels=points.labels, shown=points.shown, best=points.best_accuracy)


def measure(folder: str, rows: int) -> dict[str, float | str]:
    x = np.load(Path(folder) / "x.npy", mmap_mode="r")
    labels = np.load(Path(folder) / "labels.npz")
    truth, shown = labels["labels"], labels["shown"][:rows]
    started, processor = time.perf_counter(), time.process_time()
    model = COINClassifier(verbose=True).fit(x[:rows], shown)
    fitted = time.perf_counter()
    answers = model.predict(np.asarray(x[rows:]))
    done = time.perf_counter()
    hidden = shown < 0
    return {
        "seconds_fit": fitted - started,
        "seconds_predict": done - fitted,
        "processor_seconds": time.process_time() - processor,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "accuracy": float((model.transduction_ == truth[:rows])[hidden].mean()),
        "new_accuracy": float((answers == truth[rows:]).mean()),
        "held_out_accuracy": float(model.cv_score_),
        "best_accuracy": float(labels["best"]),
        "choice": str(model.choice_),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="condiff-mapped-") as folder:
        writer = multiprocessing.get_context("spawn").Process(
            target=write, args=(folder, options.rows, options.columns)
        )
        writer.start()
        writer.join()
        if writer.exitcode:
            raise SystemExit("the points could not be written: is there room in the temporary folder?")
        found = {"rows": options.rows, "columns": options.columns} | measure(folder, options.rows)
    command = f"python benchmarks/mapped.py --rows {options.rows} --columns {options.columns}"
    text = json.dumps(found | {"made": provenance(command)}, indent=2)
    print(text)
    if options.out is not None:
        write_text(options.out, text + "\n")


if __name__ == "__main__":
    main()
