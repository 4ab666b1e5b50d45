"""How often neighbours agree, as far as labels are known: whether a diffusion along the edges can help."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Labelled edges below which their agreement says little.
_FEWEST = 20


@dataclass(frozen=True)
class Homophily:
    """How often neighbours agree, as far as labels are known.

    Attributes
    ----------
    edges
        Edges between two labelled nodes.
    agreeing
        The share of them whose ends have the same class; NaN without such edges.
    by_chance
        What that share would be if edges did not care about classes.
    """

    edges: int
    agreeing: float
    by_chance: float

    @property
    def adjusted(self) -> float:
        """0 where edges do not care about classes, 1 where they join none but equals; NaN where nothing is known."""
        return (self.agreeing - self.by_chance) / (1 - self.by_chance) if self.by_chance < 1 else float("nan")

    @property
    def is_absent(self) -> bool:
        """Whether enough edges are known, and they do not clearly join equals more often than by chance."""
        doubt = 2 * math.sqrt(self.by_chance * (1 - self.by_chance) / max(self.edges, 1))
        return self.edges >= _FEWEST and self.agreeing <= self.by_chance + doubt

    def __str__(self) -> str:
        if not self.edges:
            return "no edge joins two labelled nodes"
        return f"{self.agreeing:.0%} of {self.edges} labelled edges join equals ({self.by_chance:.0%} by chance)"


def homophily(weights: Any, labels: NDArray[np.int64], n_classes: int) -> Homophily:
    """Measure agreement along the edges of a sparse matrix of weights between nodes with labels; -1 marks none.

    >>> import scipy.sparse as sp
    >>> path = sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> print(homophily(path, np.array([0, 0, 1]), 2))
    50% of 2 labelled edges join equals (62% by chance)
    """
    rows, columns = sp.triu(weights, 1).nonzero()
    known = (labels[rows] >= 0) & (labels[columns] >= 0)
    ends = np.stack([labels[rows[known]], labels[columns[known]]])
    if not known.any():
        return Homophily(0, float("nan"), 0.0)
    shares = np.bincount(ends.ravel(), minlength=n_classes) / ends.size
    return Homophily(int(known.sum()), float((ends[0] == ends[1]).mean()), float((shares**2).sum()))
