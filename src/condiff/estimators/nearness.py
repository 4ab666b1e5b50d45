"""What labels say of an embedding by themselves: how near a row is to those of each class.

A network that is trained through the diffusion answers for clusters. A class with fewer rows than a row is joined to
has none of its own, and its neighbours talk it over. Its labelled rows are near all the same: answers are multiplied by
``exp(weight * cosine)``, the cosine being that between a row and the mean of a class's labelled rows. Where one row of
a thousand has a label, that one says little of the others, and where one of ten has, much: the weight grows with the
share of labelled rows, up to a limit.

Where no class has a second label, nothing shows how far a class reaches but the graph. A network that is to find equal
classes there takes from large ones what small ones seem to lack; the labels by themselves, spread over the graph, keep
them apart better. So where classes come out unequal, what is spread from the labels is multiplied too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.encoders.embedding import on_sphere
from condiff.estimators.inputs import Items, slices
from condiff.graph.graph import Graph

Array = NDArray[np.float64]

# The weight of a cosine: so much for each share of labelled rows, and so much at most.
_PER_SHARE, _MOST = 80.0, 4.0
# The weight of what is spread from single labels, for each of its standard deviations; and how unequal the answered
# classes must be for it: the standard deviation of their sizes, by the mean size.
_SINGLE, _UNEQUAL = 0.5, 0.4


def label_directions(points: Any, items: Items, n_classes: int, used: NDArray[np.bool_] | None = None) -> Array:
    """The mean direction of each class's labelled rows, (classes, columns), as long as it counts.

    Parameters
    ----------
    points, items
        The nodes' rows and the labels.
    n_classes
        How many; one without a label has a direction of zeros.
    used
        Which items are known, all by default.
    """
    means = np.zeros((n_classes, points.shape[1]))
    weights = items.weights if used is None else items.weights * used
    np.add.at(means, items.targets, weights[:, None] * points[items.nodes])
    weight = min(_MOST, _PER_SHARE * items.n_labelled / points.shape[0])
    return np.asarray(weight * on_sphere(means))


def spread_labels(graph: Graph, items: Items, outputs: Array) -> Array | None:
    """What labels say through the graph, (nodes, classes), as much as it counts.

    None if a class has a second label, or if the classes that outputs answer are about equal.
    """
    sizes = np.bincount(outputs.argmax(axis=1), minlength=outputs.shape[1])
    if np.bincount(items.targets).max() > 1 or sizes.std() <= _UNEQUAL * sizes.mean():
        return None
    from condiff.uncertainty.volumes import from_labels

    found = from_labels(graph, items.nodes, items.targets, outputs.shape[1])
    found -= found.mean(axis=0)
    return np.asarray(_SINGLE / max(float(found.std()), 1e-300) * found)


def beside_labels(outputs: Array, rows: Any, directions: Array, spread: Array | None = None) -> Array:
    """Outputs times what the labels say of their rows: by themselves, and spread over the graph."""
    found = np.empty_like(outputs)
    for here in slices(len(outputs)):
        scores = on_sphere(rows[here]) @ directions.T
        scores = scores if spread is None else scores + spread[here]
        product = outputs[here] * np.exp(scores - scores.max(axis=1, keepdims=True))
        found[here] = product / np.maximum(product.sum(axis=1, keepdims=True), 1e-300)
    return found
