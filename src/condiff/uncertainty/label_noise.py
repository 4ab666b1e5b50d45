"""Labels that are probably wrong: what a fit without them says against them.

Confident learning (Northcutt, Jiang and Chuang, 2021): a label is doubted if its row, answered without it, is as surely
of another class as rows with that class's label are on average of theirs; and here, unless the answer leaves it hardly
any chance, it is still believed, because few labels make answers of their own that are wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: The chance below which a label may be doubted.
HARDLY = 0.1


def doubted(probabilities: Array, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which labels are probably wrong.

    Parameters
    ----------
    probabilities
        Answers for the labelled rows, made without their labels, (labels, classes).
    codes
        The classes of the labels.
    """
    own = probabilities[np.arange(len(codes)), codes]
    usual = np.array(
        [own[codes == code].mean() if (codes == code).any() else 1.0 for code in range(probabilities.shape[1])]
    )
    rival = np.where(probabilities >= usual, probabilities, 0.0)
    rival[np.arange(len(codes)), codes] = 0.0
    return np.asarray((rival.max(axis=1) > 0) & (own < HARDLY))


def trust(probabilities: Array, around: Array, codes: NDArray[np.int64]) -> Array:
    """How far each label is to be believed, from 0 to 1: the lower, the likelier it is wrong.

    Parameters
    ----------
    probabilities, codes
        As for :func:`doubted`.
    around
        What the neighbours of the labelled rows are answered on average, (labels, classes).
    """
    items = np.arange(len(codes))
    return np.asarray(probabilities[items, codes] * around[items, codes])
