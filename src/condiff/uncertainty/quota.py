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
# Points that prices are first found on; rounds over the classes on all points, which end where few are misplaced.
_SAMPLE, _CYCLES, _FEW = 5000, 8, 20
# One point in so many, those with the closest decisions, is looked at before all are.
_SETTLED = 10


def quotas(shares: Array, n: int) -> Codes:
    """Shares as whole numbers of points: each is off by less than one, and they sum to ``n`` (largest remainders)."""
    exact: Array = n * shares / shares.sum()
    found: Codes = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - found), kind="stable")
    found[order[: n - int(found.sum())]] += 1
    return found


def assign(scores: Array, sizes: Codes, start: Array | None = None) -> tuple[Codes, Array]:
    """The assignment with the largest sum of scores that gives every class its size, and what to add to the scores.

    Parameters
    ----------
    scores
        (points, classes), finite; larger is better.
    sizes
        How many points each class gets.
    start
        What was added to similar scores: near to it the assignment is found sooner.

    Returns
    -------
    codes
        The class of every point.
    bias
        One number for each class: ``argmax(scores + bias)`` gives the same assignment, up to ties.
    """
    n = len(scores)
    if int(sizes.sum()) != n:
        raise InvalidInputError(f"the sizes of the classes sum to {int(sizes.sum())}, but there are {n} points")
    bias = _annealed(scores, sizes / n) if start is None else start
    codes, bias = _balanced(np.ascontiguousarray(scores.T), sizes, bias)
    return _exchanged(scores, codes, sizes, bias)


def _annealed(scores: Array, shares: Array) -> Array:
    """Prices under which the hard assignment of some of the points nearly has these shares."""
    spread = float(np.std(scores - scores.max(axis=1, keepdims=True))) or 1.0
    some = scores[:: max(1, len(scores) // _SAMPLE)]
    log_shares = np.log(np.maximum(shares, 1e-12))
    bias: Array = np.zeros(scores.shape[1])
    for hardness in _HARDNESS:
        slope = hardness / spread
        for _ in range(_ROUNDS):
            found = softmax(slope * (some + bias), axis=1).mean(axis=0)
            bias = bias + (log_shares - np.log(np.maximum(found, 1e-12))) / slope
            if np.abs(found - shares).max() < 0.2 / len(some):
                break
    return bias


def _balanced(columns: Array, sizes: Codes, bias: Array) -> tuple[Codes, Array]:
    """The class that every point prefers at prices under which nearly as many prefer each as it may have.

    ``columns`` are the scores class by class. A point whose class is ahead of the next by more than prices change stays
    where it is: prices are first sought among the closest decisions alone, and if they moved further than these reach,
    among all.
    """
    codes, margin = _preferred(columns + bias[:, None])
    reach = float(np.partition(margin, len(margin) // _SETTLED)[len(margin) // _SETTLED])
    close = margin <= reach
    wanted = sizes - np.bincount(codes[~close], minlength=len(sizes))
    if (wanted > 0).all():
        some, found = _cycled(columns[:, close], wanted, bias)
        if np.ptp(found - bias) <= reach:
            codes[close] = some
            return codes, found
        bias = found
    return _cycled(columns, sizes, bias)


def _preferred(priced: Array) -> tuple[Codes, Array]:
    """The best class of every point, (classes, points), and by how much it is ahead of the next."""
    best, codes = priced[0].copy(), np.zeros(priced.shape[1], np.int64)
    second = np.full(priced.shape[1], -np.inf)
    for code, row in enumerate(priced[1:], 1):
        codes[row > best] = code
        second = np.maximum(second, np.minimum(best, row))
        best = np.maximum(best, row)
    return codes, np.asarray(best - second)


def _cycled(columns: Array, sizes: Codes, bias: Array) -> tuple[Codes, Array]:
    """Set the price of one class after another to what just as many points as it may have would pay.

    Returns the class that every point then prefers, and the prices.
    """
    n_classes, n = columns.shape
    bias = bias.copy()
    for cycle in range(_CYCLES + 1):
        priced = columns + bias[:, None]
        codes = _preferred(priced)[0]
        excess = np.bincount(codes, minlength=n_classes) - sizes
        if cycle == _CYCLES or np.abs(excess).sum() <= 2 * _FEW:
            break
        # The best of the classes that are still to come, and of those that already have their new price.
        coming = np.maximum.accumulate(priced[::-1], axis=0)[::-1]
        passed = np.full(n, -np.inf)
        for code, size in enumerate(sizes.tolist()):
            others = passed if code == n_classes - 1 else np.maximum(passed, coming[code + 1])
            if 0 < size < n:
                # Halfway between the last point that still prefers this class and the next.
                needed = np.partition(others - columns[code], (size - 1, size))
                bias[code] = needed[size - 1 : size + 1].mean()
            passed = np.maximum(passed, columns[code] + bias[code])
    return codes, np.asarray(bias - bias.mean())


def _exchanged(scores: Array, codes: Codes, sizes: Codes, bias: Array) -> tuple[Codes, Array]:
    """Move points along the cheapest chains from classes with too many to ones with too few, until all have theirs.

    Bellman and Ford's shortest paths over the classes: the length of a step from one class to another is what its
    cheapest point would lose.
    """
    n_classes = len(sizes)
    every = np.arange(n_classes)
    losses, movers = np.full((n_classes, n_classes), np.inf), np.zeros((n_classes, n_classes), np.int64)
    excess = np.bincount(codes, minlength=n_classes) - sizes
    near = _movable(scores, codes, int(np.maximum(excess, 0).sum()))
    whole, codes, scores = codes, codes[near], scores[near]
    changed = set(range(n_classes))
    while excess.any():
        for own in changed:
            members = np.flatnonzero(codes == own)
            losses[own] = np.inf
            if len(members):
                lost = scores[members, own][:, None] - scores[members]
                first = lost.argmin(axis=0)
                losses[own], movers[own] = lost[first, every], members[first]
        # An optimal assignment has no negative length but by rounding.
        lengths = np.maximum(losses + bias[:, None] - bias, 0.0)
        distance = np.where(excess > 0, 0.0, np.inf)
        before = np.full(n_classes, -1)
        for _ in range(n_classes):
            through = distance[:, None] + lengths
            best = through.argmin(axis=0)
            shorter = through[best, every] < distance - 1e-15
            if not shorter.any():
                break
            distance = np.where(shorter, through[best, every], distance)
            before[shorter] = best[shorter]
        end = here = int(np.where(excess < 0, distance, np.inf).argmin())
        changed = {here}
        while before[here] >= 0:
            source = int(before[here])
            codes[movers[source, here]] = here
            here = source
            changed.add(here)
        excess[here] -= 1
        excess[end] += 1
        # Classes nearer than the end become dearer by what is missing: the chain costs nothing at the new prices.
        bias = np.asarray(bias - np.maximum(distance[end] - distance, 0.0))
    whole[near] = codes
    return whole, bias


def _movable(scores: Array, codes: Codes, chains: int) -> Codes:
    """All points that so many chains may move: a chain takes one point from a class at most, one of its cheapest."""
    found = [np.empty(0, np.int64)]
    for own in range(scores.shape[1] if chains else 0):
        members = np.flatnonzero(codes == own)
        if len(members) > chains:
            lost = scores[members, own] - scores[members].T
            cheapest = np.argpartition(lost, chains - 1, axis=1)[:, :chains]
            members = members[np.delete(cheapest, own, axis=0).ravel()]
        found.append(members)
    return np.unique(np.concatenate(found))
