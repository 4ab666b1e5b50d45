"""Prediction sets and intervals of a fitted model: what its folds say of a row, and of the rows around it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import CoverageWarning, InvalidInputError
from condiff.estimators.inputs import features_of
from condiff.uncertainty import conformal
from condiff.uncertainty.conformal import Promise
from condiff.uncertainty.record import FitRecord

Array = NDArray[np.float64]

# How much of a class's score on a given graph is that of a row's neighbours (Zargarbashi et al., 2023).
_SMOOTHING = 0.5
# How much an interval widens with the disagreement of a row's neighbours, in units of what is usual. Chosen on 14
# tables with 40 labels: more makes intervals wider on average than the misses that it saves are worth, for the
# disagreement of so few answers is itself uncertain.
_WIDENING = 0.25
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows that something is asked about.

    Attributes
    ----------
    nodes
        Their nodes; -1 for new rows.
    output
        What the model answers, (rows, outputs), without regard to a label of their own.
    at_folds
        What is answered without each fold, (folds, rows, outputs); the model's own answers where that was not kept.
    around
        The shares of the nodes in each row's neighbourhood, (rows, nodes).
    """

    nodes: NDArray[np.int64]
    output: Array
    at_folds: Array
    around: sp.csr_array

    @classmethod
    def rows(cls, model: Any, X: Any, adjacency: Any = None) -> Asked:
        """Rows of the training data, or new ones."""
        model._require_fitted()
        domain = model._domain
        X = domain.in_own_form(model._numbers(features_of(X), learn=False))
        nodes = domain.find(X) if adjacency is None else np.full(X.shape[0], -1, dtype=np.int64)
        new = np.flatnonzero(nodes < 0)
        found = cls.of_nodes(model, np.maximum(nodes, 0))
        if not len(new):
            return found
        output, at_folds = found.output, found.at_folds
        output[new] = model._induce(X[new], adjacency)
        joined = shares_of(domain.weights_of(X[new], adjacency))
        at_folds[:, new] = _shifted(model, output[new], joined, len(at_folds))
        order = np.arange(len(nodes))
        order[new] = len(nodes) + np.arange(len(new))
        return cls(nodes, output, at_folds, sp.csr_array(sp.vstack([found.around, joined]))[order])

    @classmethod
    def of_nodes(cls, model: Any, nodes: NDArray[np.int64]) -> Asked:
        """Nodes of the model's graph."""
        record = model.record_
        output = record.output[nodes]
        if record.fold_outputs is None:
            at_folds = output[None].copy()
        else:
            at_folds = record.fold_outputs[:, nodes].astype(np.float64)
            # At a labelled node only the model that has not seen its label has something to say.
            fold_of = np.full(len(record.output), -1)
            fold_of[record.nodes[record.held_out]] = record.fold
            labelled = np.flatnonzero(fold_of[nodes] >= 0)
            at_folds[:, labelled] = at_folds[fold_of[nodes[labelled]], labelled]
        return cls(nodes, output, at_folds, shares_of(model.graph_.weights)[nodes])


def shares_of(weights: Any) -> sp.csr_array:
    """Weights of neighbours as shares of each row's sum."""
    weights = sp.csr_array(weights, dtype=np.float64)
    total = np.asarray(weights.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)) @ weights)


def _shifted(model: Any, output: Array, around: sp.csr_array, folds: int) -> Array:
    """What would be answered for new rows without each fold: it differs from the answer as at their neighbours."""
    record = model.record_
    if record.fold_outputs is None:
        return np.broadcast_to(output, (folds, *output.shape))
    if not hasattr(model, "classes_"):
        return np.stack([output + around @ (each - record.output) for each in record.fold_outputs.astype(np.float64)])
    logs = np.log(np.maximum(record.output, _TINY))
    moved = [
        np.log(np.maximum(output, _TINY)) + around @ (np.log(np.maximum(each, _TINY)) - logs)
        for each in record.fold_outputs.astype(np.float64)
    ]
    powers = np.exp(moved - np.max(moved, axis=2, keepdims=True))
    return np.asarray(powers / powers.sum(axis=2, keepdims=True))


def decided(record: FitRecord) -> FitRecord:
    """The record with one label per labelled row, the most probable one of chances.

    Equal rows that contradict each other thus count as what they are, answers that no model can get right all of. In
    models of before it is one label per node, the one that counts most.
    """
    if record.label_nodes is not None and record.label_targets is not None:
        return _row_by_row(record, record.label_nodes, record.label_targets)
    order = np.lexsort((-record.weights, record.nodes))
    first = order[np.unique(record.nodes[order], return_index=True)[1]]
    if len(first) == len(record.nodes):
        return record
    place = np.full(len(record.nodes), -1)
    place[first] = np.arange(len(first))
    kept = np.flatnonzero(place[record.held_out] >= 0)
    return replace(
        record,
        nodes=record.nodes[first],
        targets=record.targets[first],
        weights=record.weights[first],
        held_out=place[record.held_out[kept]],
        answers=record.answers[kept],
        fold=None if record.fold is None else record.fold[kept],
    )


