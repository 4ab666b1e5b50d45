"""The paper's protocol for forecasting COVID-19 cases of which most are hidden, and its causal variant."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs, TemporalProblem
from condiff.reproduce.datasets import covid as source
from condiff.reproduce.datasets.panel import Panel, split_in_time
from condiff.reproduce.memory import peak_memory
from condiff.reproduce.runs import Run
from condiff.reproduce.store import Key

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: What the paper reports.
METRIC = "mse"
#: The part of the cases that the paper hides.
RATE = 0.9
#: Parts to show an error against; past the last, some region would have fewer than two values left.
RATES = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95)
#: Masks and initialisations a mask in the paper.
MASKS = INITS = 10
# The seed from which the paper's authors draw the seeds of their masks.
_SEED_OF_SEEDS = 42


def dataset_name(rate: float = RATE, *, causal: bool = False) -> str:
    """What runs are called that hide this part: ``england-90-missing`` is the paper's."""
    return f"england-{100 * rate:g}-missing{'-causal' if causal else ''}"


def mask_seeds(count: int = MASKS) -> list[int]:
    """Seeds of masks; the first ten are those of the paper's authors, so that the very same entries are hidden."""
    if count < 1:
        raise InvalidInputError(f"there must be at least 1 mask, not {count}")
    seeds: list[int] = np.random.RandomState(_SEED_OF_SEEDS).randint(0, 1_000_000, count).tolist()
    return seeds


@lru_cache(maxsize=2)
def load(*, causal: bool = False) -> Panel:
    """The England panel without holes, standardised by all days, or by the days of training if ``causal``.

    All days are what the paper takes, which looks ahead: mean and variance are also those of the days to be forecast.
    """
    panel = source.load()
    return panel.standardised(_training_days(panel) if causal else None)


def _training_days(panel: Panel) -> int:
    """How many days training snapshots see, as inputs or as targets."""
    return int(split_in_time(panel.n_days - source.LAGS)[0].stop) + source.LAGS


def problem(
    panel: Panel, rate: float, seed: int, *, dataset: str = "england", lags: int = source.LAGS
) -> TemporalProblem:
    """What a method may see of a panel under a mask: the values that are left, and no target of a test snapshot."""
    masked = panel.hidden(rate, seed)
    targets = masked.windows(lags).targets
    train, validation, test = split_in_time(len(targets))
    targets[test] = np.nan
    return TemporalProblem(dataset, masked.values[:-1], targets, _graphs(panel, lags), lags, train, validation, test)


def truth(panel: Panel, *, lags: int = source.LAGS) -> NDArray[np.float64]:
    """The values that the test snapshots ask for, (snapshots, regions), all of them known."""
    targets = panel.windows(lags).targets
    return targets[split_in_time(len(targets))[2]]


