"""The Reactome pathways as layers above the genes, from the most specific pathways to the most general."""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.datasets.sources import fetch

RELATIONS = "ReactomePathwaysRelation.txt.gz"
MEMBERS = "ReactomePathways.gmt.gz"
#: Layers of pathways in P-NET.
LEVELS = 5

_HUMAN = "HSA"


@dataclass(frozen=True, eq=False)
class Pathways:
    """Genes and layers of pathways; each layer reads the one below it.

    Parameters
    ----------
    genes
        What the lowest layer reads, in the order of its connections.
    layers
        Reactome's identifiers of each layer's pathways, the most specific first.
    connections
        For each layer a 0/1 matrix, (units below, pathways): which of the units below belong to which pathway.
    """

    genes: tuple[str, ...]
    layers: tuple[tuple[str, ...], ...]
    connections: tuple[sp.csr_array, ...]


def load(genes: Sequence[str], levels: int = LEVELS) -> Pathways:
    """The pathways above these genes, from the published files of the prostate data set."""
    return read_pathways(fetch("prostate"), genes, levels)


def read_pathways(paths: Iterable[Path], genes: Sequence[str], levels: int = LEVELS) -> Pathways:
    """Build the layers as P-NET does (Elmarakeby et al. 2021); the files are recognised by their names.

    - Only human pathways count. A pathway's depth is its shortest way from the top, where those stand that are part of
      no other. Depths beyond ``levels`` are cut off.
    - What then has no part of its own is a terminal pathway; the terminal pathways are the lowest layer, and the genes
      are joined to those that they belong to. One that is not deep enough is repeated in the layers between, each
      repetition reading the one below.
    - Every other layer has the pathways of one depth, each joined to its parts in the layer below.

    A gene of no terminal pathway has no connection, and a pathway none of whose genes is given has none below.
    """
    if levels < 1:
        raise InvalidInputError(f"the hierarchy needs at least 1 level of pathways, not {levels}")
    if len(set(genes)) < len(genes):
        raise InvalidInputError("the same gene is given twice: give every gene once")
    files = {path.name: path for path in paths}
    for name in (RELATIONS, MEMBERS):
        if name not in files:
            raise InvalidInputError(f"there is no {name} among the files: give all of the data set")
    parts = _parts(files[RELATIONS])
    depth = _depths(parts)
    kept = {pathway: [part for part in parts.get(pathway, ()) if depth[part] <= levels] for pathway in depth}
    kept = {pathway: below for pathway, below in kept.items() if depth[pathway] <= levels}
    terminal = {pathway for pathway, below in kept.items() if not below}

    members = _members(files[MEMBERS])
    layers = [sorted(terminal)]
    connections = [_joined(genes, {pathway: members.get(pathway, ()) for pathway in layers[0]})]
    for level in range(levels - 1, 0, -1):
        repeated = {pathway: [pathway] for pathway in terminal if depth[pathway] <= level}
        here = {pathway: below for pathway, below in kept.items() if depth[pathway] == level} | repeated
        connections.append(_joined(layers[-1], here))
        layers.append(sorted(here))
    return Pathways(tuple(genes), tuple(map(tuple, layers)), tuple(connections))


def _parts(path: Path) -> dict[str, list[str]]:
    """The parts of every human pathway: a line holds the whole and the part, with a tab between."""
    parts: dict[str, list[str]] = defaultdict(list)
    for where, cells in _lines(path):
        if len(cells) != 2:
            raise InvalidInputError(f"{where}: {len(cells)} cells, not a pathway and its part: fix the line")
        whole, part = cells
        if _HUMAN in whole:
            parts[whole].append(part)
    if not parts:
        raise InvalidInputError(f"{path} has no pathway with {_HUMAN} in its identifier: give Reactome's own file")
    return parts


def _depths(parts: dict[str, list[str]]) -> dict[str, int]:
    """How far each pathway is from the top; those there have the depth 1."""
    belonging = {part for below in parts.values() for part in below}
    reached = dict.fromkeys(sorted(parts.keys() - belonging), 1)
    waiting = list(reached)
    for pathway in waiting:  # it grows while it is read: the nearest come first
        for part in parts.get(pathway, ()):
            if part not in reached:
                reached[part] = reached[pathway] + 1
                waiting.append(part)
    return reached


def _members(path: Path) -> dict[str, list[str]]:
    """The genes of every pathway: a line holds its name, identifier, kind and then its genes, with tabs between."""
    members: dict[str, list[str]] = {}
    for where, cells in _lines(path):
        if len(cells) < 4:
            raise InvalidInputError(f"{where}: {len(cells)} cells, not name, identifier, kind and genes: fix the line")
        members.setdefault(cells[1], []).extend(cells[3:])
    return members


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Every line that is not empty: where it stands, and its cells."""
    try:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidFileError(f"{path} cannot be unpacked ({error}): write or download it again") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield f"{path}, line {number}", line.rstrip().split("\t")


def _joined(below: Sequence[str], above: Mapping[str, Iterable[str]]) -> sp.csr_array:
    """The 0/1 matrix of which units below belong to which pathways above, those in the order of their names."""
    place = {name: index for index, name in enumerate(below)}
    rows, columns = [], []
    for column, pathway in enumerate(sorted(above)):
        found = sorted({place[name] for name in above[pathway] if name in place})
        rows += found
        columns += [column] * len(found)
    ends = np.array(rows, dtype=np.int32), np.array(columns, dtype=np.int32)
    return sp.csr_array((np.ones(len(rows)), ends), shape=(len(below), len(above)))