def _row_by_row(record: FitRecord, nodes: NDArray[np.int64], targets: NDArray[Any]) -> FitRecord:
    order = np.lexsort((*np.atleast_2d(targets.T)[::-1], nodes))
    nodes, targets = nodes[order], targets[order]
    item_of = np.full(len(record.output), -1)
    item_of[record.nodes[record.held_out]] = np.arange(len(record.held_out))
    item = item_of[nodes]  # all items of a node were held out together
    held_out = np.flatnonzero(item >= 0)
    return replace(
        record,
        nodes=nodes,
        targets=targets,
        weights=np.ones(len(nodes)),
        held_out=held_out,
        answers=record.answers[item[held_out]],
        fold=None if record.fold is None else record.fold[item[held_out]],
    )


def labelled_throughout(record: FitRecord) -> NDArray[np.bool_]:
    """Nodes all of whose rows have a label; the rows of others may be of another class than the labels there."""
    n = len(record.output)
    found = np.bincount(record.nodes, minlength=n) > 0
    if record.label_nodes is None:
        return found
    rows = np.bincount(record.node_of_row[record.node_of_row >= 0], minlength=n)
    return np.asarray(found & (np.bincount(record.label_nodes, minlength=n) >= rows))


def check_held_out(model: Any, *, proved: bool) -> None:
    """Refuse to promise anything where no label was held out."""
    if not len(model.record_.held_out):
        raise InvalidInputError(
            "no label was held out, so that no coverage can be promised: "
            + ("set folds to 2 or more" if model.folds < 2 else "label two rows of a class, or three values")
        )
    if proved and model.record_.fold_outputs is None:
        raise InvalidInputError(
            "a proof needs the answers of every fold at every row, which are kept for up to 3,000 rows: "
            "leave out proved=True"
        )


def promised(model: Any, coverage: float, *, per_class: bool = False, proved: bool = False) -> list[Promise]:
    """What the model's labels can promise: one for all answers, or one for each class."""
    record = decided(model.record_)
    fold = record.fold
    if fold is None or record.fold_outputs is None:
        fold = np.zeros(len(record.held_out), np.int64)
    if not per_class:
        n, held_out = len(record.nodes), len(record.held_out)
        return [Promise(coverage, n, n - held_out, len(np.unique(fold)), proved)]
    codes = record.targets[record.held_out]
    found = []
    for code in range(len(model.classes_)):
        n, own = int((record.targets == code).sum()), codes == code
        found.append(Promise(coverage, n, n - int(own.sum()), max(len(np.unique(fold[own])), 1), proved))
    return found


def warn_if_less(promises: Sequence[Promise], names: Sequence[Any] = ()) -> None:
    """Say which coverage is promised instead of the one asked for, if it is another."""
    lacking = [index for index, promise in enumerate(promises) if not promise.is_kept]
    if not lacking:
        return
    worst = min(lacking, key=lambda index: promises[index].coverage)
    promise = promises[worst]
    of = f" of class {names[worst]!r}" if len(promises) > 1 else ""
    labels = "1 label" if promise.n == 1 else f"{promise.n} labels"
    unseen = f", {promise.unseen} of which could not be held out," if promise.unseen else ""
    more = len(lacking) - 1
    too = f", and less than asked for in {more} other {'class' if more == 1 else 'classes'}" if more else ""
    if len(promises) > 1 and promise.unseen == promise.n:
        warnings.warn(
            f"no label of class {names[worst]!r} could be held out, so that no coverage can be promised for it and it "
            f"is in every set{too}; more labels allow more",
            CoverageWarning,
            stacklevel=4,
        )
        return
    warnings.warn(
        f"{labels}{of}{unseen} can promise a coverage of {100 * promise.coverage:.1f} % at most, not "
        f"{100 * promise.asked:g} %: this is given instead{too}; more labels allow more",
        CoverageWarning,
        stacklevel=4,
    )


