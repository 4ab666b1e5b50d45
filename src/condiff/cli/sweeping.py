"""How a sweep shows its progress: running mean and time left, in a live bar on a terminal, in plain lines elsewhere."""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from condiff.reproduce.metrics import METRICS
from condiff.reproduce.rows import dataset_title
from condiff.reproduce.runner import Progress
from condiff.reproduce.runs import Run

_SECONDS_BETWEEN_LINES = 30.0


def follow(sweep: Iterable[Progress], total: int, metrics: Sequence[str]) -> None:
    """Run a sweep to its end, with progress on standard error: of each run the first of these metrics that it has."""
    state = _State(metrics, total)
    if not sys.stderr.isatty():
        for progress in sweep:
            state.add(progress)
            if state.line_is_due():
                print(state.text(), file=sys.stderr, flush=True)
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)
        for progress in sweep:
            state.add(progress)
            bar.update(task, completed=progress.done, description=state.text(short=True))


class _State:
    def __init__(self, metrics: Sequence[str], total: int) -> None:
        self.metrics, self.total = metrics, total
        self.runs: list[Run] = []
        self.held = 0
        self._values: dict[tuple[object, ...], list[float]] = defaultdict(list)
        self._started = self._shown = time.perf_counter()
        self._step = max(1, total // 20)

    def add(self, progress: Progress) -> None:
        run = progress.run
        self.runs.append(run)
        self.held = progress.held
        self._values[run.dataset, run.condition, run.method].append(run.metrics[self._metric(run)])

    def _metric(self, run: Run) -> str:
        return next(name for name in self.metrics if name in run.metrics)

    def line_is_due(self) -> bool:
        """About twenty lines, and one at least every half minute; none for runs that were already stored."""
        done = len(self.runs)
        if done < self.held or (done == self.held and self.held < self.total):
            return False
        if done % self._step and done != self.total and time.perf_counter() - self._shown < _SECONDS_BETWEEN_LINES:
            return False
        self._shown = time.perf_counter()
        return True

    def text(self, *, short: bool = False) -> str:
        run = self.runs[-1]
        values = self._values[run.dataset, run.condition, run.method]
        mean = f"{statistics.fmean(values):.{METRICS[self._metric(run)].decimals + 1}f}"
        title = dataset_title(run.task, run.dataset, run.condition)
        running = f"{title}: {run.method} {mean} over {len(values)}"
        left = self._left()
        if short:
            return f"{running}{left}"
        held = f" ({self.held} already stored)" if self.held else ""
        return f"{len(self.runs)} of {self.total} runs{held}; {running}{left}"

    def _left(self) -> str:
        made = len(self.runs) - self.held
        missing = self.total - len(self.runs)
        if made < 1 or not missing:
            return ""
        seconds = (time.perf_counter() - self._started) / made * missing
        return f", about {_duration(seconds)} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
