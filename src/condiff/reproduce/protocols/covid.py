"""The paper's protocol for forecasting COVID-19 cases of which most are hidden, and its causal variant."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce import figures
from condiff.reproduce.datasets import covid as source
from condiff.reproduce.datasets.panel import Panel, split_in_time
from condiff.reproduce.protocol import Case, Job, Options, Protocol, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.reproduce.baselines.temporal.method import Outcome
    from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs, TemporalProblem

#: The paper's name for its table.
PUBLISHED = "england-90-missing"
#: The part of the cases that the paper hides.
RATE = 0.9
#: Parts to show an error against; past the last, some region would have fewer than two values left.
RATES = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95)
#: Masks, and initialisations per mask, in the paper.
MASKS = INITS = 10
# Methods whose forecasts are drawn: more lines could not be distinguished.
_FORECASTS = ("LastValue", "GCN", "COIN")
# The seed from which the paper's authors draw the seeds of their masks.
_SEED_OF_SEEDS = 42


# Masks among which a stored run's is looked for.
_MOST_MASKS = 2**14


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
    """A panel as a method sees it under a mask: the values that are left, and no target of a test snapshot."""
    from condiff.reproduce.baselines.temporal.problem import TemporalProblem

    masked = panel.hidden(rate, seed)
    targets = masked.windows(lags).targets
    train, validation, test = split_in_time(len(targets))
    targets[test] = np.nan
    return TemporalProblem(dataset, masked.values[:-1], targets, _graphs(panel, lags), lags, train, validation, test)


def truth(panel: Panel, *, lags: int = source.LAGS) -> NDArray[np.float64]:
    """The values that the test snapshots predict, (snapshots, regions), all of them known."""
    targets = panel.windows(lags).targets
    return targets[split_in_time(len(targets))[2]]


def fingerprint(panel: Panel) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over values and graphs; NaN counts as itself."""
    digest = hashlib.sha256(panel.values.astype("<f8").tobytes())
    for graph in panel.weights:
        for part, form in ((graph.indptr, "<i8"), (graph.indices, "<i8"), (graph.data, "<f8")):
            digest.update(part.astype(form).tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class CovidOptions(Options):
    """The options of ``condiff reproduce covid``."""

    splits: int = option(MASKS, "Masks of hidden entries; the first ten are the paper's.", low=1)
    inits: int = option(INITS, "Random initialisations of each mask, as many as in the paper.", low=1)
    missing: float = option(RATE, "The part of the cases that is hidden.", low=0.0, high=0.97)
    causal: bool = option(False, "Standardise by the training days alone.")


class Covid(Protocol):
    """Forecasts of COVID-19 cases of which most are hidden; a split is a mask.

    Its condition has the part that is ``missing``, and whether standardisation is ``causal``.
    """

    name = "covid"
    title = "COVID-19 in England"
    about = ABOUT["covid"]
    examples = (
        "condiff reproduce covid",
        "condiff reproduce covid --method all --missing 0.5",
        "condiff reproduce covid --method COIN,LastValue --causal --splits 3 --inits 2",
    )
    options = CovidOptions
    baselines = "condiff.reproduce.baselines.temporal"
    metrics = ("mse",)

    def cases(self, options: CovidOptions) -> list[tuple[Case, dict[int, None]]]:
        return [(case_of(options.missing, causal=options.causal), dict.fromkeys(mask_seeds(options.splits)))]

    def options_of(self, runs: Sequence[Run]) -> CovidOptions:
        condition, wanted, masks = runs[0].condition, {run.split for run in runs}, 1
        while not wanted <= set(mask_seeds(masks)) and masks < _MOST_MASKS:
            masks *= 2
        return CovidOptions(missing=condition.number("missing"), causal=bool(condition["causal"]), splits=masks)

    def identity(self, job: Job) -> str:
        return job.case.fingerprint  # the mask is a function of the panel, the rate and the seed

    def problem(self, case: Case, seed: int, split: None) -> TemporalProblem:
        panel = load(causal=bool(case.condition["causal"]))
        return problem(panel, case.condition.number("missing"), seed, dataset=case.dataset)

    def measure(self, job: Job, outcome: Outcome) -> dict[str, float]:
        # The truth is standardised as the inputs are.
        errors = outcome.predictions.double().numpy() - truth(load(causal=bool(job.case.condition["causal"])))
        return {"mse": float((errors**2).mean()), "mae": float(np.abs(errors).mean())}

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        parts = [dataset.capitalize()]
        if "missing" in condition:
            parts.append(f"{100 * condition.number('missing'):g} % missing")
        return (*parts, "causal") if condition.get("causal") else tuple(parts)

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return (PUBLISHED, None) if condition == {"missing": RATE, "causal": False} else None

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        first = [job for job in jobs if (job.seed, job.init) == (jobs[0].seed, 0) and job.name in _FORECASTS]
        papers = [row for row in rows if row.condition.get("missing") == RATE]
        found = {
            "forecasts.png": figures.draw_forecasts(forecasts(first or jobs[:1])),
            "intervals.png": figures.draw_intervals(papers or rows),
            "regions.png": figures.draw_regions(source.load()),
        }
        looking_ahead = [row for row in rows if not row.condition.get("causal")]
        if len({row.condition for row in looking_ahead}) > 2:
            found["missing.png"] = figures.draw_missing(looking_ahead)
        return found


def case_of(rate: float = RATE, *, causal: bool = False) -> Case:
    """The panel with this part hidden."""
    return Case("england", Condition(missing=float(rate), causal=causal), fingerprint(load(causal=causal)))


@dataclass(frozen=True, eq=False)
class Forecasts:
    """The methods' forecasts under one mask, in cases, for a picture.

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
        """The name of a region."""
        return f"region {region}" if self.names is None else self.names[region]


def forecasts(jobs: Sequence[Job]) -> Forecasts:
    """Run jobs of one mask, whose forecasts of several initialisations are averaged, and turn them into cases again."""
    first = jobs[0]
    if any((job.case, job.seed) != (first.case, first.seed) for job in jobs):
        raise InvalidInputError("forecasts to be shown together must be under one mask")
    rate, causal = first.case.condition.number("missing"), bool(first.case.condition["causal"])
    reported, panel = source.load(), load(causal=causal)
    mean, scale = _units(reported.values, panel.values)
    found: dict[str, list[NDArray[np.float64]]] = {}
    for job in jobs:
        found.setdefault(job.name, []).append(job.solve().predictions.double().numpy())
    cases = {name: np.mean(each, axis=0) * scale + mean for name, each in found.items()}
    known = ~np.isnan(panel.hidden(rate, first.seed).values)
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
    from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs

    return SnapshotGraphs(tuple(panel.weights[day] for day in panel.windows(lags).days))
