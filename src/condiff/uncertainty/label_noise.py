r"""Labels that are probably wrong: what answers that were made without them say against them.

A label may contradict its row's answer because classes overlap there, or because it is wrong. The two leave different
traces: overlapping classes make answers unsure, wrong labels contradict sure ones. So answers :math:`p_T` at a
temperature T are compared with labels of which a share :math:`\varepsilon` was exchanged for another class, drawn
evenly from the K - 1 others,

.. math:: (1 - \varepsilon) \, p_T(y) + \varepsilon \, \frac{1 - p_T(y)}{K - 1},

and T and :math:`\varepsilon` are fitted together by maximum likelihood. That labels are wrong at all is believed only
where it explains them clearly better than answers that are merely unsure, :math:`\varepsilon = 0`; then Bayes' rule
says how likely each is wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from condiff.uncertainty.calibration import apply_temperature

Array = NDArray[np.float64]

# Shares of wrong labels and temperatures that are tried.
_RATES = np.array([0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4])
_TEMPERATURES = np.exp(np.linspace(np.log(0.01), np.log(20.0), 60))
# Twice the logarithm of the ratio of likelihoods from which on a share above zero is believed: chance in one case of
# twenty, for a share at the end of its range.
_CLEARLY = 2.71
# The chance from which on a label is left out, and one in how many of a class may be: a label that is right and is left
# out is one of those that tell most.
_VERY_LIKELY, _OF_A_CLASS = 0.8, 3
_TINY = 1e-9


def chances_wrong(outputs: Array, codes: NDArray[np.int64], weights: Array) -> Array:
    """How likely each label is wrong; zero throughout where nothing says that any is.

    Parameters
    ----------
    outputs
        Answers for the labelled rows, made without their labels, before any temperature: (labels, classes).
    codes
        The classes of the labels.
    weights
        How much each counts.
    """
    counts = weights * (len(weights) / weights.sum())
    others, items = outputs.shape[1] - 1, np.arange(len(codes))
    own = np.stack([apply_temperature(outputs, each)[items, codes] for each in _TEMPERATURES])
    right = (1 - _RATES)[:, None, None] * own
    wrong = _RATES[:, None, None] * (1 - own) / others
    likelihoods = np.log(np.maximum(right + wrong, _TINY)) @ counts  # (rates, temperatures)
    rate, temperature = np.unravel_index(int(likelihoods.argmax()), likelihoods.shape)
    if 2 * (likelihoods[rate, temperature] - likelihoods[0].max()) < _CLEARLY:
        return np.zeros(len(codes))
    found, total = wrong[rate, temperature], (right + wrong)[rate, temperature]
    return np.asarray(found / np.maximum(total, _TINY))


def doubted(outputs: Array, codes: NDArray[np.int64], weights: Array) -> NDArray[np.bool_]:
    """Which labels are very likely wrong; see :func:`chances_wrong`.

    Of no class are these more than a third: where most labels of a class look wrong, it is the answers that are.
    """
    chances = chances_wrong(outputs, codes, weights)
    found = chances > _VERY_LIKELY
    for code in np.unique(codes):
        own = np.flatnonzero(codes == code)
        order = own[np.argsort(-chances[own], kind="stable")]
        found[order[len(own) // _OF_A_CLASS :]] = False
    return np.asarray(found)


def trust(probabilities: Array, around: Array, codes: NDArray[np.int64]) -> Array:
    """How far each label is to be believed, from 0 to 1: the lower, the likelier it is wrong.

    Parameters
    ----------
    probabilities
        Answers for the labelled rows, made without their labels, (labels, classes).
    around
        What the neighbours of the labelled rows are answered on average, (labels, classes).
    codes
        The classes of the labels.
    """
    items = np.arange(len(codes))
    return np.asarray(probabilities[items, codes] * around[items, codes])
