r"""Classes of known sizes on a graph: of all assignments that fill the quotas, one whose classes hang together.

Heat that starts in a class should stay in it: the energy of an assignment is the heat that leaves the classes within a
time :math:`t`, :math:`\sum_c \langle 1 - u_c, e^{-tL} u_c \rangle`, for short times the weight of the edges that it
cuts (Esedoglu and Otto, 2015). To diffuse the classes and to assign anew, every class keeping its size, lowers it in
every round (auction dynamics; Jacobs, Merkurjev and Esedoglu, 2018), down to one of many minima.

The minimum that is reached may cut across two clusters and have half of each in either class: every step from there to
the right cut would cut more. So where classes are clusters, the pairs of classes between which most heat passes are
parted anew, along the slowest modes of heat within the two (spectral bisection), and what then settles is taken where
it cuts clearly less and few of the given labels come to disagree with their neighbours. Which mode is best shows only
then: where each class is two clusters, the slowest mode may part the pair across both, and cut hardly more.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from condiff.diffusion import Chebyshev
from condiff.diffusion.conjugate import Array, Codes, Product, solve_symmetric
from condiff.diffusion.stability import max_diagonal
from condiff.graph import Graph, Laplacian
from condiff.uncertainty.quota import assign

# How far heat spreads in a round, in steps at the positivity limit: in the end it moves the borders alone.
_SPREADS = (30, 8)
# Assignments are compared by the heat that leaves them within this: short, so that it is what they cut.
_SHORT = 1
# Rounds of each spread at most, and the share of points that may still change.
_ROUNDS, _FEW_CHANGES = 60, 2e-4
# Pairs of classes that are parted anew, and along how many modes; how much more a parting may cut before it settles,
# and by how much less after: less than this is a matter of borders, not of clusters.
_PAIRS, _MODES, _AT_FIRST, _CLEARLY = 3, 3, 0.1, 0.01
# The share of a pair's labels that may come to disagree: a cut through two clusters has half of them on the wrong side,
# the right one hardly any.
_DISAGREE = 0.25
# Up to so many nodes all modes are found at once.
_DENSE = 200
# Of what is spread from the labels so much comes back to them: in parts of the graph too that no label reaches.
_SPREAD = 1 - 1e-4


def settle(graph: Graph, start: Codes, free: NDArray[np.bool_], sizes: Codes, *, clusters: bool) -> Codes:
    """The classes of all nodes once they hang together.

    Parameters
    ----------
    graph
        Normalised and symmetric.
    start
        Classes of all nodes that fill the quotas.
    free
        The nodes whose class is sought; the others keep theirs.
    sizes
        How many of the free nodes every class gets.
    clusters
        Whether classes are taken to be clusters, so that what cuts less is right.
    """
    operator = graph.laplacian(torch.float32)
    codes = _rounds(operator, start, free, sizes)
    return _parted_anew(graph, operator, codes, free, sizes) if clusters else codes


def from_labels(graph: Graph, nodes: Codes, targets: Codes, n_classes: int) -> Array:
    """What the labels alone say of every node: their classes, less the mean, spread over the whole graph."""
    weights = sp.csr_array(graph.weights, dtype=np.float64)
    scale = np.maximum(np.asarray(weights.sum(axis=1)).ravel(), 1e-12) ** -0.5
    diagonal = sp.diags_array(scale)
    spread = Product(sp.csr_array(diagonal @ weights @ diagonal))
    given = np.eye(n_classes)[targets]
    right = np.zeros((graph.n_nodes, n_classes))
    np.add.at(right, nodes, given - given.mean(axis=0))
    found = solve_symmetric(lambda v, _: spread.less(v, _SPREAD), scale[:, None] * right, 1e-3)
    return np.asarray(scale[:, None] * found)


def energy(operator: Laplacian, codes: Codes, n_classes: int) -> float:
    """The heat that leaves the classes within a short time, as a number of nodes."""
    u = np.eye(n_classes)[codes]
    return float(len(codes) - (u * _heat(operator, u, _SHORT)).sum())


def _rounds(operator: Laplacian, codes: Codes, free: NDArray[np.bool_], sizes: Codes) -> Codes:
    prices: Array | None = None
    for steps in _SPREADS:
        for _ in range(_ROUNDS):
            scores = _heat(operator, np.eye(len(sizes))[codes], steps)[free]
            before, codes = codes, codes.copy()
            codes[free], prices = assign(scores, sizes, prices)
            if (before != codes).mean() < _FEW_CHANGES:
                break
    return codes


def _parted_anew(graph: Graph, operator: Laplacian, codes: Codes, free: NDArray[np.bool_], sizes: Codes) -> Codes:
    """Part the pairs of classes that touch most, until no parting cuts clearly less."""
    weights, n_classes = sp.csr_array(graph.weights, dtype=np.float64), len(sizes)
    least, disputed = energy(operator, codes, n_classes), _disputed(weights, codes, free, n_classes)
    tried: set[tuple[int, int]] = set()
    while pair := next((each for each in _touching(operator, codes, n_classes) if each not in tried), None):
        tried.add(pair)
        partings = _partings(weights, codes, free, pair)
        hopeful = [each for each in partings if energy(operator, each, n_classes) < (1 + _AT_FIRST) * least]
        settled = [_rounds(operator, each, free, sizes) for each in hopeful]
        most = disputed + int(_DISAGREE * np.isin(codes[~free], pair).sum())
        agreed = [each for each in settled if _disputed(weights, each, free, n_classes) <= most]
        best = min(agreed, key=lambda each: energy(operator, each, n_classes), default=codes)
        cut = energy(operator, best, n_classes)
        if cut < (1 - _CLEARLY) * least:
            codes, least, tried = best, cut, {pair}
            disputed = _disputed(weights, codes, free, n_classes)
    return codes


def _touching(operator: Laplacian, codes: Codes, n_classes: int) -> list[tuple[int, int]]:
    """The pairs of classes between which most heat passes within a short time."""
    u = np.eye(n_classes)[codes]
    passed = np.triu(u.T @ _heat(operator, u, _SHORT), 1)
    first, second = np.unravel_index(np.argsort(-passed, axis=None, kind="stable")[:_PAIRS], passed.shape)
    return [(int(a), int(b)) for a, b in zip(first, second, strict=True) if passed[a, b] > 0]


def _partings(weights: sp.csr_array, codes: Codes, free: NDArray[np.bool_], pair: tuple[int, int]) -> list[Codes]:
    """Two classes dealt out anew along each of their slow modes, either way round."""
    here = np.flatnonzero(np.isin(codes, pair))
    modes = _slow_modes(weights[here][:, here])
    moved = free[here]
    size = int((codes[here[moved]] == pair[0]).sum())
    found = []
    for mode in modes[moved].T:
        for way in (1, -1):
            dealt, order = codes.copy(), here[moved][np.argsort(way * mode, kind="stable")]
            dealt[order[:size]], dealt[order[size:]] = pair
            found.append(dealt)
    return found


def _slow_modes(weights: sp.csr_array) -> Array:
    """The slowest modes of a random walk on some of the nodes, (nodes, modes)."""
    scale = np.maximum(np.asarray(weights.sum(axis=1)).ravel(), 1e-12) ** -0.5
    symmetric = sp.csr_array(sp.diags_array(scale) @ weights @ sp.diags_array(scale))
    if len(scale) <= _DENSE:
        modes = np.linalg.eigh(symmetric.toarray())[1][:, -_MODES:]
    else:
        start = np.random.default_rng(0).normal(size=len(scale))
        modes = eigsh(symmetric, _MODES, which="LA", tol=1e-3, v0=start)[1]
    return np.asarray(scale[:, None] * modes)


def _disputed(weights: sp.csr_array, codes: Codes, free: NDArray[np.bool_], n_classes: int) -> int:
    """How many of the nodes that keep their class have neighbours most of which are of another."""
    fixed = np.flatnonzero(~free)
    near = weights[fixed] @ np.eye(n_classes)[codes]
    near[np.arange(len(fixed)), codes[fixed]] -= weights.diagonal()[fixed]
    return int((near.argmax(axis=1) != codes[fixed]).sum())


def _heat(operator: Laplacian, u: Array, steps: int) -> Array:
    time = steps / (max_diagonal(operator) or 1.0)
    with torch.no_grad():
        return np.asarray(Chebyshev(1e-4)(operator, torch.as_tensor(u, dtype=torch.float32), time, 1).double().numpy())
