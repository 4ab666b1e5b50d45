"""What condiff raises and warns with, so that callers can tell our messages from everybody else's.

Every message is one line that says what is wrong, where, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# A message quotes names and cells, which may be of any length: what it says at its ends matters most.
_LONGEST, _END = 1000, 300


class CondiffError(Exception):
    """Anything that the user can fix; the command line prints it as one line and exits with 2."""

    def __str__(self) -> str:
        return shortened(super().__str__(), _LONGEST, _END)


class InvalidInputError(CondiffError, ValueError):
    """A value, table or graph that cannot be used as it is."""


class InvalidFileError(CondiffError, ValueError):
    """A file that is missing, truncated, edited, foreign or of another schema."""


class MissingDependencyError(CondiffError, ImportError):
    """An optional dependency is needed and not installed; the message names the extra."""


class DataUnavailableError(CondiffError, OSError):
    """A data file is neither on this machine nor to be had over the network."""


class WriteError(CondiffError, OSError):
    """A file that cannot be written: no room, no permission, a read-only disk. What was there before is still there."""


class FailedRunsError(CondiffError):
    """Some runs of a sweep failed; the others are stored."""


class StepSizeError(CondiffError, ValueError):
    """A diffusion strength past a certified limit, with ``strict=True``."""


class StepSizeWarning(UserWarning):
    """A diffusion strength past a certified limit."""


class CoverageWarning(UserWarning):
    """Fewer labels than a coverage needs: a lower one is promised and given."""


class ChanceWarning(UserWarning):
    """Held-out labels are answered no better than by a guess."""


class HomophilyWarning(UserWarning):
    """Neighbours of a given graph agree no more than by chance, and nothing was diffused along its edges."""


class UnlabelledComponentWarning(UserWarning):
    """Some points cannot be reached from any label through the graph."""


def shortened(text: str, longest: int, end: int = 0) -> str:
    """The text, or its beginning and its last ``end`` characters where it is longer than ``longest``."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - end - 5]} ... {text[len(text) - end :]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the nearest known name, or nothing."""
    folded = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return f" (did you mean {folded[near[0]]!r}?)" if near else ""
