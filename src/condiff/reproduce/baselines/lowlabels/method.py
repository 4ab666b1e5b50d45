"""The interface of methods for very few labels: a frozen dataclass of settings that names the class of every point."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from condiff import kernels
from condiff.diffusion.conjugate import Array, Codes
from condiff.errors import CondiffError
from condiff.reproduce.baselines.lowlabels.field import FieldGraph
from condiff.reproduce.baselines.method import Answers, Method, timed

_PRECISIONS: tuple[Literal["float32", "float64"], ...] = ("float32", "float64")


@dataclass(frozen=True, eq=False)
class LowLabelProblem:
    """Points, the graph that the field uses for them, and a few labels.

    Attributes
    ----------
    name
        Of the points; what is made of them is kept under it from draw to draw.
    points
        (points, features).
    graph
        The field's graph, which all draws share.
    known, labels
        The labelled points, and their class codes.
    sizes
        The true size of every class, for methods that are told these, and for no others.
    """

    name: str
    points: NDArray[np.float32]
    graph: FieldGraph
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

    #: How many problems on one graph are best solved at once.
    at_once: ClassVar[int] = 1

    @abstractmethod
    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        """The class of every point, for each of some problems on one graph: what each would get by itself."""

    def solve(self, problem: LowLabelProblem, seed: int) -> Answers:
        """Name every point's class; graphs that were made before do not count into the time."""
        return self.solve_batch([problem], [seed])[0]

    def solve_batch(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Answers]:
        """The same for several draws of the labels, which share the time evenly."""
        for precision in _PRECISIONS:
            kernels.warm_up(("diffusion", "conjugate", "plaplace"), precision)
        found = timed(lambda: np.asarray(self.codes_of(problems, seeds), np.int64))
        if found.answers.shape != (len(problems), len(problems[0].points)):
            raise CondiffError(
                f"{type(self).__name__} answered with the shape {found.answers.shape}: one code per problem and point"
            )
        return [Answers(codes, found.seconds / len(problems)) for codes in found.answers]
