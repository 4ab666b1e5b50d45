"""The labelled part of a problem: which nodes carry which targets with what weight, and folds to hold out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError

# With fewer held-out points than this, what they say about the fit is noise.
_FEWEST_HELD_OUT = 10


@dataclass(frozen=True)
class Items:
    """Targets at nodes; a node with several different targets has several items.

    Attributes
    ----------
    nodes
        The node of each item, in increasing order.
    targets
        Its class code, or its row of values.
    weights
        How much it counts.
    """

    nodes: NDArray[np.int64]
    targets: NDArray[Any]
    weights: NDArray[np.float64]

    @property
    def n_labelled(self) -> int:
        """Number of different labelled nodes."""
        return len(np.unique(self.nodes))


def class_items(nodes: NDArray[np.int64], codes: NDArray[np.int64], weights: NDArray[np.float64]) -> Items:
    """Gather labelled rows; rows of one node and class add up their weights."""
    pairs, inverse = np.unique(np.stack([nodes, codes]), axis=1, return_inverse=True)
    return Items(pairs[0], pairs[1], np.bincount(inverse.ravel(), weights).astype(np.float64))


def value_items(nodes: NDArray[np.int64], values: NDArray[np.float64], weights: NDArray[np.float64]) -> Items:
    """Gather labelled rows; rows of one node are one item at their weighted mean, which has the same gradient."""
    distinct, inverse = np.unique(nodes, return_inverse=True)
    total = np.bincount(inverse, weights).astype(np.float64)
    means = np.stack([np.bincount(inverse, weights * column) / total for column in values.T], axis=1)
    return Items(distinct, means, total)


def class_weights(items: Items, classes: NDArray[Any], class_weight: Any) -> Items:
    """Multiply each item's weight by its class's: ``"balanced"``, or a dict from class to weight."""
    if class_weight is None:
        return items
    if isinstance(class_weight, str):
        totals = np.bincount(items.targets, items.weights, minlength=len(classes))
        factors = items.weights.sum() / (len(classes) * totals)
    else:
        unknown = [key for key in class_weight if key not in classes.tolist()]
        if unknown:
            raise InvalidInputError(f"class_weight names {unknown[0]!r}, which is not among the labels")
        factors = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
        if not np.isfinite(factors).all() or (factors < 0).any() or not factors.any():
            raise InvalidInputError("class weights must be finite and not negative, and at least one must be positive")
    return Items(items.nodes, items.targets, items.weights * factors[items.targets])


def held_out_folds(items: Items, strata: NDArray[np.int64], folds: int) -> NDArray[np.bool_]:
    """Which items each fold holds out, of shape (folds, items); no rows where there are too few labels.

    Every fold takes its share of each stratum, and all items of a node go together. A stratum of one node is never
    held out, because nothing would be left to learn it from. Nodes are in the order of their fingerprints, which is as
    good as random and does not depend on the order of the data.
    """
    none = np.zeros((0, len(items.nodes)), dtype=bool)
    if folds < 2:
        return none
    fold_of = np.full(len(items.nodes), -1)
    taken: set[int] = set()
    shift = 0
    for stratum in np.unique(strata):
        members = [node for node in np.unique(items.nodes[strata == stratum]) if int(node) not in taken]
        taken.update(int(node) for node in members)
        if len(members) < 2:
            continue
        for position, node in enumerate(members):
            fold_of[items.nodes == node] = (position + shift) % folds
        shift += len(members)
    if len(np.unique(items.nodes[fold_of >= 0])) < _FEWEST_HELD_OUT:
        return none
    masks = fold_of == np.arange(folds)[:, None]
    return np.asarray(masks[masks.any(axis=1)])
