"""From a user's arrays to the nodes of a graph and the labelled items at them."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.uncertainty.record import FEWEST_SCORED

Array = NDArray[np.float64]

#: Rows of a block.
ROWS = 65_536


def slices(n_rows: int) -> Iterator[slice]:
    """The blocks of a data set; one, and empty, where there are no rows."""
    for start in range(0, max(n_rows, 1), ROWS):
        yield slice(start, min(start + ROWS, n_rows))


def moments(n_rows: int, block: Callable[[slice], Any]) -> tuple[Array, Array]:
    """Mean and variance of every column, from ``block``, which gives some rows as a dense array; two passes."""

    def total(of: Callable[[Array], Array]) -> Array:
        sums = [of(np.asarray(block(here), np.float64)).sum(axis=0) for here in slices(n_rows)]
        return np.asarray(np.sum(sums, axis=0) / n_rows)

    mean = total(lambda rows: rows)
    return mean, total(lambda rows: (rows - mean) ** 2)


#: One 128-bit digest per row, as a structured scalar that NumPy can sort.
_DIGEST = np.dtype([("high", ">u8"), ("low", ">u8")])


@dataclass(frozen=True)
class Nodes:
    """The nodes made of the rows of a data set.

    Attributes
    ----------
    points
        One row for each node, dense or CSR.
    fingerprints
        Their digests.
    of_row
        The node of every row of the data, -1 for a row that was left out.
    """

    points: Any
    fingerprints: NDArray[Any]
    of_row: NDArray[np.int64]

    @classmethod
    def merged(cls, rows: Any, keep: NDArray[np.bool_]) -> Nodes:
        """Merge equal rows among those to keep."""
        digests = fingerprints(rows)
        kept = np.flatnonzero(keep)
        distinct, first, inverse = np.unique(digests[kept], return_index=True, return_inverse=True)
        of_row = np.full(len(digests), -1, dtype=np.int64)
        of_row[kept] = inverse.ravel()
        return cls(rows[kept[first]], distinct, of_row)

    @classmethod
    def separate(cls, rows: Any) -> Nodes:
        """Every row is a node of its own, in its own place; for graphs that were given."""
        return cls(rows, fingerprints(rows), np.arange(rows.shape[0], dtype=np.int64))

    def in_order(self, order: NDArray[np.int64]) -> Nodes:
        """The same nodes numbered anew: ``order[i]`` comes in place i."""
        place = np.empty(len(order) + 1, dtype=np.int64)
        place[order], place[-1] = np.arange(len(order)), -1
        return Nodes(self.points[order], self.fingerprints[order], place[self.of_row])


def find_rows(rows: Any, known: NDArray[Any]) -> NDArray[np.int64]:
    """The index of every row's fingerprint among the known ones, or -1.

    Where a fingerprint is known several times it is the first, unless the rows are all the known ones in their order.
    """
    digests = fingerprints(rows)
    if np.array_equal(digests, known):
        return np.arange(len(known), dtype=np.int64)
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, digests, sorter=order), len(known) - 1)]
    return np.where(known[at] == digests, at, -1).astype(np.int64)


def fingerprints(rows: Any) -> NDArray[Any]:
    """A digest of every row's values."""
    if sp.issparse(rows):
        matrix = sp.csr_array(rows, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        indices, data = matrix.indices.astype(np.int64), matrix.data.astype(np.float64)
        parts = (
            indices[start:stop].tobytes() + data[start:stop].tobytes()
            for start, stop in itertools.pairwise(matrix.indptr)
        )
    else:
        # Adding zero makes -0.0 and 0.0 the same bytes.
        parts = (
            row.tobytes()
            for here in slices(rows.shape[0])
            for row in np.ascontiguousarray(rows[here], dtype=np.float64) + 0.0
        )
    joined = b"".join(hashlib.blake2b(part, digest_size=16).digest() for part in parts)
    return np.frombuffer(joined, dtype=_DIGEST)


#: The code of a point without a label.
UNLABELLED = -1


@dataclass(frozen=True)
class ClassTargets:
    """Class labels as codes: ``codes[i]`` is an index into ``classes``, or -1 where point i has no label.

    Where labels are chances, a point has a code for each class that is possible; ``rows`` are the points of the codes,
    and ``shares`` the chances.
    """

    classes: NDArray[Any]
    codes: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None
    shares: NDArray[np.float64] | None = None


def are_soft(y: Any) -> bool:
    """Whether targets are chances of classes rather than classes."""
    if isinstance(y, list | tuple) and len(y) and isinstance(y[0], list | tuple | np.ndarray):
        return len(y[0]) > 1
    return len(getattr(y, "shape", ())) == 2 and y.shape[1] > 1


def soft_targets(y: Any, keep: NDArray[np.bool_]) -> ClassTargets:
    """Read rows of chances, (n, classes); a row of NaN has no label, neither has a row that is not kept."""
    from sklearn.utils import check_array

    chances = check_array(y, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
    missing = np.isnan(chances)
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    known = np.flatnonzero(~missing.any(axis=1) & keep)
    wrong = known[(chances[known] < 0).any(axis=1) | (np.abs(chances[known].sum(axis=1) - 1) > 1e-6)]
    if partly.any() or len(wrong):
        row = int(np.flatnonzero(partly)[0]) if partly.any() else int(wrong[0])
        raise InvalidInputError(f"row {row} of y must be chances of the classes that sum to 1, or NaN throughout")
    if not len(known):
        raise InvalidInputError("every target is missing: at least two classes need one labelled point each")
    names = np.asarray(y.columns) if hasattr(y, "columns") else np.arange(chances.shape[1])
    possible = chances[known].max(axis=0) > 0
    if possible.sum() < 2:
        raise InvalidInputError("only one class has a chance anywhere; at least two are needed")
    place, codes = np.nonzero(chances[known][:, possible])
    return ClassTargets(names[possible], codes, known[place], chances[known][:, possible][place, codes])


def likeliest(
    rows: NDArray[np.int64], codes: NDArray[np.int64], shares: NDArray[np.float64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The labelled rows with one class each: of chances the most probable one, the first of several."""
    if shares is None:
        return rows, codes
    order = np.lexsort((-shares, rows))
    first = order[np.unique(rows[order], return_index=True)[1]]
    return rows[first], codes[first]


def class_targets(y: Any, keep: NDArray[np.bool_]) -> ClassTargets:
    """Read class labels, some of which may be missing; those of rows that are not kept count as missing.

    Missing is -1 among integers, NaN among floats, and None, NaN or the empty string among objects and strings, where
    -1 is then a class like any other.
    Integers that are all 1 or -1 are the two classes of the usual binary convention, with none missing.
    """
    from sklearn.utils import check_array, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    labels = column_or_1d(_unpacked(y), warn=True)
    if labels.dtype.kind in "Mm":
        raise InvalidInputError("y holds dates: a target is a class or a number")
    if labels.dtype.kind == "f":
        check_array(labels, ensure_2d=False, dtype=None, ensure_all_finite="allow-nan", input_name="y")
    missing = _missing_labels(labels) | ~keep
    given = labels[~missing]
    if given.size == 0:
        raise InvalidInputError("every target is missing: at least two classes need one labelled point each")
    given = _natural(given)
    try:
        check_classification_targets(given)
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
    classes, present = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        hint = "; note that -1 marks points without a label" if labels.dtype.kind in "iu" and missing.any() else ""
        raise InvalidInputError(
            f"only one class, {str(classes[0])!r}, is among the labels; at least two are needed{hint}"
        )
    codes = np.full(labels.shape[0], UNLABELLED, dtype=np.int64)
    codes[~missing] = present
    return ClassTargets(classes, codes)


def without(labels: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Labels with some of them taken out: the inverse of what :func:`class_targets` reads as missing."""
    kind = labels.dtype.kind
    if kind == "i" and UNLABELLED not in labels:
        return np.where(missing, UNLABELLED, labels)
    if kind == "f":
        return np.where(missing, np.nan, labels)
    found = labels.astype(object)
    found[missing] = None
    return found


def value_targets(y: Any, keep: NDArray[np.bool_]) -> tuple[NDArray[np.float64], bool]:
    """Read values for a regression as a matrix (n, outputs), and whether there is only one output.

    A row of NaN has no label; neither has a row that is not kept.
    """
    from sklearn.utils import check_array, column_or_1d

    values = check_array(
        y, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y", allow_nd=False
    )
    if values.ndim == 2 and values.shape[1] == 1:
        values = column_or_1d(values, warn=True)
    matrix = values[:, None] if values.ndim == 1 else values
    missing = np.isnan(matrix)
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    if partly.any():
        row = int(np.flatnonzero(partly)[0])
        raise InvalidInputError(
            f"row {row} of y has some of its {matrix.shape[1]} outputs but not all; give all of them or only NaN"
        )
    matrix = np.where(keep[:, None], matrix, np.nan)
    if np.isnan(matrix).all():
        raise InvalidInputError("every target is missing: at least one point needs a value")
    return matrix, values.ndim == 1


def _unpacked(y: Any) -> Any:
    """Columns of pandas' own types as objects: converted by themselves, whole numbers would become floats."""
    return y if isinstance(getattr(y, "dtype", None), np.dtype | None) else np.asarray(y, dtype=object)


def _natural(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels among objects as an array of their own kind; strings stay objects."""
    if labels.dtype.kind != "O":
        return labels
    kinds = {_kind(label) for label in labels}
    if len(kinds) > 1:
        raise InvalidInputError(f"the labels mix {' and '.join(sorted(kinds))}; make them all of one kind")
    return labels if kinds == {"text"} else np.array(labels.tolist())


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    if isinstance(label, bool | np.bool_):
        return "truth values"
    return "numbers" if isinstance(label, Real) else type(label).__name__


def _missing_labels(labels: NDArray[Any]) -> NDArray[np.bool_]:
    kind = labels.dtype.kind
    if kind in "iu":
        missing = np.asarray(labels == UNLABELLED)
        return missing if (labels[~missing] != 1).any() else np.zeros_like(missing)
    if kind == "f":
        return np.asarray(np.isnan(labels))
    if kind in "US":
        return np.asarray(labels == labels.dtype.type())
    missing = np.array([_is_missing(label) for label in labels], dtype=bool)
    given = labels[~missing].tolist()
    # Where None or NaN marks what is missing, -1 does not.
    if not missing.any() and all(isinstance(label, Integral) and not isinstance(label, bool) for label in given):
        return _missing_labels(np.array(given, dtype=np.int64))
    return missing


def _is_missing(label: Any) -> bool:
    # pandas' NA is neither equal nor unequal to itself.
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return bool(label == "") if isinstance(label, str) else bool(label != label)


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


def known_shares(class_prior: Any, classes: NDArray[Any]) -> NDArray[np.float64] | None:
    """Known sizes or proportions as the share of every class, in the order of the classes."""
    if class_prior is None:
        return None
    named = classes.tolist()
    if missing := [label for label in named if label not in class_prior]:
        raise InvalidInputError(f"class_prior lacks the class {missing[0]!r}: give the size or share of every class")
    if unknown := [key for key in class_prior if key not in named]:
        raise InvalidInputError(f"class_prior names {unknown[0]!r}, which is not among the labels")
    for label in named:
        size = class_prior[label]
        if not isinstance(size, Real) or not 0 < float(size) < math.inf:
            raise InvalidInputError(
                f"class_prior must be positive and finite for every class, not {size!s} for {label!r}"
            )
    sizes = np.array([float(class_prior[label]) for label in named])
    return np.asarray(sizes / sizes.sum())


def held_out_folds(
    items: Items, strata: NDArray[np.int64], folds: int, fewest: int = FEWEST_SCORED
) -> NDArray[np.bool_]:
    """Which items each fold holds out, of shape (folds, items); no rows where there are too few labels.

    There are too few where fewer than ``fewest`` points can be held out, or a fold would leave less than two. Every
    fold takes its share of each stratum, and all items of a node go together. A stratum of one node is never held out,
    because nothing would be left to learn it from. Nodes are in the order of their fingerprints, which is as good as
    random and does not depend on the order of the data.
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
    if len(np.unique(items.nodes[fold_of >= 0])) < fewest:
        return none
    masks = fold_of == np.arange(folds)[:, None]
    masks = masks[masks.any(axis=1)]
    if any(len(np.unique(items.nodes[~mask])) < 2 for mask in masks):
        return none
    return np.asarray(masks)


def is_networkx(X: Any) -> bool:
    """Whether this is a networkx graph; without importing networkx."""
    return hasattr(X, "adj") and hasattr(X, "is_directed")


def _in_order_of(X: Any, graph: Any) -> sp.csr_array:
    """The weights of a networkx graph, its nodes in the order of the rows that they name."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    nodes = {node: place for place, node in enumerate(graph)}
    index = getattr(X, "index", None)
    for names in ([] if index is None or callable(index) else list(index), range(n)):
        if len(names) == n == len(nodes) and nodes.keys() == set(names):
            order = [nodes[name] for name in names]
            return sp.csr_array(Graph.of(graph).weights[order][:, order])
    known = set(range(n)) if index is None or callable(index) else set(index)
    stranger = next((node for node in nodes if node not in known), None)
    problem = f"it has the node {stranger!r}" if stranger is not None else f"it has {len(nodes)} nodes for {n} rows"
    raise InvalidInputError(
        f"the graph's nodes must be the rows of X, named by its index or as 0 to {n - 1}, but {problem}: "
        "relabel the nodes, or pass an adjacency matrix in the order of the rows"
    )


def is_graph_data(X: Any) -> bool:
    """Whether this has features and edges, as a ``Data`` does; without importing the class."""
    return hasattr(X, "edge_index") and hasattr(X, "x")


def features_of(X: Any) -> Any:
    """The feature matrix of a ``Data``; anything else as it is."""
    if not is_graph_data(X):
        return X
    if X.x is None:
        raise InvalidInputError("this Data has no features: set data.x")
    return X.x.detach().cpu().numpy()


def unpacked(X: Any, y: Any, adjacency: Any, graph: Any) -> tuple[Any, Any, Any]:
    """Features, targets and adjacency of a ``Data`` or a networkx graph; anything else passes through.

    Targets outside of ``train_mask`` count as missing, if there is one; given targets come before the ``Data``'s own.
    The nodes of a networkx graph instead of X are in its own order, those of one beside X are named by X's index,
    or are 0, 1, 2, ...
    """
    if is_networkx(X):
        if adjacency is not None:
            raise InvalidInputError("two graphs were given: pass the features as X, or leave out the adjacency")
        weights = Graph.of(X).weights
        return weights, y, weights
    if is_networkx(adjacency):
        adjacency = _in_order_of(X, adjacency)
    if not is_graph_data(X):
        return X, y, adjacency
    if graph != "precomputed":
        raise InvalidInputError("a Data brings its graph along: set graph='precomputed', or pass data.x alone")
    if adjacency is not None:
        raise InvalidInputError("a Data brings its graph along: leave out the adjacency")
    if y is None and getattr(X, "y", None) is not None:
        y = X.y.detach().cpu().numpy()
        mask = getattr(X, "train_mask", None)
        if mask is not None:
            shown = mask.detach().cpu().numpy().astype(bool)
            y = np.where(shown, y, -1 if y.dtype.kind in "biu" else np.nan)
    return features_of(X), y, Graph.of(X).weights
