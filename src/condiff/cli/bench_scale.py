"""``condiff bench scale``: how time, memory and accuracy grow up to a million points, beside other methods."""

from __future__ import annotations

import json as codec
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from condiff.cli.output import console, note, print_json, typed


def bench_scale(
    points: Sequence[int], methods: Sequence[str], products: bool, limit: float, threads: int, out: Path, json: bool
) -> None:
    """Run what ``out`` does not hold yet and show all of it; see the command's help."""
    from condiff.errors import InvalidInputError, did_you_mean
    from condiff.reproduce.bench.scale import SIZES, exponents, run_sweep
    from condiff.reproduce.bench.scale.methods import METHODS
    from condiff.reproduce.bench.scale.points import CLASSES, LABELS_A_CLASS

    for method in methods:
        if method not in METHODS:
            raise InvalidInputError(
                f"unknown method {method!r}{did_you_mean(method, METHODS)}: known are {', '.join(METHODS)}"
            )
    fewest = 2 * CLASSES * LABELS_A_CLASS
    if any(size < fewest for size in points):
        raise InvalidInputError(f"--points must be at least {fewest:,}: {LABELS_A_CLASS} a class have labels")
    # Asked for the products alone, no points are run.
    sizes = tuple(points) or (() if products else SIZES)
    rows = run_sweep(
        out,
        sizes=sizes,
        methods=tuple(methods) or tuple(METHODS),
        products=products,
        threads=threads,
        limit=limit,
        command=typed(),
        report=note,
    )
    if any(row["points"] and row["status"] == "ok" for row in rows):
        from condiff.pages.canvas import save
        from condiff.reproduce.figures.bench import draw_scale

        save(draw_scale(codec.loads(out.read_text())), out.with_suffix(".png"))
    if json:
        print_json(rows)
        return
    console.print(_table(rows))
    for method, slope in exponents(rows).items():
        console.print(f"{method}: time grows as points to the power of {slope:.2f}", markup=False)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("method", "points", "seconds", "memory", "accuracy", "best", "note"):
        table.add_column(name, justify="left" if name in ("method", "note") else "right")
    for row in rows:
        size = f"{row.get('nodes', row['points']):,}" if row["status"] == "ok" else f"{row['points']:,}"
        if row["status"] != "ok":
            table.add_row(row["method"], size, "-", "-", "-", "-", f"gave up: {row['reason']}")
            continue
        remark = ""
        if row["method"] == "products":
            remark = f"{row['bytes_a_second'] / 1e9:.1f} GB/s, {100 * row['share_of_triad']:.0f} % of a triad's"
        elif row["method"] == "COIN":
            parts = ("neighbours", "graph", "fit", "predict")
            remark = ", ".join(f"{part} {row[f'seconds_{part}']:.0f} s" for part in parts)
            remark += f"; recall {100 * row['recall']:.1f} %"
        shares = [f"{100 * row[field]:.2f} %" if field in row else "-" for field in ("accuracy", "best_accuracy")]
        table.add_row(
            row["method"], size, f"{row['seconds']:.1f}", f"{row['memory_mb'] / 1024:.1f} GB", *shares, remark
        )
    return table
