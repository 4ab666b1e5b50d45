"""Fit problems by the first engine that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from condiff.errors import InvalidInputError, did_you_mean
from condiff.training.descent import OnEpoch
from condiff.training.engine import Engine, Fitted
from condiff.training.engines import ENGINES
from condiff.training.problem import Problem


@overload
def fit(problems: Problem, engine: str = ..., *, on_epoch: OnEpoch | None = ..., verbose: bool = ...) -> Fitted: ...


@overload
def fit(
    problems: Sequence[Problem], engine: str = ..., *, on_epoch: OnEpoch | None = ..., verbose: bool = ...
) -> list[Fitted]: ...


def fit(
    problems: Problem | Sequence[Problem],
    engine: str = "auto",
    *,
    on_epoch: OnEpoch | None = None,
    verbose: bool = False,
) -> Fitted | list[Fitted]:
    """Fit the networks of one or several problems in place, by the fastest engine that gives the exact numbers.

    Parameters
    ----------
    problems
        One, or a batch: networks that share features and graph are then fitted side by side.
    engine
        ``auto``, or the name of one; ``reference`` fits everything, the others say what they cannot do.
    on_epoch
        Called with the epoch and the mean loss of the networks, for progress displays.
    verbose
        Print which engine fits, and why the others do not.

    Returns
    -------
    What the fit leaves behind, for each problem.
    """
    if isinstance(problems, Problem):
        return fit([problems], engine, on_epoch=on_epoch, verbose=verbose)[0]
    if not problems:
        raise InvalidInputError("there is no network to fit")
    chosen, reason, lines = _chosen(problems, engine)
    if engine == "auto" and chosen is ENGINES[-1] and len(problems) > 1:
        # No engine takes them side by side; one by one, each may still have a fast one.
        return [fit(problem, on_epoch=on_epoch, verbose=verbose) for problem in problems]
    if verbose:
        print("\n".join([f"[condiff] engine {chosen.name}: {reason}", *lines]))
    if not chosen.draws_weights:
        problems = [problem.with_weights() for problem in problems]
    fitted = chosen.fit(problems, on_epoch)
    for each in fitted:
        each.engine, each.reason = chosen.name, reason
    return fitted


def _chosen(problems: Sequence[Problem], engine: str) -> tuple[Engine, str, list[str]]:
    """An engine, why it is the one, and a line on each that was passed over."""
    if engine != "auto":
        names = [each.name for each in ENGINES]
        if engine not in names:
            hint = did_you_mean(engine, names)
            raise InvalidInputError(f"unknown engine {engine!r}{hint}: the engines are auto, {', '.join(names)}")
        asked = ENGINES[names.index(engine)]
        if (refusal := asked.refuses(problems)) is not None:
            raise InvalidInputError(f"the engine {engine} cannot fit this: {refusal}")
        return asked, "as asked", []
    lines: list[str] = []
    for each in ENGINES:
        refusal = each.refuses(problems) or each.declines(problems)
        if refusal is None:
            return each, each.reason(problems), lines
        lines.append(f"[condiff] not {each.name}: {refusal}")
    raise AssertionError("the reference refuses nothing")
