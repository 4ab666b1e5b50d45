"""A PyTorch Geometric ``Data`` in the place of a matrix: features, labels and edges in one object."""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.graph import Graph


def is_graph_data(X: Any) -> bool:
    """Whether this has features and edges, as a ``Data`` does; the class itself is not needed to tell."""
    return hasattr(X, "edge_index") and hasattr(X, "x")


def features_of(X: Any) -> Any:
    """The feature matrix of a ``Data``; anything else as it is."""
    if not is_graph_data(X):
        return X
    if X.x is None:
        raise InvalidInputError("this Data has no features: set data.x")
    return X.x.detach().cpu().numpy()


def unpacked(X: Any, y: Any, adjacency: Any, graph: Any) -> tuple[Any, Any, Any]:
    """Features, targets and adjacency of a ``Data``; what is no ``Data`` passes through.

    Targets outside of ``train_mask`` count as missing, if there is one; given targets come before the ``Data``'s own.
    """
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
