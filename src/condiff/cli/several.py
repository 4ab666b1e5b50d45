"""Models that give any number of labels to a row: what ``condiff fit`` says of them, and ``condiff predict`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from condiff.cli.output import NamedLines, console, counted
from condiff.readers.targets import class_slips

if TYPE_CHECKING:
    from condiff.cli.learnable import Learnable
    from condiff.cli.target import Target


def summarised_several(
    model: Any, found: Learnable, wanted: Target, facts: dict[str, Any], out: Path, certified: bool
) -> dict[str, Any]:
    """What was fitted and how good every label's answers are, as plain values."""
    first = model.heads_[0]
    return {
        "task": wanted.task,
        "rows": found.table.n_rows,
        "known": int(wanted.known.sum()),
        "labelled": wanted.labelled,
        "file": [*found.table.notes, *found.notes],
        "columns": facts["columns"],
        "ids": found.ids,
        "notes": class_slips(wanted.classes, wanted.counts),
        "nodes": first.graph_.n_nodes,
        "edges": first.graph_.n_edges,
        "labels": {str(name): _head(head, certified) for name, head in zip(model.classes_, model.heads_, strict=True)},
        "model": str(out),
    }


def _head(head: Any, certified: bool) -> dict[str, Any]:
    """How one label is answered; ``always_score`` is the accuracy of always saying the same."""
    from scipy.stats import binomtest

    record = head.record_
    facts: dict[str, Any] = {"choice": str(head.choice_), "layers": head.layers_, "strength": head.strength_}
    facts["certificate"] = head.certificate_.to_dict() if certified else None
    facts |= {"cv_score": None, "interval": None, "always_score": None}
    if record.is_scored:
        truth, counting = record.targets[record.held_out], record.weights[record.held_out]
        n = len(np.unique(record.nodes[record.held_out]))
        shares = np.bincount(truth, counting, minlength=2) / counting.sum()
        interval = binomtest(round(head.cv_score_ * n), n).proportion_ci(method="wilson")
        facts |= {"cv_score": head.cv_score_, "interval": tuple(interval), "always_score": float(shares.max())}
    return facts


def show_several(summary: dict[str, Any]) -> None:
    """Print it."""
    lines = NamedLines()
    add = lines.add
    labels = counted(len(summary["labels"]), "label")
    add("data", [f"{summary['rows']} rows, {summary['known']} labelled, with {labels} in all", *summary["file"]])
    add("note", summary["notes"])
    add("columns", summary["columns"])
    if summary["ids"]:
        add("ids", [f"{', '.join(map(repr, summary['ids']))} names the rows in the answers"])
    add("graph", [f"{summary['nodes']} points, {summary['edges']} edges"])
    add("labels", [_line(name, summary["labelled"][name], facts) for name, facts in summary["labels"].items()])
    add("model", [f"{summary['model']}, in {summary['seconds']:.1f} s"])
    lines.show()
    console.print(f"answer rows with: condiff predict {summary['model']} DATA --out answers.csv", markup=False)


def _line(name: str, count: int, facts: dict[str, Any]) -> str:
    """A label, how many rows have it, and how good its answers are."""
    told = f"{name}: {counted(count, 'row')}; "
    if facts["cv_score"] is None:
        return told + "too few rows can be held out for a score; at least ten are needed"
    low, high = facts["interval"]
    score = (
        f"{100 * facts['cv_score']:.1f} % accuracy on held-out rows (95 % interval {100 * low:.0f} to {100 * high:.0f})"
    )
    return f"{told}{score}; always the same would be {100 * facts['always_score']:.1f} %"


def several_columns(
    chances: NDArray[np.float64], names: list[str], separator: str, given: Sequence[set[str] | None]
) -> dict[str, list[Any]]:
    """The columns of answers: all labels that apply, what was given, what the model says instead, and chances.

    Parameters
    ----------
    chances, names
        That each label applies, (rows, labels), and the labels.
    separator
        To write between labels; a row without any has it alone.
    given
        The labels in the table, None where there are none.
    """
    said = [{name for name, chance in zip(names, row, strict=True) if chance > 0.5} for row in chances.tolist()]

    def written(labels: set[str] | None) -> str | None:
        return None if labels is None else separator.join(sorted(labels)) or separator.strip()

    columns: dict[str, list[Any]] = {
        "labels": [written(own if own is not None else answer) for own, answer in zip(given, said, strict=True)]
    }
    if any(own is not None for own in given):
        columns["given"] = [written(own) for own in given]
        columns["model_says"] = [
            written(answer) if own is not None and answer != own else None
            for own, answer in zip(given, said, strict=True)
        ]
    for place, name in enumerate(names):
        columns[f"p_{name}"] = chances[:, place].round(6).tolist()
    return columns
