"""Which part of a table carried the answers: its texts, its images, or its other columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

# Neighbours that are asked, and points that ask.
_NEAR, _POINTS = 10, 2000
OTHERS = "other columns"


def carried(model: Any) -> dict[str, float]:
    """How much of a model's answers a point's neighbours in one part of the columns alone can tell.

    For classes, the share of points whose answer most of their ten nearest neighbours have; for values, the share of
    the variance that the neighbours' mean explains. The part with the largest share carried the answers. Texts and
    images are parts of their own, all other columns together one.

    Parameters
    ----------
    model
        Fitted on a table.

    Returns
    -------
    dict
        From each part to its share; empty where a table has only one part.
    """
    check_is_fitted(model)
    return _shares(model, _parts(model))


def column_shares(model: Any) -> dict[str, float]:
    """The same for every column of the table by itself, the best first.

    Columns that say something only together, as two coordinates do, are underrated by this.
    """
    check_is_fitted(model)
    blocks = [] if model.encoder_ is None else model.encoder_.blocks_
    shares = _shares(model, {block.column: np.arange(block.start, block.stop) for block in blocks})
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _shares(model: Any, parts: dict[str, NDArray[np.int64]]) -> dict[str, float]:
    if len(parts) < 2:
        return {}
    points, output = model.points_, model.record_.output
    some = np.sort(np.random.default_rng(0).permutation(points.shape[0])[:_POINTS])
    points, answers = points[some], output[some]
    near = min(_NEAR, len(some) - 1)
    if near < 1:
        return {}
    return {name: _told(points[:, columns], answers, near, is_classifier(model)) for name, columns in parts.items()}


def _parts(model: Any) -> dict[str, NDArray[np.int64]]:
    found: dict[str, list[int]] = {}
    for block in [] if model.encoder_ is None else model.encoder_.blocks_:
        name = f"{block.kind} {block.column!r}" if block.kind in ("text", "image") else OTHERS
        found.setdefault(name, []).extend(range(block.start, block.stop))
    return {name: np.array(columns) for name, columns in found.items()}


def _told(points: Any, answers: NDArray[np.float64], near: int, classes: bool) -> float:
    around = NearestNeighbors(n_neighbors=near).fit(points).kneighbors(return_distance=False)
    if classes:
        codes = answers.argmax(axis=1)
        votes = np.eye(answers.shape[1])[codes][around].sum(axis=1)
        return float((votes.argmax(axis=1) == codes).mean())
    misses = ((answers - answers[around].mean(axis=1)) ** 2).sum()
    return float(max(0.0, 1 - misses / max(float(((answers - answers.mean(axis=0)) ** 2).sum()), 1e-300)))