def class_sets(
    model: Any, asked: Asked, coverage: float, *, per_class: bool = False, proved: bool = False
) -> NDArray[np.bool_]:
    """Which classes belong to the set of each row, (rows, classes); see :meth:`COINClassifier.predict_set`."""
    check_held_out(model, proved=proved)
    record = decided(model.record_)
    promises = promised(model, coverage, per_class=per_class, proved=proved)
    warn_if_less(promises, model.classes_.tolist())
    at, scores, fold = _class_scores(model, record, asked)
    if not proved:
        # A class that is in a row's set because an equal row has that label fits as well as can be; so do such labels.
        scores = np.where(_has_twin(record), -1.0, scores)
    found = conformal.sets(scores, fold, record.targets[record.held_out], at, promises)
    # No set is empty: the answer itself is always in it.
    found[np.arange(len(found)), model._priced(asked.output).argmax(axis=1)] = True
    if model._keeps_labels:
        given = np.zeros((len(record.output), found.shape[1]), bool)
        given[model.record_.nodes, model.record_.targets] = True
        known = np.flatnonzero(asked.nodes >= 0)
        nodes = asked.nodes[known]
        # The set of a label is the label, unless there are equal rows without one, which may be of another class.
        certain = labelled_throughout(model.record_)[nodes]
        found[known] = given[nodes] | (found[known] & ~certain[:, None])
    return found


def _has_twin(record: FitRecord) -> NDArray[np.bool_]:
    """Held-out labels that an equal row has too."""
    _, place, counts = np.unique(
        np.stack([record.nodes, record.targets]), axis=1, return_inverse=True, return_counts=True
    )
    return np.asarray(counts[place.ravel()][record.held_out] > 1)


def _class_scores(model: Any, record: FitRecord, asked: Asked) -> tuple[Array, Array, NDArray[np.int64]]:
    """How badly every class fits the rows under each fold, and how badly labels fitted where they were held out."""
    if record.fold is None or record.fold_outputs is None:
        right = model.probabilities_of(record.answers)[np.arange(len(record.answers)), record.targets[record.held_out]]
        return 1 - model.probabilities_of(asked.output)[None], 1 - right, np.zeros(len(right), np.int64)
    share = _SMOOTHING if model._graph_is_given else 0.0
    nodes, codes = record.nodes[record.held_out], record.targets[record.held_out]
    shares = shares_of(model.graph_.weights)[nodes] if share else None
    at, scores = np.empty(asked.at_folds.shape), np.empty(len(nodes))
    for number, (kept, own) in enumerate(zip(record.fold_outputs, asked.at_folds, strict=True)):
        everywhere = 1 - model.probabilities_of(kept.astype(np.float64))
        here = record.fold == number
        found, at[number] = everywhere[nodes[here]], 1 - model.probabilities_of(own)
        if shares is not None:
            found = (1 - share) * found + share * (shares[np.flatnonzero(here)] @ everywhere)
            at[number] = (1 - share) * at[number] + share * (asked.around @ everywhere)
        scores[here] = found[np.arange(len(found)), codes[here]]
    return at, scores, record.fold


def value_intervals(model: Any, asked: Asked, coverage: float, *, proved: bool = False) -> Array:
    """Lower and upper ends on the scale of the output, (rows, outputs, 2); see ``COINRegressor.predict_interval``."""
    check_held_out(model, proved=proved)
    record = decided(model.record_)
    promises = promised(model, coverage, proved=proved)
    warn_if_less(promises)
    truth, at_folds = record.targets[record.held_out], model.within_reach(asked.at_folds)
    found = np.empty((*asked.output.shape, 2))
    if record.fold_outputs is None:
        misses, fold = np.abs(truth - model.within_reach(record.answers)), np.zeros(len(truth), np.int64)
        scales = np.ones_like(at_folds)
    else:
        assert record.fold is not None
        fold, nodes = record.fold, record.nodes[record.held_out]
        kept = model.within_reach(record.fold_outputs.astype(np.float64))
        shares = shares_of(model.graph_.weights)
        own = np.stack([_disagreement(shares, each) for each in kept])
        typical = own.mean(axis=1, keepdims=True)
        typical[typical == 0] = 1.0
        scales = typical + _WIDENING * np.stack([_disagreement(asked.around, each) for each in kept])
        misses = np.abs(truth - kept[fold, nodes]) / (typical + _WIDENING * own)[fold, nodes]
    for column in range(found.shape[1]):
        found[:, column] = conformal.intervals(
            misses[:, column], fold, at_folds[:, :, column], scales[:, :, column], promises[0]
        )
    # The answer itself is always within.
    answer = model.within_reach(asked.output)
    return np.stack([np.minimum(found[..., 0], answer), np.maximum(found[..., 1], answer)], axis=-1)


def _disagreement(around: sp.csr_array, values: Array) -> Array:
    """The spread of values in the neighbourhoods of rows."""
    return np.asarray(np.sqrt(np.maximum(around @ values**2 - (around @ values) ** 2, 0.0)))
