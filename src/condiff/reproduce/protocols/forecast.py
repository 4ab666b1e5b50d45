"""Forecasts of panels with holes, and filled holes: condiff beside what forecasters use."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.reproduce.datasets.ordinary_tables import seed_of
from condiff.reproduce.datasets.series_panels import PANELS, load_panel, missing_package
from condiff.reproduce.protocol import Case, Job, Options, Protocol, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.runs import Condition, Run

if TYPE_CHECKING:
    from condiff.reproduce.baselines.forecast.methods import Outcome, SeriesMethod, SeriesProblem

Array = NDArray[np.float64]

TASKS = ("forecast", "impute")
#: The longest horizon. Origins leave room for it, so that shorter ones are measured from the same origins.
LONGEST = 14


def longest(steps: int) -> int:
    """The longest horizon of a panel of so many steps: at most a quarter of them."""
    return min(LONGEST, steps // 4)


def origins(steps: int, count: int) -> list[int]:
    """Where windows begin, the last first: a longest horizon apart, half of one in short panels."""
    reach = longest(steps)
    apart = reach if steps >= 8 * reach else max(reach // 2, 1)
    found = [steps - reach - apart * back for back in range(count)]
    return [origin for origin in found if origin > reach // 2]


@dataclass(frozen=True)
class Window:
    """A panel until an origin, some of it hidden."""

    origin: int
    seed: int

    @property
    def hash(self) -> str:
        """Under which runs are stored."""
        return hashlib.sha256(f"{self.origin}/{self.seed}".encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class ForecastOptions(Options):
    """The options of ``condiff bench forecast``."""

    method: str = option("all", "Methods, separated by commas; 'all' for every one.", metavar="A,B|all")
    panels: str = option("", f"Panels, separated by commas; by default {', '.join(PANELS)}.", metavar="A,B")
    task: str = option("all", "What comes, what is missing, or both.", metavar="forecast|impute|all")
    rates: str = option("0,0.3,0.5,0.7,0.9", "Shares of the values to hide.", metavar="R,R")
    horizon: str = option("1,7,14", "Steps to forecast, separated by commas.", metavar="N,N")
    windows: int = option(5, "Origins, from the end of the panel back.", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task not in (*TASKS, "all"):
            raise InvalidInputError(f"--task must be forecast, impute or all, not {self.task!r}")
        _ = self.hidden, self.chosen, self.horizons

    @property
    def hidden(self) -> list[float]:
        """The shares of the values to hide."""
        try:
            found = [float(part) for part in self.rates.split(",")]
        except ValueError:
            found = [-1.0]
        if not all(0 <= rate < 1 for rate in found):
            raise InvalidInputError(f"--rates are numbers from 0 to below 1, separated by commas, not {self.rates!r}")
        return found

    @property
    def horizons(self) -> list[int]:
        """The numbers of steps to forecast."""
        parts = [part.strip() for part in self.horizon.split(",")]
        if not all(part.isdecimal() and 1 <= int(part) <= LONGEST for part in parts):
            raise InvalidInputError(
                f"--horizon is numbers from 1 to {LONGEST}, separated by commas, not {self.horizon!r}"
            )
        return [int(part) for part in parts]

    @property
    def chosen(self) -> list[str]:
        """The panels to measure: those named, or all that can be read here."""
        if not self.panels:
            return [name for name in PANELS if not missing_package(name)]
        names = [name.strip() for name in self.panels.split(",")]
        for name in names:
            load_panel(name)
        return names


class Forecast(Protocol):
    """Panels, hidden at random, forecast from the last origins; or filled. The condition has task, rate and horizon."""

    name = "forecast"
    title = "Forecasts"
    about = ABOUT["forecast"]
    examples = (
        "condiff bench forecast --out results/forecast",
        "condiff bench forecast --panels england,macro --rates 0,0.5 --method COIN,AutoETS,'last value'",
        "condiff bench forecast --task impute --windows 1",
    )
    options = ForecastOptions
    baselines = "condiff.reproduce.baselines.forecast"
    metrics = ("mase", "pinball", "coverage_80", "coverage_95", "seconds")
    on_screen = ("mase", "pinball", "coverage_80", "coverage_95")
    watches_memory = False

    def cases(self, options: ForecastOptions) -> list[tuple[Case, dict[int, Window]]]:
        found = []
        for name in options.chosen:
            panel = load_panel(name)
            steps = len(panel.values)
            windows = {seed: Window(o, seed) for seed, o in enumerate(origins(steps, options.windows))}
            conditions = [
                Condition(task="forecast", hidden=rate, horizon=horizon)
                for rate in options.hidden
                for horizon in sorted({min(each, longest(steps)) for each in options.horizons})
                if options.task != "impute"
            ]
            conditions += [
                Condition(task="impute", hidden=rate, horizon=0)
                for rate in options.hidden
                if options.task != "forecast" and rate > 0
            ]
            found += [(Case(name, condition, panel.fingerprint), windows) for condition in conditions]
        return found

    def options_of(self, runs: Sequence[Run]) -> ForecastOptions:
        condition = runs[0].condition
        return ForecastOptions(
            panels=runs[0].dataset,
            task=str(condition["task"]),
            rates=str(condition["hidden"]),
            horizon=str(condition["horizon"] or 1),
            windows=1 + max(run.split for run in runs),
        )

    def jobs(self, options: ForecastOptions) -> list[Job]:
        """Window by window: what is there after a while is over all panels."""
        return sorted(super().jobs(options), key=lambda job: job.seed)

    def methods(self, case: Case, options: ForecastOptions) -> Mapping[str, SeriesMethod]:
        from condiff.reproduce.baselines.forecast import REGISTRY

        found = REGISTRY.chosen(options.method, case.dataset, options.changes, case.condition)
        graph = PANELS[case.dataset].has_graph
        return {
            name: method
            for name, method in found.items()
            if method.task == case.condition["task"] and not method.missing() and (graph or not method.needs_graph)
        }

    def notes(self, options: ForecastOptions) -> list[str]:
        from condiff.reproduce.baselines.forecast import METHODS, REGISTRY

        missing = {name: REGISTRY.get(name).missing() for name in METHODS}
        lacking = {name: why for name, why in missing.items() if why}
        if options.method.strip().lower() == "all":
            left = [f"{name} is left out: {missing_package(name)}" for name in PANELS if missing_package(name)]
            return [f"{name} is left out: {why}" for name, why in lacking.items()] + left * (not options.panels)
        for name in options.method.split(","):
            proper = REGISTRY.named(name.strip())[0]
            if proper in lacking:
                raise MissingDependencyError(f"{proper} cannot run: {lacking[proper]}")
        return []

    def problem(self, case: Case, seed: int, split: Window) -> SeriesProblem:
        from condiff.reproduce.baselines.forecast.methods import SeriesProblem

        panel = load_panel(case.dataset)
        graphs = None if panel.graphs is None else panel.graphs[: split.origin]
        horizon = int(case.condition.number("horizon"))
        return SeriesProblem(hidden_values(case, split), graphs, panel.season, horizon)

    def measure(self, job: Job, outcome: Outcome) -> dict[str, float]:
        from condiff.reproduce.baselines.forecast.methods import QUANTILES

        panel, origin = load_panel(job.case.dataset), job.split.origin
        past = panel.values[:origin]
        scale = np.abs(np.diff(past, axis=0)).mean(axis=0)
        varied = scale > 0
        if job.case.condition["task"] == "forecast":
            truth = panel.values[origin : origin + len(outcome.middle)]
            judged = np.ones(truth.shape, bool)
        else:
            truth, judged = past, np.isnan(hidden_values(job.case, job.split))
        judged = judged & varied & np.isfinite(truth)
        unit = np.where(varied, scale, 1.0)
        errors = np.where(judged, np.abs(outcome.middle - truth) / unit, np.nan)
        found = {"mase": float(np.nanmean(errors))}
        if outcome.quantiles is not None:
            gaps = (truth - outcome.quantiles) / unit
            chances = np.array(QUANTILES)[:, None, None]
            found["pinball"] = float(np.maximum(chances * gaps, (chances - 1) * gaps)[:, judged].mean())
            ends = dict(zip(QUANTILES, outcome.quantiles, strict=True))
            for name, low, high in (("coverage_80", 0.1, 0.9), ("coverage_95", 0.025, 0.975)):
                held = (ends[low] <= truth) & (truth <= ends[high])
                found[name] = 100 * float(held[judged].mean())
        return {name: round(value, 5) for name, value in found.items()}

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        what = f"{condition['horizon']} steps ahead" if condition["task"] == "forecast" else "holes filled"
        return (dataset, what, f"{100 * condition.number('hidden'):.0f} % hidden")

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        return {"README.md": readme(runs)}


def hidden_values(case: Case, window: Window) -> Array:
    """The panel until the origin, some of its values hidden: the same for all methods; each series keeps two."""
    values, rate = load_panel(case.dataset).values[: window.origin], case.condition.number("hidden")
    generator = np.random.default_rng(seed_of(case.dataset, f"{rate}", window.seed))
    hide = generator.random(values.shape) < rate
    order = generator.random(values.shape).argsort(axis=0)[:2]
    np.put_along_axis(hide, order, False, axis=0)
    return np.where(hide, np.nan, values)


# ---- what results/forecast/README.md says ---------------------------------------------------------------------------

_OWN, _SIMPLE = "COIN", ("last value", "seasonal naive")
# Ours among forecasts and among fillings: where they are shown, what they have not been run on is not.
_OURS = {_OWN, "fill"}
# Standard errors of a difference over windows, from which on it is not put down to chance.
_CLEAR = 2.0
# Too slow for every panel and window, or for some panels alone. They have tables of their own, beside ours on what they
# were run on, so that the other tables need not be cut to that.
_APART = {
    "AutoARIMA": ("AutoARIMA",),
    "the paper's temporal networks": ("DCRNN", "MPNN-LSTM", "GConvGRU", "A3TGCN", "EvolveGCN"),
    "learned imputers": ("SAITS", "BRITS"),
}

#: Panel, share hidden and horizon (0 where holes are filled).
Cell = tuple[str, float, int]


def readme(runs: Sequence[Run]) -> str:
    """Means over windows for every panel, rate and horizon, means over panels, and what was aimed at."""
    windows = 1 + max((run.split for run in runs), default=0)
    lines = [
        "# Forecasts of panels with holes",
        "",
        "Made by `condiff bench forecast --out results/forecast`. Errors are in units of the mean step of each series",
        f"(MASE), means over up to {windows} windows that all methods of a line have; the pinball loss is over seven",
        "quantiles. The least of a line is bold, and of coverages the nearest. The forecaster's choices were made on",
        "earlier steps and other series of the files of the first kind of panel; nothing of the other kind was",
        "looked at but to report it. Of heights, the steps that were chosen on overlap the windows shown.",
        "",
        "| panel | steps x series | seasons | what it is |",
        "| --- | --- | --- | --- |",
    ]
    for name in PANELS:
        if any(run.dataset == name for run in runs):
            source = PANELS[name]
            seasons = ", ".join(map(str, source.season)) or "-"
            lines.append(f"| {name} | {source.steps} x {source.series} | {seasons} | {source.about} |")
    for title, table in tables(runs).items():
        lines += ["", f"## {title}", "", *table]
    return "\n".join(lines) + "\n"


def tables(runs: Sequence[Run]) -> dict[str, list[str]]:
    """The tables of the results by their titles."""
    found: dict[str, list[str]] = {}
    apart = {name for names in _APART.values() for name in names}
    usual = [run for run in runs if run.method not in apart]
    forecasts, fillings = ([run for run in usual if run.condition["task"] == task] for task in TASKS)
    horizons = sorted({_wanted_horizon(run) for run in forecasts}, reverse=True)
    if forecasts:
        found["Beside the last value and the value of a season ago"] = _beside_simple(forecasts)
        found["Panels with a graph, half and more hidden"] = _on_graphs(forecasts)
        found["How much of the truth intervals hold"] = _coverages(forecasts)
    for horizon in horizons:
        some = [run for run in forecasts if _wanted_horizon(run) == horizon]
        ahead = "1 step ahead" if horizon == 1 else f"{horizon} steps ahead"
        found |= _means_of(some, f"Forecasts {ahead}")
    found |= _means_of(fillings, "Filled holes") if fillings else {}
    found |= {f"Beside {what}": _beside(runs, names) for what, names in _APART.items()}
    found = {title: table for title, table in found.items() if len(table) > 2}
    for title, some in [(f"{h} steps ahead", [r for r in forecasts if _wanted_horizon(r) == h]) for h in horizons] + [
        ("holes filled", fillings)
    ]:
        for half, word in (("chosen", "other parts of which were chosen on"), ("unseen", "only reported")):
            table = _error_table([run for run in some if PANELS[run.dataset].half == half])
            if len(table) > 2:
                found[f"Every panel, {title}: panels {word}"] = table
    return found


def _wanted_horizon(run: Run) -> int:
    """The horizon that was asked for, which short panels cut to a quarter of their steps."""
    own = int(run.condition.number("horizon"))
    return LONGEST if own == longest(PANELS[run.dataset].steps) else own


def _means_of(runs: Sequence[Run], title: str) -> dict[str, list[str]]:
    found = {f"{title}: errors": _mean_table(runs, "mase")}
    unseen = [run for run in runs if PANELS[run.dataset].half == "unseen"]
    if unseen:
        found[f"{title}: errors on panels only reported"] = _mean_table(unseen, "mase")
    found[f"{title}: pinball loss"] = _mean_table(runs, "pinball")
    for level in (80, 95):
        found[f"{title}: of the truth within {level} % intervals (%)"] = _mean_table(runs, f"coverage_{level}", level)
    return found


def _by_window(runs: Sequence[Run], metric: str) -> dict[Cell, dict[str, dict[int, float]]]:
    found: dict[Cell, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        if metric in run.metrics:
            cell = run.dataset, run.condition.number("hidden"), int(run.condition.number("horizon"))
            found[cell][run.method][run.split] = run.metrics[metric]
    return found


def _beside_simple(runs: Sequence[Run]) -> list[str]:
    """How often the forecast is worse than the better simple one, which is chosen in hindsight."""
    found = _by_window(runs, "mase")
    worse, clearly, count, single = [], [], 0, 0
    for (panel, rate, horizon), methods in sorted(found.items()):
        simple = [methods[name] for name in _SIMPLE if name in methods]
        if _OWN not in methods or not simple:
            continue
        common = sorted(set(methods[_OWN]).intersection(*simple))
        own = np.array([methods[_OWN][window] for window in common])
        rival = min((np.array([each[window] for window in common]) for each in simple), key=lambda each: each.mean())
        count += 1
        single += len(common) == 1
        gap = own - rival
        if gap.mean() <= 0:
            continue
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.inf
        said = f"{panel}, {100 * rate:.0f} %, {horizon} ahead: {own.mean():.3f} against {rival.mean():.3f}"
        worse.append(said)
        if gap.mean() > _CLEAR * error:
            clearly.append(said)
    lines = [
        f"Of {count} cells of a panel, a share hidden and a horizon, the forecast is worse on average over windows",
        f"than the better of the two, chosen in hindsight, in {len(worse)}; by more than two standard errors in",
        f"{len(clearly)}."
        + (f" {single} of the cells have one window, of which chance cannot be told." if single else ""),
    ]
    if worse:
        lines += ["", *(f"- {said}{' (clearly)' if said in clearly else ''}" for said in worse)]
    return lines


def _on_graphs(runs: Sequence[Run]) -> list[str]:
    """The forecast and the best of all others on panels that have a graph."""
    with_graph = {name for name in {run.dataset for run in runs} if PANELS[name].has_graph}
    lines = [
        "| panel | hidden | steps ahead | COIN | best other | which | rank |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for (panel, rate, horizon), means in sorted(_means(runs, "mase").items()):
        if panel in with_graph and rate >= 0.5 and _OWN in means and len(means) > 1:
            others = {name: value for name, value in means.items() if name != _OWN}
            best = min(others, key=lambda name: others[name])
            rank = 1 + sum(value < means[_OWN] for value in others.values())
            lines.append(
                f"| {panel} | {100 * rate:.0f} % | {horizon} | {means[_OWN]:.3f} | {others[best]:.3f} | {best} | "
                f"{rank} of {len(means)} |"
            )
    return lines


def _coverages(runs: Sequence[Run]) -> list[str]:
    """Of our intervals, over all windows that there are; the spread is a standard error over panels."""
    lines = ["| steps ahead | hidden | panels | runs | 80 % intervals | 95 % intervals |", "|" + " ---: |" * 6]
    own = [run for run in runs if run.method == _OWN]
    cells: dict[tuple[int, float], list[Run]] = defaultdict(list)
    for run in own:
        cells[_wanted_horizon(run), run.condition.number("hidden")].append(run)
    for (horizon, rate), some in sorted(cells.items()):
        lines.append(f"| {horizon} | {100 * rate:.0f} % | {_coverage_of(some)} |")
    if len(cells) > 1:
        lines.append(f"| all | all | {_coverage_of(own)} |")
    return lines


def _coverage_of(runs: Sequence[Run]) -> str:
    """Panels, runs and the shares of the truth within intervals, every panel counting the same."""
    panels: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        panels[run.dataset].append(run)
    texts = []
    for level in (80, 95):
        means = [np.mean([run.metrics[f"coverage_{level}"] for run in each]) for each in panels.values()]
        error = f" ± {np.std(means, ddof=1) / np.sqrt(len(means)):.1f}" if len(means) > 1 else ""
        texts.append(f"{np.mean(means):.1f}{error}")
    return f"{len(panels)} | {len(runs)} | {texts[0]} | {texts[1]}"


def _beside(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Mean errors of these methods and of others, over the panels and windows that these have been run on."""
    found = _by_window(runs, "mase")
    here = {cell: methods for cell, methods in found.items() if methods.keys() & set(names)}
    peers = (
        ("COIN", "last value", "AutoETS") if any(horizon for *_, horizon in here) else ("fill", "linear", "iterative")
    )
    wanted = [*peers, *(name for name in names if any(name in methods for methods in here.values()))]
    lines = [f"| steps ahead | hidden | panels | {' | '.join(wanted)} |", "|" + " ---: |" * (3 + len(wanted))]
    rows: dict[tuple[int, float], list[dict[str, float]]] = defaultdict(list)
    for (panel, rate, horizon), methods in here.items():
        if all(name in methods for name in wanted):
            common = set.intersection(*(set(methods[name]) for name in wanted))
            ahead = LONGEST if horizon == longest(PANELS[panel].steps) else horizon
            if common:
                means = {name: float(np.mean([methods[name][window] for window in common])) for name in wanted}
                rows[ahead, rate].append(means)
    for (ahead, rate), each in sorted(rows.items()):
        averages = {name: float(np.mean([means[name] for means in each])) for name in wanted}
        lines.append(f"| {ahead or '-'} | {100 * rate:.0f} % | {len(each)} | {_cells(averages, wanted)} |")
    return lines


