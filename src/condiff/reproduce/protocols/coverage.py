"""How often prediction sets and intervals hold the truth, over many draws of the labels."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError, did_you_mean
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.datasets.ordinary_tables import seed_of
from condiff.reproduce.datasets.sources import locate
from condiff.reproduce.protocol import Case, Job, Options, Protocol, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.splits import Split
from condiff.uncertainty.conformal import Promise

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.reproduce.baselines.coverage.methods import CoverageMethod, CoverageProblem
    from condiff.reproduce.rows import Row

#: The data sets: tables with classes, digits, text, a citation graph, and tables with values.
DATASETS = (
    *("sk-wine", "sk-breast_cancer", "keel-vehicle", "keel-segment", "keel-optdigits", "ag-news", "cora"),
    *("reg-Boston", "reg-Housing"),
)
#: Rows of a data set at most: what matters is the number of draws.
MOST_ROWS = 250
_TEXTS = "text/ag_news_test.csv"


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, their targets and perhaps a graph."""

    x: Any
    target: NDArray[Any]
    n_classes: int
    fingerprint: str
    adjacency: Any = None


@lru_cache(maxsize=16)
def load(name: str) -> Data:
    """A data set by its name, of which so many rows as :data:`MOST_ROWS` are kept; of a graph all nodes."""
    if name == "cora":
        from condiff.reproduce.datasets.graphs import load_graph

        found = load_graph("cora")
        labels = np.asarray(found.labels, np.int64)
        return Data(found.features, labels, int(labels.max()) + 1, _digest(name, labels), found.adjacency)
    if name == "ag-news":
        return _ag_news()
    from condiff.reproduce.protocols.tables import load as load_table

    table = load_table(name)
    some = _some(name, len(table.target))
    return Data(table.x[some], table.target[some], table.n_classes, _digest(name, table.target[some]))


