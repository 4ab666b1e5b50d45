"""Lists of edges, and of each node's neighbours, as text: with a header or without, separated by whatever they are."""

from __future__ import annotations

import ast
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from condiff.errors import InvalidFileError
from condiff.files import refusing
from condiff.readers.cells import as_number

_COMMENTS = ("#", "%", "//")
# What the columns of both ends are called, and those of weights.
_ENDS = (
    ("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2"), ("node_1", "node_2"), ("id1", "id2"),
    ("id_1", "id_2"), ("u", "v"),
)  # fmt: skip
_WEIGHTS = ("weight", "weights", "w")
# The third line of what networkx.write_adjlist writes begins so.
_OF_NEIGHBOURS = "# GMT "


class EdgeList(NamedTuple):
    """The nodes' names, and the edges between their places with weights."""

    names: list[str]
    ends: list[tuple[int, int, float]]


class _Row(NamedTuple):
    line: int
    cells: list[str]


def read_edge_list(path: Path, kinds: str) -> EdgeList:
    """Edges, one on each line: two names and perhaps a weight; or a node and all of its neighbours on each.

    Cells are separated by tabs, semicolons, commas or blanks, and names in quotes may hold any of these. A first line
    may name the columns; then they may be in any order, and others are left out. Comments are left out too.

    Parameters
    ----------
    path
        The file.
    kinds
        What graphs can be read, for messages.
    """
    with refusing(path, "readable text", "save it as UTF-8"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    given = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if path.suffix.lower() == ".adjlist" or any(line.startswith(_OF_NEIGHBOURS) for _, line in given[:3]):
        found = _neighbours(path, given)
    else:
        found = _edges(path, given, kinds)
    names = list(dict.fromkeys(name for a, b, _ in found for name in (a, b)))
    if all(name.isdecimal() and len(name) < 20 for name in names):  # Python reads no numbers of thousands of digits
        names.sort(key=int)
    place = {name: number for number, name in enumerate(names)}
    return EdgeList(names, [(place[a], place[b], weight) for a, b, weight in found])


def _edges(path: Path, given: Sequence[tuple[int, str]], kinds: str) -> list[tuple[str, str, float]]:
    plain: list[tuple[int, str]] = []
    weights: dict[int, str] = {}
    for number, line in given:
        if not line.lstrip().startswith(_COMMENTS):
            rest, own = _without_attributes(line)
            plain.append((number, rest))
            if own is not None:
                weights[number] = own
    rows = _cells(plain)
    places = _header(rows)
    if places is not None:
        rows = rows[1:]
    source, target, *more = places or (0, 1, 2)
    needed = max(source, target)
    wrong = next(
        (row.line for row in rows if len(row.cells) <= needed or (places is None and len(row.cells) > 3)), None
    )
    if wrong is not None or not rows:
        where = f"{path}, line {wrong}" if wrong else str(path)
        raise InvalidFileError(
            f"{where} is no list of edges (two names and perhaps a weight on each line): give {kinds}"
        )
    found: list[tuple[str, str, float]] = []
    for at, cells in rows:
        beside = cells[more[0]] if more and len(cells) > more[0] else "1"
        written = weights.get(at, beside)
        weight = as_number(written)
        if weight is None or weight < 0:
            raise InvalidFileError(f"{path}, line {at}: the weight is {written!r}: give a number that is not negative")
        for name in (cells[source], cells[target]):
            if not name:
                raise InvalidFileError(f"{path}, line {at}: the name of a node is empty: give every node one")
        found.append((cells[source], cells[target], weight))
    return found


def _neighbours(path: Path, given: Sequence[tuple[int, str]]) -> list[tuple[str, str, float]]:
    """A node and its neighbours on each line, as networkx.write_adjlist has them; one alone is joined to itself."""
    found: list[tuple[str, str, float]] = []
    for number, line in given:
        if line.lstrip().startswith(_COMMENTS):
            continue
        if line.rstrip().endswith("}"):
            raise InvalidFileError(
                f"{path}, line {number} has attributes, which no list of neighbours has: write the graph with "
                "networkx.write_edgelist"
            )
        node, *others = line.split()
        found += [(node, other, 1.0) for other in others or [node]]
    if not found:
        raise InvalidFileError(f"{path} has no nodes: write the graph with networkx.write_adjlist or write_edgelist")
    return found


def _cells(plain: Sequence[tuple[int, str]]) -> list[_Row]:
    """The cells of each line, split by what separates two names in all of them, or else by any blanks and commas."""
    for delimiter in "\t;,":
        if not all(delimiter in line for _, line in plain):
            continue
        read = list(csv.reader((line for _, line in plain), delimiter=delimiter, skipinitialspace=True))
        rows = [[cell.strip() for cell in row] for row in read]
        if len(rows) == len(plain) and all(len(row) > 1 and all(row[:2]) for row in rows[1:]):
            return [_Row(number, _trimmed(row)) for (number, _), row in zip(plain, rows, strict=True)]
    rows = []
    for _, line in plain:
        cells = line.replace(",", " ").replace(";", " ").split()
        comment = next((place for place, cell in enumerate(cells) if cell.startswith("#")), len(cells))
        rows.append(cells[:comment])
    return [_Row(number, cells) for (number, _), cells in zip(plain, rows, strict=True)]


def _trimmed(cells: list[str]) -> list[str]:
    """Without empty cells at the end."""
    last = max((place for place, cell in enumerate(cells) if cell), default=-1)
    return cells[: last + 1]


def _header(rows: Sequence[_Row]) -> tuple[int, ...] | None:
    """Where the ends and, if there are any, the weights are, by the columns' names; None where they have none."""
    if not rows:
        return None
    names = [cell.lower() for cell in rows[0].cells]
    ends = next((pair for pair in _ENDS if set(pair) <= set(names)), None)
    weights = tuple(place for place, name in enumerate(names) if name in _WEIGHTS)[:1]
    if ends is not None:
        return names.index(ends[0]), names.index(ends[1]), *(weights or ((2,) if len(names) == 2 else ()))
    # Between nodes that are called by numbers two words name columns, whatever these words are.
    words = len(names) > 1 and not any(as_number(name) is not None for name in names)
    rest = (cell for row in rows[1:] for cell in row.cells[:2])
    if words and len(rows) > 1 and all(as_number(cell) is not None for cell in rest):
        return 0, 1, *(weights or ((2,) if len(names) == 3 else ()))
    return None


def _without_attributes(line: str) -> tuple[str, str | None]:
    """A line without the attributes that networkx.write_edgelist puts at its end, and the weight among them."""
    start = line.find("{")
    if start < 0 or not line.rstrip().endswith("}"):
        return line, None
    try:
        attributes = ast.literal_eval(line[start:].strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return line, None
    weight = attributes.get("weight") if isinstance(attributes, dict) else None
    return line[:start].rstrip(), None if weight is None else str(weight)
