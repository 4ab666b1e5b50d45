"""What a fit did, as data: what explanations, prediction sets and reports are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Held-out points from which on their score says something; fewer are enough for what a prediction set can promise.
FEWEST_SCORED = 10


def can_score(nodes: NDArray[np.int64]) -> bool:
    """Whether answers at these held-out points say how good others are: to score, to calibrate and to decide by."""
    return len(np.unique(nodes)) >= FEWEST_SCORED


@dataclass(frozen=True, eq=False)
class FitRecord:
    """What a fit saw and what it answered at every node of its graph.

    Attributes
    ----------
    node_of_row
        The node of every training row; equal rows share one, and -1 is a row that was left out.
    base
        The base's output at every node, ``u(x, T-1)``, (nodes, outputs).
    output
        The output after the diffusion, ``u(x, T)``.
    reached
        Nodes that some label reaches through the graph; the others keep the base's output.
    nodes, targets
        Node and target of every labelled item: a class code, or values on the scale of the output.
    weights
        How much each of them counts.
    held_out
        The items that folds held out, in the order of ``answers``.
    answers
        What was answered for them without their labels, (held-out items, outputs).
    fold
        The fold that each of them was held out by; None in models of before.
    fold_outputs
        What was answered at every node without each fold, (folds, nodes, outputs); None where that was not worth its
        memory or its time.
    label_nodes, label_targets
        Node and target of every labelled row by itself, where items join those of equal rows: what a prediction set has
        to hold is a row's own label, not the mean or the most frequent of several. Of chances it is the most probable
        class; None in models of before.
    """

    node_of_row: NDArray[np.int64]
    base: Array
    output: Array
    reached: NDArray[np.bool_]
    nodes: NDArray[np.int64]
    targets: NDArray[Any]
    weights: Array
    held_out: NDArray[np.int64]
    answers: Array
    fold: NDArray[np.int64] | None = None
    fold_outputs: NDArray[np.float32] | None = None
    label_nodes: NDArray[np.int64] | None = None
    label_targets: NDArray[Any] | None = None

    @property
    def is_scored(self) -> bool:
        """Whether enough labels were held out to say how good answers are."""
        return can_score(self.nodes[self.held_out])
