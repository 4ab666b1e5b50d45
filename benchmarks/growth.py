"""How time and memory of the node engine grow with nodes, edges, features, layers and initialisations.

    python benchmarks/growth.py [--repeats 3] [--out results/speed]

Prints fitted exponents; writes growth.json and growth.png. Keep the machine idle meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch

from condiff.files import write_text
from condiff.pages.canvas import save
from condiff.reproduce.bench.speed.growth import AXES, exponent, growth
from condiff.reproduce.figures.bench import draw_growth
from condiff.reproduce.provenance import provenance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/speed"))
    arguments = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    rows = list(growth(arguments.repeats, print))
    machine = rows[0]
    print(
        f"\nthe machine: {machine['multiply_adds_a_second'] / 1e9:.0f} billion multiply-adds a second, "
        f"{machine['bytes_a_second'] / 1e9:.0f} GB a second"
    )
    print("axis               exponent of time   of memory   time / bound at the largest")
    for axis in AXES:
        last = [row for row in rows if row["axis"] == axis][-1]
        print(
            f"{axis:<18} {exponent(rows, axis, 'seconds'):>16.2f} {exponent(rows, axis, 'memory_mb'):>11.2f}"
            f" {last['seconds'] / last['bound_seconds']:>29.1f}"
        )
    made = provenance(f"python benchmarks/growth.py --repeats {arguments.repeats}")
    write_text(arguments.out / "growth.json", json.dumps({"made": made, "rows": rows}, indent=2) + "\n")
    save(draw_growth(rows), arguments.out / "growth.png")


if __name__ == "__main__":
    main()
