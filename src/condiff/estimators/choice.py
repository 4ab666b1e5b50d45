"""What a fit decided by itself, in one line: which base, whether and how far it is diffused, and over which graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Joined = Literal["none", "near", "given", "leaves", "answers", "mixed"]
#: The bases in words.
BLEND, NETWORK = "trees, linear models and a Gaussian process", "residual network"
LINEAR, LINEAR_OF_EDGES = "linear models of the columns and of neighbours' means", "linear models of the edges"
_WHERE: dict[Joined, str] = {
    "none": "no graph",
    "near": "nearest neighbours",
    "given": "the given graph",
    "leaves": "shared leaves",
    "answers": "alike answers",
    "mixed": "mixed graphs",
}


@dataclass(frozen=True)
class Candidate:
    """One way to diffuse, and how a rehearsal judged it.

    Attributes
    ----------
    graph, layers
        Over which graph, and how many half steps.
    gain
        Mean gain over no diffusion, in points of accuracy, or of explained variance, in percent.
    error
        Its standard error.
    """

    graph: Joined = "none"
    layers: int = 0
    gain: float = 0.0
    error: float = 0.0

    @property
    def worth(self) -> float:
        """The gain less its standard error."""
        return self.gain - self.error

    def __str__(self) -> str:
        if not self.layers:
            return "no diffusion"
        judged = f" ({_points(self.gain)} ± {self.error:.1f} points in rehearsal)" if self.error else ""
        return f"{self.layers} layers over {_WHERE[self.graph]}{judged}"


@dataclass(frozen=True)
class Choice:
    """What a fit decided by itself; its text is one line.

    Attributes
    ----------
    base
        What answers before the diffusion, in words.
    why
        The reason for this base, or nothing where it was asked for.
    candidates
        The diffusions that a rehearsal compared, none first; empty where there was no rehearsal.
    chosen
        The one that was taken.
    """

    base: str
    chosen: Candidate
    why: str = ""
    candidates: tuple[Candidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Choice:
        """The inverse of :meth:`to_dict`."""
        candidates = tuple(Candidate(**each) for each in state["candidates"])
        return cls(state["base"], Candidate(**state["chosen"]), state["why"], candidates)

    def __str__(self) -> str:
        others: dict[str, list[Candidate]] = {}
        for each in self.candidates:
            if each.layers and each != self.chosen:
                others.setdefault(_WHERE[each.graph], []).append(each)
        compared = [
            f"{_listed(str(each.layers) for each in same)} layers over {where} "
            f"({_listed(_points(each.gain) for each in same)})"
            for where, same in others.items()
        ]
        beside = f"; also rehearsed: {', '.join(compared)}" * bool(compared)
        return f"{self.base}{f' ({self.why})' * bool(self.why)}, {self.chosen}{beside}"


def _points(gain: float) -> str:
    return f"{round(gain, 1) + 0.0:+.1f}"  # no negative zero


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
