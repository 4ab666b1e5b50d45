"""All sizes and methods, each in a process of its own; what is measured already is not measured again."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condiff.errors import CondiffError
from condiff.files import write_text
from condiff.reproduce.bench.scale.methods import METHODS
from condiff.reproduce.provenance import provenance

#: Numbers of points; at the first one neighbours are still exact.
SIZES = (50_000, 62_500, 125_000, 250_000, 500_000, 1_000_000)
#: Sizes from which exponents are fitted.
FITTED_FROM = 62_500


def run_sweep(
    out: Path,
    *,
    sizes: Sequence[int] = SIZES,
    methods: Sequence[str] = tuple(METHODS),
    products: bool = False,
    threads: int = 2,
    limit: float = 1800.0,
    memory_gb: float = 16.0,
    command: str = "condiff bench scale",
    report: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Run the jobs that ``out`` does not hold yet, each result written as it comes; returns those asked for.

    A method that ran out of time or memory is not tried on more points.

    Parameters
    ----------
    out
        A JSON file with one row for each method and size.
    sizes, methods, products
        What to run; ``products`` adds the diffusion on a graph of the size of ogbn-products.
    threads, limit, memory_gb
        Of each job: its threads, seconds and memory.
    command
        What made the results, for the record.
    """
    rows: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    made = provenance(command)
    jobs: list[dict[str, Any]] = [
        {"method": method, "points": size, "threads": threads} for method in methods for size in sorted(sizes)
    ]
    jobs += [{"method": "products", "points": 0, "threads": threads}] if products else []
    wanted: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="condiff-scale-") as folder:
        for job in jobs:
            row = next((row for row in rows if _key(row) == _key(job)), None)
            if row is None:
                gave_up = [w for w in wanted if w["method"] == job["method"] and w["status"] in ("time", "memory")]
                if gave_up:
                    report(f"{_title(job)}: not tried, because it gave up at {gave_up[0]['points']:,}")
                    continue
                report(f"{_title(job)}: running")
                row = _run(job | {"memory_gb": memory_gb, "folder": folder}, limit) | {"made": made}
                rows.append(row)
                write_text(out, json.dumps(rows, indent=2) + "\n")
            report(f"{_title(row)}: {_outcome(row)}")
            wanted.append(row)
    return wanted


def _run(job: dict[str, Any], limit: float) -> dict[str, Any]:
    call = [sys.executable, "-m", "condiff.reproduce.bench.scale.job", json.dumps(job)]
    kept = {name: value for name, value in job.items() if name != "folder"}
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return kept | {"status": "time", "reason": f"more than {limit:.0f} s"}
    if done.returncode < 0:
        # A process that takes the machine's last memory is killed by the system.
        return kept | {"status": "memory", "reason": f"ended by signal {-done.returncode}"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CondiffError(f"{_title(job)} failed: {last}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found.pop("folder", None)
    return found


def exponents(rows: Sequence[dict[str, Any]], field: str = "seconds") -> dict[str, float]:
    """For each method the slope of a straight line through the logarithms of a field and of the number of points."""
    found = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        chosen = [
            row for row in rows if row["method"] == method and row["status"] == "ok" and row["points"] >= FITTED_FROM
        ]
        if len(chosen) > 1:
            sizes, values = np.log([row["points"] for row in chosen]), np.log([row[field] for row in chosen])
            found[method] = float(np.polyfit(sizes, values, 1)[0])
    return found


def _key(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["method"], int(row["points"]), int(row["threads"])


def _title(job: dict[str, Any]) -> str:
    return job["method"] if job["method"] == "products" else f"{job['method']}, {job['points']:,} points"


def _outcome(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return f"gave up ({row['reason']})"
    outcome = f"{row['seconds']:.1f} s, {row['memory_mb']:.0f} MB"
    if "accuracy" in row:
        return f"{outcome}, accuracy {100 * row['accuracy']:.2f} of {100 * row['best_accuracy']:.2f}"
    return f"{outcome}, {100 * row['share_of_triad']:.0f} % of a triad's bandwidth"
