"""The interface of few-shot methods: a frozen dataclass of settings that can solve one problem, or many."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from condiff import kernels
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.problem import FewShotProblem, Tasks
from condiff.reproduce.baselines.method import Method
from condiff.reproduce.runs import Condition


@dataclass(frozen=True, eq=False)
class Outcome:
    """A method's scores for the queries of a task, and what they cost.

    Parameters
    ----------
    scores
        (queries, ways), float32: the class of the highest is the answer.
    epochs
        Epochs or iterations that were run; 0 where a method has none.
    seconds
        The time that the task took; tasks that were solved together share theirs equally.
    """

    scores: Tensor
    epochs: int
    seconds: float


@dataclass(frozen=True)
class FewShotMethod(Method):
    """A method for few-shot tasks; settings may be recommended for a number of ``shots`` in the condition."""

    @abstractmethod
    def solve(self, problem: FewShotProblem, seed: int) -> Outcome:
        """Score the queries of a task; the same seed gives the same bytes."""

    def solve_batch(self, problems: Sequence[FewShotProblem], seeds: Sequence[int]) -> list[Outcome]:
        """Solve tasks, each as :meth:`solve` would; here, one after another."""
        return [self.solve(problem, seed) for problem, seed in zip(problems, seeds, strict=True)]


@dataclass(frozen=True)
class BatchedMethod(FewShotMethod):
    """A method that solves tasks of one shape together, because that is faster; they do not see each other."""

    #: How many tasks are solved at once: few enough to stay in the processor's cache.
    at_once: ClassVar[int] = 50
    #: The compiled loops it runs in, ready before the clock starts.
    loops: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        """(tasks, queries, ways): the class of the highest is the answer."""

    @property
    def iterations(self) -> int:
        """Epochs or iterations of a task."""
        return 0

    def solve(self, problem: FewShotProblem, seed: int) -> Outcome:
        return self.solve_batch([problem], [seed])[0]

    def solve_batch(self, problems: Sequence[FewShotProblem], seeds: Sequence[int]) -> list[Outcome]:
        if len(problems) != len(seeds):
            raise InvalidInputError(f"there are {len(problems)} tasks but {len(seeds)} seeds")
        kernels.warm_up(self.loops)
        outcomes: list[Outcome] = []
        for start in range(0, len(problems), self.at_once):
            part = slice(start, start + self.at_once)
            started = time.perf_counter()
            found = self.scores(Tasks.of(problems[part]), seeds[part]).float()
            seconds = (time.perf_counter() - started) / len(found)
            outcomes += [Outcome(scores, self.iterations, seconds) for scores in found]
        return outcomes


def shots_of(condition: Condition) -> int:
    """The number of labelled examples per class; 1 where the condition has none."""
    return int(condition.get("shots") or 1)
