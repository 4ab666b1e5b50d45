"""Answers of a fit on a cluster: what the base says block by block, how diffused answers are read, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.bases.classical import Inputs, Labelled
from condiff.diffusion.readout import ReadOut
from condiff.distributed.crew import Work
from condiff.distributed.pilot import pilot_of
from condiff.distributed.rows import Part
from condiff.estimators.inputs import known_shares
from condiff.estimators.recipe import Affine, clamped, class_shares
from condiff.files import atomic_path

#: The folder of answers at all rows, within a model's folder.
ANSWERS = "answers"
# Points that a read-out is fitted on, spread evenly over all.
_READ = 1000


def apply_base(work: Work, item: int) -> dict[str, Any]:
    """What the base says of a block's nodes, and what is diffused: the same with the given labels in their places."""
    model = pilot_of(work)
    base = model.base_outputs(work.load(f"nodes/x/{item:06d}"))
    targets = work.load(f"nodes/targets/{item:06d}")
    known = ~np.isnan(targets)
    rows = work.load(f"nodes/origin/{item:06d}")[known, 1]
    targets = targets[known].astype(np.int64) if hasattr(model, "classes_") else model.scaled(targets[known, None])
    data = Labelled(Inputs(base), rows, targets, np.ones(len(rows)), base.shape[1])
    held = clamped(base, data)
    start = base if model.readout_ is None or not model.layers_ else held
    work.save(f"labelled/{item:06d}", np.unique(rows))
    work.save(f"held/{item:06d}", held[np.unique(rows)].astype(np.float32))
    work.save(f"base/{item:06d}", base.astype(np.float32))
    work.save(f"u0000/{item:06d}", start.astype(np.float32))
    return _moments(start)


def _moments(u: NDArray[Any]) -> dict[str, Any]:
    whole = u.astype(np.float64)
    return {"rows": len(u), "sum": whole.sum(axis=0).tolist(), "squares": (whole**2).sum(axis=0).tolist()}


def look(work: Work, item: int, starts: Sequence[int], layers: int) -> dict[str, Any]:
    """Moments of a block's diffused answers, and those of them that a read-out is fitted on."""
    u = work.load(f"u{layers:04d}/{item:06d}")
    some = np.linspace(0, starts[-1] - 1, min(starts[-1], _READ)).astype(np.int64)
    here = some[(some >= starts[item]) & (some < starts[item + 1])] - starts[item]
    work.save(f"spread/{item:06d}", u[here])
    return _moments(u)


def fit_read_out(work: Work, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, Any] | None:
    """How diffused answers are read, as on one machine: masses and certainty, or mean and spread, stay."""
    model = pilot_of(work)
    prior = known_shares(model.class_prior, np.arange(len(model.classes_))) if hasattr(model, "classes_") else None
    if model.readout_ is None or (not model.layers_ and prior is None):
        return None
    n = sum(each["rows"] for each in before)

    def moments(blocks: list[dict[str, Any]]) -> tuple[Any, Any]:
        sums = (np.sum([each[name] for each in blocks], axis=0) / n for name in ("sum", "squares"))
        mean, squares = sums
        return mean, squares

    mean, squares = moments(before)
    if hasattr(model, "classes_"):
        record = model.record_
        data = Labelled(Inputs(record.base), record.nodes, record.targets, record.weights, len(mean))
        some = np.concatenate([work.load(f"spread/{block:06d}") for block in range(len(after))]).astype(np.float64)
        found = ReadOut.fit(some, class_shares(mean[None], data, prior), float(squares.sum()))
        return {"slope": found.slope, "bias": found.bias.tolist()}
    moved, moved_squares = moments(after)
    spread = np.sqrt(np.maximum(moved_squares - moved**2, 0.0))
    slope = np.sqrt(np.maximum(squares - mean**2, 0.0)) / np.maximum(spread, 1e-12)
    slope = np.where(spread > 1e-12, slope, 1.0)
    return {"slope": slope.tolist(), "bias": (mean - slope * moved).tolist()}