def _means(runs: Sequence[Run], metric: str) -> dict[Cell, dict[str, float]]:
    """By cell, by method, over the windows that all its methods have; cells that ours are not in are left out."""
    found, cells = {}, _by_window(runs, metric)
    shown = any(_OURS & methods.keys() for methods in cells.values())
    for cell, methods in cells.items():
        if shown and not _OURS & methods.keys():
            continue
        common = set.intersection(*(set(each) for each in methods.values()))
        if common:
            found[cell] = {name: float(np.mean([each[s] for s in common])) for name, each in methods.items()}
    return found


def _ordered(names: set[str]) -> list[str]:
    from condiff.reproduce.baselines.forecast import METHODS

    return [name for name in METHODS if name in names]


def _error_table(runs: Sequence[Run]) -> list[str]:
    found = _means(runs, "mase")
    methods = _ordered({name for each in found.values() for name in each})
    lines = [f"| panel | hidden | {' | '.join(methods)} |", f"| --- | ---: |{' ---: |' * len(methods)}"]
    for name in PANELS:
        for (panel, rate, _), means in sorted(found.items()):
            if panel == name:
                lines.append(f"| {name} | {100 * rate:.0f} % | {_cells(means, methods)} |")
    return lines


def _mean_table(runs: Sequence[Run], metric: str, aim: float | None = None) -> list[str]:
    """Means over panels at each rate, of methods that ran on all panels; others have no column."""
    found = _means(runs, metric)
    panels = {panel for panel, _, _ in found}
    ran = defaultdict(set)
    for (panel, _, _), means in found.items():
        for name in means:
            ran[name].add(panel)
    methods = _ordered({name for name, on in ran.items() if on == panels})
    lines = [f"| hidden | panels | {' | '.join(methods)} |", f"| ---: | ---: |{' ---: |' * len(methods)}"]
    for rate in sorted({rate for _, rate, _ in found}):
        rows = [means for (_, other, _), means in found.items() if other == rate]
        here = [name for name in methods if all(name in row for row in rows)]
        if here:
            averages = {name: float(np.mean([row[name] for row in rows])) for name in here}
            lines.append(f"| {100 * rate:.0f} % | {len(rows)} | {_cells(averages, methods, aim)} |")
    return lines


def _cells(means: dict[str, float], methods: Sequence[str], aim: float | None = None) -> str:
    best = min(means.values(), key=lambda value: value if aim is None else abs(value - aim))
    digits = 1 if aim is not None else 3
    texts = [f"{means[name]:.{digits}f}" if name in means else "-" for name in methods]
    return " | ".join(
        f"**{text}**" if means.get(name) == best else text for name, text in zip(methods, texts, strict=True)
    )
