"""Random splits of labelled nodes: determined by data set and seed, with a hash, to export and import."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import read_json, write_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRAIN_PER_CLASS, VALIDATION_PER_CLASS = 20, 30
_PARTS = ("train", "validation", "test")
_FORMAT = "condiff splits 1"


@dataclass(frozen=True, eq=False)
class Split:
    """Ascending indices of the nodes for training, for early stopping and for testing."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]

    @cached_property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of a SHA-256 over the three parts."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            digest.update(len(part).to_bytes(8, "little") + part.astype("<i8").tobytes())
        return digest.hexdigest()[:16]


def random_split(
    labels: NDArray[np.int64],
    seed: int,
    *,
    train_per_class: int = TRAIN_PER_CLASS,
    validation_per_class: int = VALIDATION_PER_CLASS,
) -> Split:
    """Draw a fixed number of nodes per class for training and for validation; the other labelled nodes are for testing.

    The draw depends on the labels and the seed only: not on the file's name, the platform or earlier draws.
    Nodes with the label -1 are in no part.
    """
    labels = np.asarray(labels, dtype=np.int64)
    identity = _identity(labels)
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([*identity, seed])))
    parts: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    for label in range(int(labels.max(initial=-1)) + 1):
        members = np.flatnonzero(labels == label)
        if members.size <= train_per_class + validation_per_class:
            raise InvalidInputError(
                f"class {label} has {members.size} nodes, too few for {train_per_class} to train and "
                f"{validation_per_class} to validate with any left to test: choose fewer per class"
            )
        shuffled = generator.permutation(members)
        bounds = (train_per_class, train_per_class + validation_per_class)
        for part, nodes in zip(parts, np.split(shuffled, bounds), strict=True):
            part.append(nodes)
    if not parts[0]:
        raise InvalidInputError("no node has a label, so there is nothing to split")
    train, validation, test = (np.sort(np.concatenate(part)) for part in parts)
    return Split(train, validation, test)


def random_splits(
    labels: NDArray[np.int64],
    number: int,
    *,
    train_per_class: int = TRAIN_PER_CLASS,
    validation_per_class: int = VALIDATION_PER_CLASS,
) -> dict[int, Split]:
    """The splits of the seeds 0, 1, ..., ``number - 1``."""
    return {
        seed: random_split(labels, seed, train_per_class=train_per_class, validation_per_class=validation_per_class)
        for seed in range(number)
    }


def public_split(labels: NDArray[np.int64]) -> Split:
    """The fixed split of Yang, Cohen and Salakhutdinov (ICML 2016), in the node order of Planetoid's files.

    The first 20 nodes per class are for training, the next 500 for validation, and the last 1,000 for testing.
    """
    train = TRAIN_PER_CLASS * (int(labels.max()) + 1)
    return Split(np.arange(train), np.arange(train, train + 500), np.flatnonzero(labels >= 0)[-1000:])


def write_splits(path: Path, splits: dict[int, Split], dataset: str, labels: NDArray[np.int64]) -> None:
    """Write a data set's splits as one JSON file: every node of every part, and what :func:`read_splits` checks."""
    entries = {
        str(seed): {"hash": split.hash} | {part: getattr(split, part).tolist() for part in _PARTS}
        for seed, split in splits.items()
    }
    head = {"format": _FORMAT, "dataset": dataset, "nodes": len(labels), "labels": _identity(labels).hex()[:16]}
    # One split per line: a file that can be compared, without a line per node.
    lines = ",\n".join(f"{json.dumps(seed)}: {json.dumps(entry)}" for seed, entry in entries.items())
    write_text(path, f'{json.dumps(head)[:-1]}, "splits": {{\n{lines}\n}}}}\n')


def read_splits(path: Path, labels: NDArray[np.int64]) -> dict[int, Split]:
    """The splits of a file by their seeds, if they were written for these labels and no node of them was changed."""
    try:
        content = read_json(path, "write the splits again")
    except OSError as error:
        raise InvalidFileError(f"{path} cannot be read ({error.strerror}): check the path") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InvalidFileError(f"{path} is not a file of splits: write one with --export-splits")
    if (content.get("nodes"), content.get("labels")) != (len(labels), _identity(labels).hex()[:16]):
        raise InvalidFileError(
            f"{path} is for {content.get('dataset')!r} with {content.get('nodes')} nodes and other labels than the "
            f"{len(labels)} nodes at hand: give the data set that the splits were drawn for"
        )
    entries = content.get("splits")
    if not isinstance(entries, dict) or not entries:
        raise InvalidFileError(f"{path} holds no splits: write them again")
    splits = {}
    for seed, entry in entries.items():
        if not seed.isdecimal() or len(seed) > 20:
            raise InvalidFileError(f"{path}: a split is called {seed!r}, but its name must be its seed, a whole number")
        splits[int(seed)] = _checked_split(f"{path}, split {seed}", entry, np.asarray(labels))
    return splits


def _checked_split(where: str, entry: Any, labels: NDArray[np.int64]) -> Split:
    if not isinstance(entry, dict) or not {"hash", *_PARTS} <= entry.keys():
        raise InvalidFileError(f"{where} needs a hash and the parts {', '.join(_PARTS)}: write the splits again")
    parts = []
    for name in _PARTS:
        nodes = entry[name]
        whole = isinstance(nodes, list) and nodes and all(type(node) is int for node in nodes)
        if not whole or min(nodes) < 0 or max(nodes) >= len(labels):
            raise InvalidFileError(f"{where}: {name} must list nodes by their numbers in 0 .. {len(labels) - 1}")
        parts.append(np.array(nodes, dtype=np.int64))
        if (np.diff(parts[-1]) <= 0).any():
            raise InvalidFileError(f"{where}: {name} must list every node once, in ascending order")
        if (labels[parts[-1]] < 0).any():
            node = int(parts[-1][labels[parts[-1]] < 0][0])
            raise InvalidFileError(f"{where}: node {node} of {name} has no label: leave it out")
    everything, counts = np.unique(np.concatenate(parts), return_counts=True)
    if (counts > 1).any():
        raise InvalidFileError(f"{where}: node {int(everything[counts > 1][0])} is in two parts: keep it in one")
    split = Split(*parts)
    if split.hash != entry["hash"]:
        raise InvalidFileError(f"{where} was changed: its hash is {split.hash}, not {entry['hash']}; write it again")
    return split


def _identity(labels: NDArray[np.int64]) -> bytes:
    return hashlib.sha256(np.asarray(labels).astype("<i8").tobytes()).digest()
