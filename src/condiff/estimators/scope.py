"""Which rows of a fitted model are out of its labels' scope."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.estimators.coverage import Asked, shares_of
from condiff.estimators.inputs import features_of
from condiff.graph import nearest
from condiff.uncertainty.conformal import n_as_bad
from condiff.uncertainty.scope import nearness, reach

Array = NDArray[np.float64]

# Close to leaving out one label at a time: with few folds, walks differ more from fold to fold than from row to row.
_FOLDS = 50


def out_of_scope(model: Any, X: Any, asked: Asked) -> tuple[Array, Array]:
    """How far rows are out of scope, and the share of labelled rows that would be as far if they had no label.

    Returns two arrays of shape (rows,): scores from 0 to 1, and p-values.
    """
    domain, nodes = model._domain, np.unique(model.record_.nodes)
    n, folds = model.graph_.n_nodes, min(_FOLDS, len(nodes))
    fold = np.random.default_rng(0).permutation(len(nodes)) % folds
    # All labels in the last column, and in the others those of all folds but one.
    labelled = np.zeros((n, folds + 1), bool)
    labelled[nodes] = np.column_stack([fold[:, None] != np.arange(folds), np.ones(len(nodes), bool)])
    walks = reach(shares_of(model.graph_.weights), labelled)
    near, known = np.ones(n), asked.nodes >= 0
    near_asked = np.ones(len(asked.nodes))
    if domain.bandwidth is not None:
        near = nearness(domain.bandwidth, shares_of(model.graph_.weights) @ domain.bandwidth)
        near_asked[known] = near[asked.nodes[known]]
        if not known.all():
            near_asked[~known] = _nearness_of_new(model, X, ~known, asked)
    at = np.where(known[:, None], walks[np.maximum(asked.nodes, 0)], asked.around @ walks) * near_asked[:, None]
    left_out = 1 - walks[nodes, fold] * near[nodes]
    # A walk along an edge more or less is rounding: scores that agree to nine digits are alike.
    as_far = n_as_bad(np.round(left_out, 9), fold, np.round(1 - at.T[:folds], 9))
    return 1 - at[:, -1], (as_far + 1) / (len(nodes) + 1)


def _nearness_of_new(model: Any, X: Any, new: NDArray[np.bool_], asked: Asked) -> Array:
    domain = model._domain
    rows = domain.in_own_form(model._numbers(features_of(X), learn=False))[new]
    points = domain.features.scaled(domain.points)
    rank = min(max(domain.rank - 1, 1), len(domain.bandwidth))
    found = nearest(points, rank, queries=domain.features.scaled(rows), metric=domain.metric)
    return nearness(found.distances[:, -1].astype(np.float64), asked.around[np.flatnonzero(new)] @ domain.bandwidth)
