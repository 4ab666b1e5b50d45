"""Class shares of the unlabelled points, and probabilities that take them into account.

Labels are often drawn evenly, so many per class, from points whose classes are not even. A classifier then learns to
expect every class equally often. The shares can be had without further labels: held-out labels say how often each
class is mistaken for each other one, and the predictions say how often each class is predicted (black-box shift
estimation; Saerens et al., 2002; Lipton et al., 2018).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

# No class counts as rarer than this: a share of zero, easily estimated from few labels, would exclude it for good.
_RAREST = 0.01
# Makes the equation that shares add up to one count more than those of the single classes.
_SUM_WEIGHT = 10.0


def class_shares(
    predicted: NDArray[np.int64], held_out: NDArray[np.int64], truth: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    r"""Estimate how common each class is among all points.

    With :math:`C_{ji}` the share of class :math:`i` that is predicted as :math:`j`, and :math:`q_j` the share of all
    points predicted as :math:`j`, it is the non-negative :math:`\pi` with :math:`C \pi \approx q` that sums to one.

    Parameters
    ----------
    predicted
        (n,) the predicted class of every point.
    held_out, truth
        Indices of points whose labels were not trained on, and these labels.
    n_classes
        The number of classes. One without a held-out label counts as predicted at random.

    Examples
    --------
    Half of class 1 is mistaken for class 0, so a quarter predicted as 1 means that half of the points are:

    >>> predicted = np.array([0, 0, 0, 1] * 25)
    >>> shares = class_shares(predicted, np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1]), 2)
    >>> shares.round(1).tolist()
    [0.5, 0.5]
    """
    confusion = np.full((n_classes, n_classes), 1 / n_classes)
    np.add.at(confusion, (predicted[held_out], truth), 1.0)
    confusion /= confusion.sum(0)
    found = np.bincount(predicted, minlength=n_classes) / len(predicted)
    system = np.vstack([confusion, np.full(n_classes, _SUM_WEIGHT)])
    shares = np.maximum(nnls(system, np.append(found, _SUM_WEIGHT))[0], _RAREST)
    return np.asarray(shares / shares.sum())


def with_shares(
    probabilities: NDArray[np.float64], shares: NDArray[np.float64], trained: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Calibrated probabilities for points whose classes have these shares rather than those of the training labels.

    Parameters
    ----------
    probabilities
        (n, classes), each row summing to one.
    shares
        (classes,) how common the classes are among the points.
    trained
        How common they are among the labels that were trained on; even by default.
    """
    weighted = probabilities * (shares if trained is None else shares / trained)
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))
