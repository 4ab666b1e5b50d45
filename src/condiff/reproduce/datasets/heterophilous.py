"""Graphs whose neighbours often disagree, with the ten splits that their authors published (Platonov et al., 2023)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from condiff.errors import InvalidInputError
from condiff.readers.node import NodeDataset
from condiff.readers.npz_graph import load_npz_graph
from condiff.reproduce.datasets.sources import locate
from condiff.reproduce.splits import Split

#: The name of each graph; chameleon and squirrel are the filtered ones, without duplicated nodes.
NAMES = ("texas", "cornell", "wisconsin", "chameleon", "squirrel", "minesweeper", "tolokers")
_FILTERED = ("chameleon", "squirrel")


def load(name: str) -> NodeDataset:
    """One of the graphs, all of its nodes."""
    return replace(load_npz_graph(_path(name)), name=name)


def own_splits(name: str) -> dict[int, Split]:
    """The ten published splits; about half of the nodes are for training and a quarter for validation."""
    with np.load(_path(name), allow_pickle=False) as archive:
        masks = [archive[f"{part}_masks"] for part in ("train", "val", "test")]
    return {seed: Split(*(np.flatnonzero(mask[seed]) for mask in masks)) for seed in range(len(masks[0]))}


def _path(name: str) -> Path:
    if name not in NAMES:
        raise InvalidInputError(f"{name!r} has no published splits: only {', '.join(NAMES)} have")
    return locate(f"heterophilous/{name}{'_filtered' * (name in _FILTERED)}.npz")
