"""Decision trees as arrays: grown here or by scikit-learn, then asked, saved and loaded without it.

A forest serves twice. Its leaves' mean values are a base's answers; and points that share leaves are alike in what the
forest looks at, so that leaves also make a graph (:func:`condiff.graph.shared_leaves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from condiff import kernels
from condiff.errors import InvalidFileError

Array = NDArray[np.float64]

# Rows that go through the trees together: their places in all trees stay in the cache.
_ROWS = 2048
# Places of rows in trees up to which to load the compiled loop takes longer than it saves.
_FEW_PLACES = 1 << 20


@dataclass(frozen=True, eq=False)
class Forest:
    """Binary trees side by side; a node's children stand at indices of the same arrays.

    Attributes
    ----------
    roots
        Index of every tree's root.
    feature, threshold
        What an inner node asks: whether a row's feature is at most the threshold. -1 marks a leaf.
    left, right
        Where the answers lead to: yes, no.
    value
        (nodes, outputs): what a leaf answers.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array

    @classmethod
    def grow(
        cls, rows: NDArray[Any], targets: Array, weights: Array, *, n_trees: int, n_tried: int, fewest: int, seed: int
    ) -> Self:
        """Grow extremely randomised trees on few rows; see :func:`condiff.kernels.growth.grow`."""
        room = 2 * len(rows) + 1
        feature, left = np.full((n_trees, room), -1, np.int32), np.zeros((n_trees, room), np.int32)
        threshold, value = np.zeros((n_trees, room)), np.zeros((n_trees, room, targets.shape[1]))
        size = np.zeros(n_trees, np.int64)
        seeds = np.random.SeedSequence(seed).generate_state(n_trees, np.uint64) >> np.uint64(16)
        if kernels.available():
            from condiff.kernels.trees import grow
        else:
            from condiff.kernels.growth import grow
        inputs = (
            # Rows are asked in single precision, so they are split in it.
            np.ascontiguousarray(np.asarray(rows, np.float32), np.float64),
            np.ascontiguousarray(targets, np.float64),
            np.ascontiguousarray(weights, np.float64),
        )
        grow(*inputs, seeds.astype(np.int64), n_tried, fewest, feature, threshold, left, value, size)
        used = np.arange(room) < size[:, None]
        starts = np.cumsum([0, *size])[:-1]
        below = np.where(feature >= 0, left + starts[:, None], 0)[used].astype(np.int32)
        right = np.where(feature[used] >= 0, below + 1, 0).astype(np.int32)
        return cls(starts.astype(np.int32), feature[used], threshold[used], below, right, value[used])

    @classmethod
    def from_sklearn(cls, trees: Sequence[Any], values: Sequence[Array] | None = None) -> Self:
        """Take over fitted trees of scikit-learn; ``values`` replaces what their nodes answer."""
        parts = [each.tree_ for each in trees]
        starts = np.cumsum([0, *(part.node_count for part in parts)])[:-1]
        found = [part.value[:, :, 0] if part.value.shape[2] == 1 else part.value[:, 0] for part in parts]
        return cls(
            roots=starts.astype(np.int32),
            feature=np.concatenate([np.maximum(part.feature, -1) for part in parts]).astype(np.int32),
            threshold=np.concatenate([part.threshold for part in parts]).astype(np.float64),
            left=_children([part.children_left for part in parts], starts),
            right=_children([part.children_right for part in parts], starts),
            value=np.concatenate(found if values is None else values).astype(np.float64),
        )

    def leaves(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """The leaf of every row in every tree, (rows, trees)."""
        # As scikit-learn grew them: thresholds are compared with numbers of single precision.
        single = np.ascontiguousarray(rows, np.float32)
        found = np.empty((len(single), len(self.roots)), np.int32)
        if _compiles(found.size):
            from condiff.kernels.trees import find_leaves

            find_leaves(single, self.roots, self.feature, self.threshold, self.left, self.right, found)
            return found
        found[:] = self.roots
        places = found.ravel()
        moving = np.flatnonzero(self.feature[places] >= 0)
        while len(moving):
            here = places[moving]
            asked = single[moving // len(self.roots), self.feature[here]]
            places[moving] = np.where(asked <= self.threshold[here], self.left[here], self.right[here])
            moving = moving[self.feature[places[moving]] >= 0]
        return found

    def outputs(self, rows: NDArray[Any]) -> Array:
        """The mean of the leaves' answers, (rows, outputs)."""
        found = np.empty((len(rows), self.value.shape[1]))
        for start in range(0, len(rows), _ROWS):
            leaves, here = self.leaves(rows[start : start + _ROWS]), slice(start, start + _ROWS)
            if _compiles(leaves.size):
                from condiff.kernels.trees import mean_values

                mean_values(leaves, self.value, found[here])
            else:
                found[here] = self.value[leaves].mean(axis=1)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Arrays alone, to be saved."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """The forest that :meth:`to_dict` described; trees that lead out of their arrays or in circles raise."""
        found = cls(**{name: np.asarray(value) for name, value in state.items()})
        n = len(found.feature)
        inner = found.feature >= 0
        shapes = all(len(each) == n for each in (found.threshold, found.left, found.right, found.value))
        own = np.arange(n)
        sound = (
            shapes
            and n > 0
            and found.value.ndim == 2
            and ((found.roots >= 0) & (found.roots < n)).all()
            # Children come after their parents, so that every way down ends.
            and all((each[inner] > own[inner]).all() and (each[inner] < n).all() for each in (found.left, found.right))
        )
        if not sound:
            raise InvalidFileError("the model's trees lead nowhere; save it again")
        return found


def _compiles(places: int) -> bool:
    """Whether compiled loops are taken for so many places of rows in trees."""
    return (places > _FEW_PLACES or kernels.loaded()) and kernels.available()


def _children(parts: Sequence[NDArray[Any]], starts: NDArray[Any]) -> NDArray[np.int32]:
    return np.concatenate(
        [np.where(part < 0, 0, part + start) for part, start in zip(parts, starts, strict=True)]
    ).astype(np.int32)