def _reader(read: dict[str, Any] | None) -> Callable[[NDArray[Any]], NDArray[Any]]:
    if read is None:
        return lambda u: u
    bias = np.asarray(read["bias"])
    if isinstance(read["slope"], list):
        return Affine(np.asarray(read["slope"]), bias)
    return ReadOut(read["slope"], bias)


def read_nodes(work: Work, item: int, read: dict[str, Any] | None, layers: int) -> int:
    """The answers at a block's nodes; returns how many of these no label reaches."""
    output = _reader(read)(work.load(f"u{layers:04d}/{item:06d}").astype(np.float64))
    reached = np.ones(len(output), bool)
    if layers:
        reached = np.isin(work.load(f"nodes/component/{item:06d}"), work.load("reached"))
        output[~reached] = work.load(f"base/{item:06d}")[~reached]
    if hasattr(pilot_of(work), "classes_"):
        output[work.load(f"labelled/{item:06d}")] = work.load(f"held/{item:06d}")
    work.save(f"nodes/reached/{item:06d}", reached)
    work.save(f"nodes/output/{item:06d}", output.astype(np.float32))
    return int((~reached).sum())


def apply_base_to_new(work: Work, item: int) -> None:
    """What the base says of new rows."""
    base = pilot_of(work).base_outputs(work.load(f"new/x/{item:06d}"))
    work.save(f"new/u0000/{item:06d}", base.astype(np.float32))


def read_asked(work: Work, item: int, read: dict[str, Any] | None, layers: int) -> None:
    """The answers at all different rows of a block that were asked for."""
    node = work.load(f"asked/node/{item:06d}")
    found = work.pick(f"nodes/output/{item:06d}", np.maximum(node, 0)) if (node >= 0).any() else None
    if (node < 0).any():
        new = _reader(read)(work.load(f"new/u{layers:04d}/{item:06d}").astype(np.float64)).astype(np.float32)
        found = np.empty((len(node), new.shape[1]), np.float32) if found is None else found
        found[node < 0] = new
    width = len(pilot_of(work).record_.output[0])
    work.save(f"asked/output/{item:06d}", np.empty((0, width), np.float32) if found is None else found)


def write_answers(work: Work, item: int, part: Part, n_blocks: int, folder: str, before: int) -> None:
    """Write what is answered for the rows of a part."""
    import pyarrow
    import pyarrow.parquet

    model = pilot_of(work)
    outputs = np.empty((part.rows, model.record_.output.shape[1]))
    for block in range(n_blocks):
        first, last = work.rows(f"{folder}/bounds/{block:06d}", item, item + 2).tolist()
        if last > first:
            place, node = work.rows(f"{folder}/origin/{block:06d}", first, last).T
            outputs[place] = work.pick(f"{folder}/output/{block:06d}", node)
    table = part.table()
    facts = model.metadata_
    answers: dict[str, Any] = {"row": np.arange(before + 1, before + part.rows + 1)}
    answers |= {name: table.column(name).words().tolist() for name in table.columns if _names_rows(name, model)}
    given = [None] * part.rows
    if facts["target"] in table.columns:
        words = table.column(facts["target"]).words().tolist()
        given = [word if word and word not in facts["unlabelled"] else None for word in words]
    if hasattr(model, "classes_"):
        chances = model.probabilities_of(outputs)
        classes = [str(label) for label in model.classes_.tolist()]
        codes = chances.argmax(axis=1)
        said = [classes[code] if own is None else own for code, own in zip(codes.tolist(), given, strict=True)]
        answers |= {"label": said, "confidence": chances[np.arange(len(codes)), codes]}
        answers |= {f"p_{label}": column for label, column in zip(classes, chances.T, strict=True)}
    else:
        answers["value"] = model.values_of(outputs)
    answers["given"] = given
    with atomic_path(work.path(f"{ANSWERS}/part-{item:06d}.parquet")) as temporary:
        pyarrow.parquet.write_table(pyarrow.table(answers), temporary)


def _names_rows(name: str, model: Any) -> bool:
    """Whether a column was left out of the model because it names the rows."""
    return any(note.startswith(f"{name!r}: id,") for note in model.metadata_["columns"])