def fingerprint(panel: Panel) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over values and graphs; NaN counts as itself."""
    digest = hashlib.sha256(panel.values.astype("<f8").tobytes())
    for graph in panel.weights:
        for part, form in ((graph.indptr, "<i8"), (graph.indices, "<i8"), (graph.data, "<f8")):
            digest.update(part.astype(form).tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class CovidJob:
    """One method under one mask from one initialisation."""

    name: str
    method: TemporalMethod
    rate: float
    causal: bool
    seed: int
    init: int
    fingerprint: str

    @property
    def key(self) -> Key:
        """What the run is known by; the mask is a function of the panel, the rate and the seed."""
        dataset = dataset_name(self.rate, causal=self.causal)
        settings = self.method.settings()
        return Key("covid", dataset, self.name, settings, self.seed, self.init, self.fingerprint)

    def solve(self) -> Outcome:
        """Train and forecast; the same job gives the same forecasts wherever it runs."""
        # One seed for each pair, far from those of neighbouring pairs.
        seed = int(np.random.SeedSequence([self.seed, self.init]).generate_state(1)[0])
        return self.method.solve(_latest_problem(self.rate, self.seed, self.causal), seed)

    def run(self) -> Run:
        """Train, forecast and compare with the truth, which is standardised as the inputs are."""
        with peak_memory() as peak:
            outcome = self.solve()
        errors = outcome.predictions.double().numpy() - truth(load(causal=self.causal))
        metrics = {METRIC: float((errors**2).mean()), "mae": float(np.abs(errors).mean())}
        return self.key.run(metrics, epochs=outcome.epochs, seconds=outcome.seconds, memory_mb=peak.megabytes)


def jobs(
    methods: dict[str, TemporalMethod],
    masks: Sequence[int] | None = None,
    inits: int = INITS,
    *,
    rate: float = RATE,
    causal: bool = False,
) -> list[CovidJob]:
    """Every method under every mask from every initialisation, mask by mask, so that all methods advance together.

    Parameters
    ----------
    methods
        By the names under which their runs are kept.
    masks
        Seeds; the paper's ten by default.
    inits
        Initialisations of each.
    rate
        The part of the cases to hide.
    causal
        Whether to standardise by the days of training alone.
    """
    known = fingerprint(load(causal=causal))
    return [
        CovidJob(name, method, rate, causal, seed, init, known)
        for seed in (mask_seeds() if masks is None else masks)
        for name, method in methods.items()
        for init in range(inits)
    ]


@dataclass(frozen=True, eq=False)
class Forecasts:
    """What methods forecast under one mask, in cases, for a picture.

    Attributes
    ----------
    values
        (days, regions), all of them.
    known
        (days, regions): which of them the mask left.
    forecasts
        By method, (test days, regions).
    train_days
        The number of days that training sees, as inputs or as targets.
    names
        What the regions are called, or None where they have only numbers.
    """

    values: NDArray[np.float64]
    known: NDArray[np.bool_]
    forecasts: dict[str, NDArray[np.float64]]
    train_days: int
    names: tuple[str, ...] | None = None

    @property
    def test_days(self) -> NDArray[np.int64]:
        """The days that were forecast: the last ones."""
        count = len(next(iter(self.forecasts.values())))
        return np.arange(len(self.values) - count, len(self.values))

    def name_of(self, region: int) -> str:
        """What a region is called."""
        return f"region {region}" if self.names is None else self.names[region]


def forecasts(jobs: Sequence[CovidJob]) -> Forecasts:
    """Run jobs of one mask, whose forecasts of several initialisations are averaged, and turn them into cases again."""
    first = jobs[0]
    if any((job.rate, job.causal, job.seed) != (first.rate, first.causal, first.seed) for job in jobs):
        raise InvalidInputError("forecasts to be shown together must be under one mask")
    reported, panel = source.load(), load(causal=first.causal)
    mean, scale = _units(reported.values, panel.values)
    found: dict[str, list[NDArray[np.float64]]] = {}
    for job in jobs:
        found.setdefault(job.name, []).append(job.solve().predictions.double().numpy())
    cases = {name: np.mean(each, axis=0) * scale + mean for name, each in found.items()}
    known = ~np.isnan(panel.hidden(first.rate, first.seed).values)
    return Forecasts(reported.values, known, cases, _training_days(panel), reported.names)


def _units(reported: NDArray[np.float64], standardised: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Mean and scale by which each region was standardised, from its smallest and largest value."""
    days = np.stack([reported.argmin(axis=0), reported.argmax(axis=0)])
    (low, high), (below, above) = (np.take_along_axis(values, days, axis=0) for values in (reported, standardised))
    scale = (high - low) / (above - below)
    return low - scale * below, scale


@lru_cache(maxsize=2)
def _graphs(panel: Panel, lags: int) -> SnapshotGraphs:
    """The same object for all masks: what methods derive from the graphs is kept in it."""
    return SnapshotGraphs(tuple(panel.weights[day] for day in panel.windows(lags).days))


@lru_cache(maxsize=1)
def _latest_problem(rate: float, seed: int, causal: bool) -> TemporalProblem:
    # Initialisations of one mask come one after another.
    dataset = dataset_name(rate, causal=causal)
    return problem(load(causal=causal), rate, seed, dataset=dataset)
