r"""Classes of known sizes: the best assignment that fills every quota exactly.

Of all assignments of ``n`` points to classes that give every class its quota, the one with the largest sum of scores is
sought: a transport problem. Its dual has one price per class, and every point takes the class with the best score less
price. Prices are found by annealing: soft assignments, whose shares are differentiable, become hard in steps. What is
then left over is moved along shortest paths between classes (each move is the cheapest chain of points that change
class), which keeps the assignment optimal at every step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from condiff.errors import InvalidInputError

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# How hard assignments are, relative to the spread of the scores, from step to step; rounds of balancing in each.
_HARDNESS, _ROUNDS = tuple(4.0**power for power in range(7)), 30
# Points that prices are first found on, and rounds over the classes on all points.
_SAMPLE, _CYCLES = 5000, 8


def quotas(shares: Array, n: int) -> Codes:
    """Shares as whole numbers of points: each is off by less than one, and they sum to ``n`` (largest remainders)."""
    exact: Array = n * shares / shares.sum()
    found: Codes = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - found), kind="stable")
    found[order[: n - int(found.sum())]] += 1
    return found


def assign(scores: Array, sizes: Codes) -> tuple[Codes, Array]:
    """The assignment with the largest sum of scores that gives every class its size, and what to add to the scores.

    Parameters
    ----------
    scores
        (points, classes), finite; larger is better.
    sizes
        How many points each class gets.

    Returns
    -------
    codes
        The class of every point.
    bias
        One number for each class: ``argmax(scores + bias)`` gives the same assignment, up to ties.
    """
    n, n_classes = scores.shape
    if int(sizes.sum()) != n:
        raise InvalidInputError(f"the sizes of the classes sum to {int(sizes.sum())}, but there are {n} points")
    bias = _annealed(scores, sizes / n)
    codes = np.asarray((scores + bias).argmax(axis=1))
    while True:
        excess = np.bincount(codes, minlength=n_classes) - sizes
        if not excess.any():
            return codes, bias
        bias = _move(scores, codes, excess, bias)


def _annealed(scores: Array, shares: Array) -> Array:
    """Prices under which the hard assignment nearly has these shares."""
    spread = float(np.std(scores - scores.max(axis=1, keepdims=True))) or 1.0
    some = scores[:: max(1, len(scores) // _SAMPLE)]
    log_shares = np.log(np.maximum(shares, 1e-12))
    bias: Array = np.zeros(scores.shape[1])
    for hardness in _HARDNESS:
        slope = hardness / spread
        for _ in range(_ROUNDS):
            found = softmax(slope * (some + bias), axis=1).mean(axis=0)
            step = (log_shares - np.log(np.maximum(found, 1e-12))) / slope
            bias = bias + step
            if np.abs(found - shares).max() < 0.2 / len(some):
                break
    for _ in range(_CYCLES):
        for code, size in enumerate((shares * len(scores)).round().astype(np.int64).tolist()):
            # The price at which just so many points prefer this class, halfway between the last that does and the next.
            others = np.delete(scores + bias, code, axis=1).max(axis=1) - scores[:, code]
            if 0 < size < len(others):
                bias[code] = np.partition(others, (size - 1, size))[size - 1 : size + 1].mean()
    return np.asarray(bias - bias.mean())


def _move(scores: Array, codes: Codes, excess: Codes, bias: Array) -> Array:
    """Move one point each along the cheapest chain from a class with too many to one with too few; returns new prices.

    ``codes`` is changed. Bellman and Ford's shortest paths over the classes: the length of a step from one class to
    another is what its cheapest point would lose.
    """
    n_classes = scores.shape[1]
    lengths = np.full((n_classes, n_classes), np.inf)
    movers = np.zeros((n_classes, n_classes), np.int64)
    priced = scores + bias
    for own in range(n_classes):
        members = np.flatnonzero(codes == own)
        if len(members):
            losses = priced[members, own][:, None] - priced[members]
            first = losses.argmin(axis=0)
            lengths[own], movers[own] = losses[first, np.arange(n_classes)], members[first]
    lengths = np.maximum(lengths, 0.0)  # an optimal assignment has no negative one but by rounding
    distance = np.where(excess > 0, 0.0, np.inf)
    before = np.full(n_classes, -1)
    for _ in range(n_classes):
        through = distance[:, None] + lengths
        best = through.argmin(axis=0)
        shorter = through[best, np.arange(n_classes)] < distance - 1e-15
        if not shorter.any():
            break
        distance = np.where(shorter, through[best, np.arange(n_classes)], distance)
        before[shorter] = best[shorter]
    end = int(np.where(excess < 0, distance, np.inf).argmin())
    reached, here = float(distance[end]), end
    while before[here] >= 0:
        codes[movers[before[here], here]] = here
        here = int(before[here])
    # Classes nearer than the end become dearer by what is missing, so that the chain costs nothing at the new prices.
    return np.asarray(bias - np.maximum(reached - distance, 0.0))