def _ag_news() -> Data:
    """News of four topics, as weighted counts of their words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    with locate(_TEXTS).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    some = _some("ag-news", len(rows))
    texts = [" ".join(rows[index][1:]) for index in some]
    codes = np.array([int(rows[index][0]) - 1 for index in some])
    words = TfidfVectorizer(stop_words="english", min_df=2, sublinear_tf=True).fit_transform(texts)
    return Data(words, codes, 4, _digest("ag-news", codes))


def _some(name: str, n: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed_of(name, "rows", 0)).permutation(n)[:MOST_ROWS])


def _digest(name: str, target: NDArray[Any]) -> str:
    return hashlib.sha256(name.encode() + np.asarray(target, "<f8").tobytes()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class CoverageOptions(Options):
    """The options of ``condiff bench coverage``."""

    method: str = option("all", "Methods, separated by commas; 'all' for every one.", metavar="A,B|all")
    datasets: str = option("", f"Data sets, separated by commas; by default {', '.join(DATASETS)}.", metavar="A,B")
    labels: int = option(40, "Labels, drawn at random.", low=12)
    coverage: float = option(0.9, "The coverage to ask for.", low=0.01, high=0.99)
    draws: int = option(250, "Draws of the labels, the same for all methods.", low=1)
    base: str = option("default", "COIN as it comes, or on a linear model, which is fast.", metavar="default|linear")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base not in ("default", "linear"):
            raise InvalidInputError(f"--base must be default or linear, not {self.base!r}")

    @property
    def chosen(self) -> list[str]:
        """The data sets to measure."""
        names = [name.strip() for name in self.datasets.split(",")] if self.datasets else list(DATASETS)
        for name in names:
            if name not in DATASETS:
                raise InvalidInputError(f"{name!r} is not among the data sets{did_you_mean(name, DATASETS)}")
        return names


class Coverage(Protocol):
    """Random draws of labels; the condition has the number of ``labels`` and the ``coverage`` that is asked for."""

    name = "coverage"
    title = "Coverage of prediction sets"
    about = ABOUT["coverage"]
    examples = (
        "condiff bench coverage --out results/coverage",
        "condiff bench coverage --datasets sk-wine,reg-Boston --labels 20 --draws 50",
    )
    options = CoverageOptions
    baselines = "condiff.reproduce.baselines.coverage"
    metrics = ("coverage", "set_size", "width", "seconds")
    on_screen = ("coverage", "set_size", "width")
    watches_memory = False

    def cases(self, options: CoverageOptions) -> list[tuple[Case, dict[int, Split]]]:
        found = []
        asked: dict[str, Any] = {"labels": options.labels, "coverage": options.coverage}
        condition = Condition(**asked, **({} if options.base == "default" else {"base": options.base}))
        for name in options.chosen:
            data = load(name)
            splits = {seed: draw(name, data, options.labels, seed) for seed in range(options.draws)}
            found.append((Case(name, condition, data.fingerprint), splits))
        return found

    def options_of(self, runs: Sequence[Run]) -> CoverageOptions:
        condition = runs[0].condition
        return CoverageOptions(
            datasets=runs[0].dataset,
            labels=int(condition.number("labels")),
            coverage=condition.number("coverage"),
            draws=1 + max(run.split for run in runs),
            base=str(condition.get("base", "default")),
        )

    def jobs(self, options: CoverageOptions) -> list[Job]:
        """Draw by draw: what is there after a while is over all data sets."""
        return sorted(super().jobs(options), key=lambda job: job.seed)

    def methods(self, case: Case, options: CoverageOptions) -> Mapping[str, CoverageMethod]:
        from condiff.reproduce.baselines.coverage import REGISTRY

        found = REGISTRY.chosen(options.method, case.dataset, options.changes, case.condition)
        classes = load(case.dataset).n_classes
        return {name: method for name, method in found.items() if classes or method.for_values}

    def problem(self, case: Case, seed: int, split: Split) -> CoverageProblem:
        from condiff.reproduce.baselines.coverage.methods import CoverageProblem

        data = load(case.dataset)
        given = np.full(len(data.target), -1 if data.n_classes else np.nan)
        given[split.train] = data.target[split.train]
        codes = given.astype(np.int64) if data.n_classes else given
        coverage, linear = case.condition.number("coverage"), case.condition.get("base") == "linear"
        return CoverageProblem(data.x, codes, data.n_classes, coverage, data.adjacency, linear)

    def measure(self, job: Job, outcome: Answers) -> dict[str, float]:
        data, test = load(job.case.dataset), job.split.test
        truth, found = data.target[test], outcome.answers[test]
        if not data.n_classes:
            held = (found[:, 0] <= truth) & (truth <= found[:, 1])
            width = float((found[:, 1] - found[:, 0]).mean() / max(float(data.target.std()), 1e-300))
            return {"coverage": 100 * float(held.mean()), "width": round(width, 5)}
        held = found[np.arange(len(test)), truth]
        sizes = {"coverage": 100 * float(held.mean()), "set_size": round(float(found.sum(axis=1).mean()), 5)}
        classes = {f"class_{code}": 100 * float(held[truth == code].mean()) for code in np.unique(truth)}
        return {name: round(value, 4) for name, value in {**sizes, **classes}.items()}

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        asked = f"{100 * condition.number('coverage'):g} % asked for"
        base = ["linear base"] if condition.get("base") else []
        return (dataset, f"{condition['labels']} labels", asked, *base)

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        promises = [
            f"{dataset},{condition.get('base') or 'default'},{mean:.2f}"
            for (dataset, condition), mean in mean_promises(runs).items()
        ]
        promised = "\n".join(["dataset,base,promised_by_cross", *promises]) + "\n"
        return {"classes.csv": class_table(runs), "promises.csv": promised}

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        from condiff.reproduce.figures.coverage import draw_classes, draw_coverage

        found = {}
        for base, ending in ((None, ""), ("linear", "-linear")):
            some = [row for row in rows if row.condition.get("base") == base]
            if some:
                found[f"coverage{ending}.png"] = draw_coverage(some, mean_promises(runs))
            classes = {
                (dataset, method, code): float(np.mean(values))
                for (dataset, which, method, code), values in by_class(runs).items()
                if which == (base or "default") and method in ("cross", "per-class")
            }
            if classes:
                found[f"classes{ending}.png"] = draw_classes(classes, 100 * some[0].condition.number("coverage"))
        return found


def draw(name: str, data: Data, labels: int, seed: int) -> Split:
    """A random draw of rows to label, at least two classes among them; all others test."""
    for attempt in range(100):
        order = np.random.default_rng(seed_of(name, f"{labels}", seed + 100_000 * attempt)).permutation(
            len(data.target)
        )
        known = np.sort(order[: min(labels, len(order) // 2)])
        if not data.n_classes or len(np.unique(data.target[known])) > 1:
            break
    rest = np.setdiff1d(np.arange(len(data.target)), known).astype(np.int64)
    return Split(known.astype(np.int64), np.empty(0, np.int64), rest)


def mean_promises(runs: Sequence[Run]) -> dict[tuple[str, Condition], float]:
    """The coverage in percent that the labels of each draw could promise, over the draws, by data set and condition.

    Labels that are the only ones of their class cannot be held out, and lower it.
    """
    found: dict[tuple[str, Condition], dict[int, float]] = {}
    for run in runs:
        data, labels = load(run.dataset), int(run.condition.number("labels"))
        known = data.target[draw(run.dataset, data, labels, run.split).train]
        alone = int((np.bincount(known, minlength=data.n_classes) == 1).sum()) if data.n_classes else 0
        promise = Promise(run.condition.number("coverage"), len(known), alone)
        found.setdefault((run.dataset, run.condition), {})[run.split] = 100 * promise.coverage
    return {place: float(np.mean(list(each.values()))) for place, each in found.items()}


def by_class(runs: Sequence[Run]) -> dict[tuple[str, str, str, str], list[float]]:
    """The coverage of every class by itself, draw by draw, by data set, base, method and class."""
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for run in runs:
        for name, value in run.metrics.items():
            if name.startswith("class_"):
                base = str(run.condition.get("base") or "default")
                found.setdefault((run.dataset, base, run.method, name.removeprefix("class_")), []).append(value)
    return dict(sorted(found.items()))


def class_table(runs: Sequence[Run]) -> str:
    """The coverage of every class by itself, over the draws, as comma-separated values."""
    lines = ["dataset,base,method,class,coverage,standard_error,draws"]
    for (dataset, base, method, code), values in by_class(runs).items():
        error = float(np.std(values) / np.sqrt(len(values)))
        lines.append(f"{dataset},{base},{method},{code},{np.mean(values):.2f},{error:.2f},{len(values)}")
    return "\n".join(lines) + "\n"
