r"""Classes of known sizes on a graph: of all assignments that fill the quotas, one whose classes hang together.

Heat that starts in a class should stay in it: the energy of an assignment is the heat that leaves the classes within a
time :math:`t`, :math:`\sum_c \langle 1 - u_c, e^{-tL} u_c \rangle`, for short times the weight of the edges that it
cuts (Esedoglu and Otto, 2015). To diffuse the classes and to assign anew, every class keeping its size, lowers it in
every round (auction dynamics; Jacobs, Merkurjev and Esedoglu, 2018), down to one of many minima. Which one depends on
the beginning and on how far heat spreads: a class whose only label lies between two clusters may begin in the wrong
one, and heat that spreads far no longer sees where two classes touch. So there are several beginnings, heat that
spreads far at first or does not, and what is taken is the settled assignment that cuts least.

All of these fill the quotas first and look for the clusters afterwards. Where answers have far too much of one class,
filling its neighbour's quota from it tears a cluster apart, and no round mends that. So answers may also settle with
the sizes that they have, and be filled when their borders are where clusters end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff.diffusion import Chebyshev
from condiff.diffusion.conjugate import Array, Codes, Product, solve_symmetric
from condiff.diffusion.stability import max_diagonal
from condiff.graph import Graph, Laplacian
from condiff.uncertainty.quota import assign

# How far heat spreads in a round, in steps at the positivity limit: far at first, to find the clusters, then nearer; in
# the end it moves the borders alone.
_FAR, _NEAR, _NEXT = 150, 30, 8
# Assignments are compared by the heat that leaves them within this: short, so that it is what they cut.
_SHORT = 1
# By how much less one that was filled late must cut: less than this is a matter of borders, not of clusters.
_CLEARLY = 0.01
# Rounds of each at most, and the share of points that may still change.
_ROUNDS, _FEW_CHANGES = 60, 2e-4
# Of what is spread from the labels so much comes back to them: in parts of the graph too that no label reaches.
_SPREAD = 1 - 1e-4


def settle(
    graph: Graph, starts: Sequence[Codes], free: NDArray[np.bool_], sizes: Codes, answers: Codes | None = None
) -> Codes:
    """The classes of all nodes, from the best of several beginnings.

    Parameters
    ----------
    graph
        Normalised and symmetric.
    starts
        Classes of all nodes that fill the quotas. Of several each is also tried with heat that spreads far at first.
    free
        The nodes whose class is sought; the others keep theirs.
    sizes
        How many of the free nodes every class gets.
    answers
        Classes of all nodes of whatever sizes, which settle by themselves before they are to fill the quotas.
    """
    operator = graph.laplacian(torch.float32)
    spreads = [(_NEAR, _NEXT)] if len(starts) == 1 else [(_NEAR, _NEXT), (_FAR, _NEAR, _NEXT)]
    found = [_rounds(operator, start, free, sizes, each) for each in spreads for start in starts]
    cuts = [energy(operator, codes, len(sizes)) for codes in found]
    best = int(np.argmin(cuts))
    if answers is not None:
        late = _filled_late(operator, answers, free, sizes)
        if energy(operator, late, len(sizes)) < (1 - _CLEARLY) * cuts[best]:
            return late
    return found[best]


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


def _rounds(operator: Laplacian, codes: Codes, free: NDArray[np.bool_], sizes: Codes, spreads: Sequence[int]) -> Codes:
    prices: Array | None = None
    for steps in spreads:
        for _ in range(_ROUNDS):
            scores = _heat(operator, np.eye(len(sizes))[codes], steps)[free]
            before, codes = codes, codes.copy()
            codes[free], prices = assign(scores, sizes, prices)
            if (before != codes).mean() < _FEW_CHANGES:
                break
    return codes


def _filled_late(operator: Laplacian, answers: Codes, free: NDArray[np.bool_], sizes: Codes) -> Codes:
    """Let answers settle with the sizes that they have, then with those that they are to have."""
    own = np.bincount(answers[free], minlength=len(sizes))
    codes = _rounds(operator, answers, free, own, (_NEAR,))
    codes[free] = assign(_heat(operator, np.eye(len(sizes))[codes], _NEAR)[free], sizes)[0]
    return _rounds(operator, codes, free, sizes, (_NEAR, _NEXT))


def _heat(operator: Laplacian, u: Array, steps: int) -> Array:
    time = steps / (max_diagonal(operator) or 1.0)
    with torch.no_grad():
        return np.asarray(Chebyshev(1e-4)(operator, torch.as_tensor(u, dtype=torch.float32), time, 1).double().numpy())
