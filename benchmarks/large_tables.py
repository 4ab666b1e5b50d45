"""What `condiff fit` costs on large mixed tables: processor seconds, which other work does not change, and memory.

python benchmarks/large_tables.py --rows 50000 200000
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LABELS = 200


def write_table(path: Path, rows: int) -> None:
    """Twenty columns as people have them: numbers, money, shares, gaps, categories, a truth value, dates, a count."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, rows)
    columns: dict[str, object] = {"row_id": [f"r{row}" for row in range(rows)]}
    for number in range(9):
        columns[f"number {number}"] = np.round(rng.normal(1.5 * (kind == number % 4)), 4)
    columns["price"] = [f"${value:,.2f}" for value in np.exp(rng.normal(6, 1, rows)) * (1 + 0.3 * (kind == 1))]
    columns["share"] = [f"{value:.1f} %" for value in rng.uniform(0, 100, rows)]
    columns["gaps"] = np.where(rng.random(rows) < 0.1, "", np.round(rng.normal(size=rows), 3).astype(str))
    for levels in (3, 8, 30, 200):
        codes = (rng.integers(0, levels, rows) + (rng.random(rows) < 0.5) * kind) % levels
        columns[f"one of {levels}"] = [f"level {code}" for code in codes]
    columns["flag"] = np.where(rng.random(rows) < 0.3 + 0.2 * (kind == 2), "TRUE", "FALSE")
    columns["day"] = (np.datetime64("2015-01-01") + rng.integers(0, 3000, rows)).astype(str)
    columns["count"] = rng.poisson(3 + kind)
    known = np.isin(np.arange(rows), rng.permutation(rows)[:LABELS])
    columns["kind"] = np.where(known, np.array(list("abcd"))[kind], "")
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))  # type: ignore[call-overload]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 200_000])
    for rows in parser.parse_args().rows:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table.csv"
            write_table(table, rows)
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            command = ["fit", str(table), "--target", "kind", "--out", str(Path(folder) / "model")]
            subprocess.run([sys.executable, "-c", "from condiff.cli.app import main; main()", *command], check=True)
            used, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
        seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(f"{rows:,} rows: {wall:.0f} s, {seconds:.0f} processor seconds, {used.ru_maxrss / 2**20:.2f} GB at most")


if __name__ == "__main__":
    main()
