"""A piece of work that an engine and the reference both do, and how long each takes."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from condiff import kernels
from condiff.errors import StepSizeWarning
from condiff.reproduce.memory import peak_memory


@dataclass(frozen=True)
class Workload:
    """One fit, in two ways.

    Attributes
    ----------
    task
        Its name in the results.
    about
        In one line: what is fitted, and how the reference does it.
    epochs
        Epochs of the fit, as in the paper.
    reference, engine
        Train for that many epochs, with all that has to be made ready, and give the outputs.
    reference_fits, engine_fits
        How many fits one call makes, of which the first is compared.
    reference_epochs
        Two numbers of epochs from which the reference's time is extended to all, and after the larger of which outputs
        are compared; None to run it in full.
    published_gpu_seconds
        The paper's own time for one fit.
    """

    task: str
    about: str
    epochs: int
    reference: Callable[[int], Tensor]
    engine: Callable[[int], Tensor]
    reference_fits: int = 1
    engine_fits: int = 1
    reference_epochs: tuple[int, int] | None = None
    published_gpu_seconds: float | None = None


def measure(work: Workload, repeats: int = 3, report: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Warm up, then let the two take turns; seconds are for one fit, medians over the turns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)  # the paper's own strengths
        short, long = work.reference_epochs or (0, work.epochs)
        report(f"{work.task}: warming up")
        kernels.warm_up()
        with peak_memory() as peak:
            found = work.engine(long)
        difference = float((found - work.reference(long)).abs().max())
        engine, reference = [], []
        for turn in range(repeats):
            report(f"{work.task}: turn {turn + 1} of {repeats}")
            engine.append(_seconds(work.engine, work.epochs) / work.engine_fits)
            reference.append(_reference_seconds(work, short, long) / work.reference_fits)
    seconds = statistics.median(reference), statistics.median(engine)
    return {
        "task": work.task,
        "reference_seconds": seconds[0],
        "engine_seconds": seconds[1],
        "ratio": seconds[0] / seconds[1],
        "max_difference": difference,
        "peak_memory_mb": peak.megabytes,
        "published_gpu_seconds": work.published_gpu_seconds,
        "epochs": work.epochs,
        "reference_epochs": long,
        "repeats": repeats,
        "about": work.about,
    }


def _reference_seconds(work: Workload, short: int, long: int) -> float:
    """The time of a whole fit; where it would take minutes, a straight line through two shorter ones."""
    at_long = _seconds(work.reference, long)
    if long == work.epochs:
        return at_long
    at_short = _seconds(work.reference, short)
    slope = (at_long - at_short) / (long - short)
    return at_short + slope * (work.epochs - short)


def _seconds(run: Callable[[int], Tensor], epochs: int) -> float:
    started = time.perf_counter()
    run(epochs)
    return time.perf_counter() - started
