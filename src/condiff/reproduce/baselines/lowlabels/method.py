"""The interface of methods for very few labels: a frozen dataclass of settings that names the class of every point."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import CondiffError
from condiff.reproduce.baselines.method import Answers, Method, timed

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LowLabelProblem:
    """Points, the graph that the field uses for them, and a few labels.

    Attributes
    ----------
    name
        Of the points; what is made of them is kept under it from draw to draw.
    points
        (points, features).
    weights
        Symmetric weights of the graph, with an empty diagonal.
    known, labels
        The labelled points, and their class codes.
    sizes
        The true size of every class, for methods that are told these, and for no others.
    """

    name: str
    points: NDArray[np.float32]
    weights: sp.csr_array
    known: Codes
    labels: Codes
    sizes: Codes

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.sizes)

    @property
    def indicators(self) -> Array:
        """The labels as rows of zeros and a one."""
        return np.asarray(np.eye(self.n_classes)[self.labels])


@dataclass(frozen=True)
class LowLabelMethod(Method):
    """A method for very few labels."""

    #: Whether it is told the sizes of the classes.
    knows_sizes: ClassVar[bool] = False

    @abstractmethod
    def codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        """The class of every point."""

    def solve(self, problem: LowLabelProblem, seed: int) -> Answers:
        """Name every point's class; graphs that were made before do not count into the time."""
        found = timed(lambda: np.asarray(self.codes(problem, seed), np.int64))
        if found.answers.shape != (len(problem.points),):
            raise CondiffError(
                f"{type(self).__name__} answered with the shape {found.answers.shape}: one code per point"
            )
        return found
