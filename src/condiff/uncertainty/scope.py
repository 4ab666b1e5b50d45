r"""Rows that the labels have nothing to say about: far from all others, or of a class that has no label.

A classifier divides the whole space among the classes that it knows, and is sure of itself far from all of them. The
graph knows better. From a row of a class without labels, a random walk along the edges keeps to that class for long; so
the chance that it meets a labelled row within a number of steps,

.. math:: h_{t+1} = W h_t, \qquad h_t = 1 \text{ at labelled rows}, \qquad h_0 = 0 \text{ elsewhere},

is small there. (It is the diffusion of the labels, whichever their class, with labelled rows held.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Steps in units of the rows per label, and their number at most.
_STEPS, _MOST_STEPS = 2.0, 200


def reach(shares: Any, labelled: NDArray[np.bool_]) -> Array:
    """The chance that a random walk from each node meets a labelled one.

    Parameters
    ----------
    shares
        Where a walk goes next, (nodes, nodes); rows sum to one, or are empty.
    labelled
        Which nodes are labelled, (nodes, cases): each case is a walk of its own.

    Returns
    -------
    ndarray of shape (nodes, cases)
    """
    found = labelled.astype(np.float64)
    fewest = max(int(labelled.sum(axis=0).min()), 1)
    for _ in range(min(max(math.ceil(_STEPS * len(labelled) / fewest), 1), _MOST_STEPS)):
        found = shares @ found
        found[labelled] = 1.0
    return found


def nearness(distances: Array, usual: Array) -> Array:
    """1 for rows that are as far from their neighbours as these are from theirs, and less from twice as far on."""
    return np.minimum(1.0, 2.0 * np.maximum(usual, 1e-300) / np.maximum(distances, 1e-300))
