"""The full model, when a person is done: a classifier as ``condiff fit`` makes it, from every label that there is.

The model that follows on the page is a light one. The full one decides more by itself, can be saved and asked later,
and takes longer: so it is fitted when it is asked for, beside everything else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from condiff.errors import CondiffError
from condiff.labelling.journal import Journal
from condiff.labelling.rows import Labels, Rows
from condiff.labelling.score import Score


@dataclass(frozen=True)
class FullModel:
    """A model that was fitted and written.

    Attributes
    ----------
    labels
        How many labels it learned from.
    folder
        Where it is.
    use
        The command that answers rows with it.
    fair, every
        Its scores over held-out labels of rows that are a fair sample, and over all held-out labels; None where there
        are too few.
    seconds
        How long it took.
    """

    labels: int
    folder: str
    use: str
    fair: Score | None
    every: Score | None
    seconds: float

    @property
    def score(self) -> str:
        """How good it is, in words."""
        if self.every is None:
            return "too few labels to hold some out; at least ten are needed"
        shares = [f"{100 * each.right / each.of:.0f} %" for each in (self.fair, self.every) if each is not None]
        if self.fair is None:
            return (
                f"right on {shares[-1]} of {self.every.of} held-out labels, which were asked for because they are hard"
            )
        chance = f"95 % interval {100 * self.fair.low:.0f} to {100 * self.fair.high:.0f} %"
        if self.fair == self.every:
            return f"right on {shares[0]} of {self.fair.of} held-out labels ({chance})"
        rest = f"{shares[1]} of all {self.every.of}, among them those asked for because they are hard"
        return f"right on {shares[0]} of {self.fair.of} held-out labels of rows drawn at random ({chance}); {rest}"


class FullFit:
    """Fits the full model when it is asked for, one at a time, and knows what came of it.

    Parameters
    ----------
    journal, rows
        What was said, and of what.
    fit
        Fits a model on labels and writes it.
    """

    def __init__(self, journal: Journal, rows: Rows, fit: Callable[[Labels], FullModel]) -> None:
        self._journal, self._rows, self._fit = journal, rows, fit
        self._turn, self._since, self._busy, self._of = threading.Lock(), 0.0, False, -1
        #: The last one that was fitted, and what went wrong since.
        self.found: FullModel | None = None
        self.problem = ""

    @property
    def current(self) -> bool:
        """Whether nothing was said since the last one."""
        return self._of == len(self._journal.decisions)

    def run(self) -> FullModel:
        """Fit now, unless nothing was said since the last time; a fit that is under way is waited for."""
        with self._turn:
            self._busy, self._since, self.problem = True, time.perf_counter(), ""
            try:
                if self.found is None or not self.current:
                    count = len(self._journal.decisions)
                    self.found = self._fit(self._rows.labels(self._journal))
                    self._of = count
                return self.found
            finally:
                self._busy = False

    def start(self, told: Callable[[FullModel], Any] = lambda _: None) -> None:
        """Fit in the background, unless that is under way; ``told`` hears of the result."""

        def attempt() -> None:
            try:
                told(self.run())
            except Exception as error:  # the page says what went wrong, and labels are safe on disk
                said = isinstance(error, CondiffError)
                self.problem = str(error) if said else f"{type(error).__name__}: {error}"

        if not self._turn.locked():
            self._busy, self._since = True, time.perf_counter()
            threading.Thread(target=attempt, name="condiff-full-fit", daemon=True).start()

    def state(self) -> dict[str, Any]:
        """What the page shows of it."""
        found = self.found
        return {
            "busy": self._busy,
            "seconds": round(time.perf_counter() - self._since) if self._busy else 0,
            "problem": self.problem,
            "found": None if found is None else {**asdict(found), "score": found.score, "current": self.current},
        }
