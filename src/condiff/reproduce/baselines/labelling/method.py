"""The interface of methods that ask for labels, and of methods that doubt given ones."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from condiff import COINClassifier
from condiff.labelling.learner import Learner
from condiff.reproduce.baselines.method import Answers, Method, timed
from condiff.uncertainty.suggestions import Situation

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Labels per class at which a curve is measured, and between which it is averaged.
MULTIPLES = (1, 2, 3, 4, 5)


@dataclass(frozen=True, eq=False)
class AskingProblem:
    """Rows without labels, and somebody who knows them all.

    Attributes
    ----------
    learner
        What learns from the labels that were asked for; the same for all methods.
    truth
        The class of every node.
    """

    learner: Learner
    truth: Codes

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self.truth.max()) + 1


@dataclass(frozen=True, eq=False)
class DoubtProblem:
    """Rows of which some have a label, which may be wrong.

    Attributes
    ----------
    x, given
        All rows, and their class codes, -1 for unlabelled ones.
    """

    x: Any
    given: Codes

    @cached_property
    def model(self) -> COINClassifier:
        """The classifier, fitted once for all methods that read its answers."""
        return COINClassifier().fit(self.x, self.given)


@dataclass(frozen=True)
class LabellingMethod(Method):
    """A method of either kind."""

    asks: ClassVar[bool]

    @abstractmethod
    def solve(self, problem: Any, seed: int) -> Answers:
        """A curve of accuracies, or how far each given label is to be believed."""


@dataclass(frozen=True)
class Asking(LabellingMethod):
    """Asks for labels, a few at a time: as many as there are classes, then half as many again and again."""

    asks: ClassVar[bool] = True

    @abstractmethod
    def choose(self, problem: AskingProblem, situation: Situation, n: int) -> Codes:
        """Nodes to ask for next."""

    def solve(self, problem: AskingProblem, seed: int) -> Answers:
        """The accuracy over all nodes at each of ``MULTIPLES`` labels per class."""
        return timed(lambda: self._curve(problem, seed))

    def _curve(self, problem: AskingProblem, seed: int) -> Array:
        truth, classes, learner = problem.truth, problem.n_classes, problem.learner
        labelled, chances, curve = np.zeros(len(truth), bool), None, []
        for multiple in MULTIPLES:
            while (known := int(labelled.sum())) < multiple * classes:
                wanted = min(multiple * classes - known, classes if not known else max(classes // 2, 1))
                situation = Situation(learner.domain.graph, labelled, chances, seed=seed + known)
                labelled[self.choose(problem, situation, wanted)[:wanted]] = True
                nodes = np.flatnonzero(labelled)
                answers = learner.fit(nodes, truth[nodes], classes, judged=False)
                chances = None if answers is None else answers.chances
            only = truth[np.flatnonzero(labelled)[0]]
            right = truth == (only if chances is None else chances.argmax(axis=1))
            curve.append(float(right.mean()))
        return np.array(curve)


@dataclass(frozen=True)
class Doubting(LabellingMethod):
    """Says how far every given label is to be believed."""

    asks: ClassVar[bool] = False

    @abstractmethod
    def trust(self, problem: DoubtProblem) -> Array:
        """A number for every labelled row, in their order: the lower, the likelier its label is wrong."""

    def solve(self, problem: DoubtProblem, seed: int) -> Answers:
        """That, and the time that it took."""
        return timed(lambda: self.trust(problem))
