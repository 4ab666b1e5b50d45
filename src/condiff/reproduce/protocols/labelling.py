"""How many labels a strategy saves, and how many planted errors are found among labels."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.encoders.embedding import progress_shown
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.datasets import mnist
from condiff.reproduce.datasets.ordinary_tables import seed_of
from condiff.reproduce.protocol import Case, Job, Options, Protocol, Shown, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.protocols.tables import load as load_table
from condiff.reproduce.runs import Condition
from condiff.reproduce.splits import Split

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.reproduce.baselines.labelling.method import LabellingMethod
    from condiff.reproduce.rows import Row
    from condiff.reproduce.runs import Run

TABLES = ("keel-australian", "keel-heart", "keel-satimage", "keel-segment", "keel-vehicle", "keel-vowel")
DATASETS = ("digits", "mnist", "banking77", *TABLES)
#: Data sets among whose labels errors are planted, and how many of a hundred.
WITH_ERRORS, SHARES = ("digits", *TABLES), (5, 10, 20)
# Rows of a draw at most, and labels of which some are wrong.
_ROWS, _LABELS = 1000, 300


@dataclass(frozen=True, eq=False)
class Data:
    """Rows as numbers and their classes; whether an encoder made them; and a fingerprint of what it made them from.

    What an encoder makes has last digits that are the processor's, and runs are found by the fingerprint.
    """

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    encoded: bool
    fingerprint: str


@lru_cache(maxsize=len(DATASETS))
def load(name: str) -> Data:
    """A data set by its name."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return _as_it_is(*load_digits(return_X_y=True))
    if name == "mnist":
        images, labels = mnist.images()
        some = np.sort(np.random.default_rng(seed_of("labelling mnist")).permutation(len(labels))[:3000])
        return _as_it_is(np.asarray(images[some], np.float64).reshape(len(some), -1) / 255, labels[some])
    if name == "banking77":
        from condiff.reproduce.protocols.text import load as load_texts

        texts = load_texts(name)
        return Data(np.asarray(texts.x, np.float64), texts.content.target, True, texts.content.fingerprint)
    table = load_table(name)
    return Data(table.x, table.target, True, table.fingerprint)


def _as_it_is(x: NDArray[np.float64], y: NDArray[np.int64]) -> Data:
    """Numbers that no encoder made."""
    y = y.astype(np.int64)
    return Data(x, y, False, hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest()[:16])


def draw(name: str, y: NDArray[np.int64], seed: int) -> Split:
    """Rows that take part; the same for all methods."""
    rows = np.random.default_rng(seed_of("labelling", name, seed)).permutation(len(y))
    most = 1500 if name == "banking77" else min(_ROWS, max(2 * len(y) // 3, 200))
    return Split(np.sort(rows[:most]), np.empty(0, np.int64), np.sort(rows[most:]))


def planted(y: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels of some rows, -1 for the others, of which a share in a hundred is wrong, and the rows of these."""
    generator = np.random.default_rng(seed_of("planted", share, seed))
    rows = generator.permutation(len(y))[: min(_LABELS, len(y) // 2)]
    given = np.full(len(y), -1)
    given[rows] = y[rows]
    wrong = rows[: round(share * len(rows) / 100)]
    given[wrong] = (y[wrong] + generator.integers(1, y.max() + 1, len(wrong))) % (y.max() + 1)
    return given, wrong


@dataclass(frozen=True, kw_only=True)
class LabellingOptions(Options):
    """The options of ``condiff bench labelling``."""

    method: str = option("all", "Methods, separated by commas; 'all' for every one.", metavar="A,B|all")
    dataset: str = option("all", "Data sets, separated by commas; 'all' for every one.", metavar="NAME|all")
    draws: int = option(10, "Draws of the rows, the same for all methods.", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.dataset.split(",") if name.strip() not in (*DATASETS, "all")]
        if unknown:
            raise InvalidInputError(f"--dataset must be some of {', '.join(DATASETS)}, or all, not {unknown[0]!r}")

    @property
    def datasets(self) -> list[str]:
        """Those that were chosen."""
        named = [name.strip() for name in self.dataset.split(",")]
        return [name for name in DATASETS if name in named or "all" in named]


class Labelling(Protocol):
    """Label-saving curves, and planted errors; the condition has how many ``errors`` of a hundred, 0 for a curve."""

    name = "labelling"
    title = "Labelling"
    about = ABOUT["labelling"]
    examples = (
        "condiff bench labelling --out results/labelling",
        "condiff bench labelling --dataset digits --method change,margin,random --draws 3",
    )
    options = LabellingOptions
    baselines = "condiff.reproduce.baselines.labelling"
    metrics = ("mean_accuracy", "accuracy_1", "accuracy_2", "accuracy_5", "found")
    on_screen = ("mean_accuracy", "found")
    watches_memory = False

    def fetch(self, options: LabellingOptions, shown: Shown) -> None:
        with progress_shown(shown):
            for name in options.datasets:
                load(name)

    def cases(self, options: LabellingOptions) -> list[tuple[Case, dict[int, Split]]]:
        found = []
        for name in options.datasets:
            data = load(name)
            splits = {seed: draw(name, data.y, seed) for seed in range(options.draws)}
            shares = (0, *(SHARES if name in WITH_ERRORS else ()))
            found += [(Case(name, Condition(errors=errors), data.fingerprint), splits) for errors in shares]
        return found

    def options_of(self, runs: Sequence[Run]) -> LabellingOptions:
        return LabellingOptions(dataset=runs[0].dataset, draws=1 + max(run.split for run in runs))

    def jobs(self, options: LabellingOptions) -> list[Job]:
        """Draw by draw, so that what is there after a while is a comparison on all data sets."""
        return sorted(super().jobs(options), key=lambda job: job.seed)

    def methods(self, case: Case, options: LabellingOptions) -> Mapping[str, LabellingMethod]:
        from condiff.reproduce.baselines.labelling import REGISTRY

        chosen = REGISTRY.chosen(options.method, case.dataset, options.changes, case.condition)
        return {name: each for name, each in chosen.items() if each.asks == (case.condition["errors"] == 0)}

    def problem(self, case: Case, seed: int, split: Split) -> Any:
        from condiff.labelling.learner import Learner
        from condiff.reproduce.baselines.labelling.method import AskingProblem, DoubtProblem

        data, errors = load(case.dataset), case.condition.number("errors")
        x, y = data.x[split.train], data.y[split.train]
        if errors:
            return DoubtProblem(x, planted(y, errors, seed)[0])
        learner = Learner.of(x, encoded=data.encoded)
        return AskingProblem(learner, y[learner.row_of_node])

    def measure(self, job: Job, outcome: Answers) -> dict[str, float]:
        from condiff.reproduce.baselines.labelling.method import MULTIPLES

        errors = job.case.condition.number("errors")
        if not errors:
            curve = dict(zip(MULTIPLES, (100 * outcome.answers).tolist(), strict=True))
            found = {"mean_accuracy": float(np.mean(list(curve.values())))}
            found |= {f"accuracy_{multiple}": curve[multiple] for multiple in (1, 2, 5)}
            return {name: round(value, 4) for name, value in found.items()}
        given, wrong = planted(load(job.case.dataset).y[job.split.train], errors, job.seed)
        doubted = np.flatnonzero(given >= 0)[np.argsort(outcome.answers, kind="stable")[: len(wrong)]]
        return {"found": round(100 * float(np.isin(doubted, wrong).mean()), 4)}

    def section(self, row: Row) -> str:
        errors = int(row.condition.number("errors"))
        return f"{errors} % planted errors: found" if errors else row.judged.title

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        return (dataset,)

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        from condiff.reproduce.figures.labelling import draw_curves

        return {"curves.png": draw_curves(rows)} if any(row.metric == "accuracy_1" for row in rows) else {}

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        """Means over the data sets, which the default strategy is chosen by."""
        tables = [asking_markdown(runs), doubting_markdown(runs)]
        return {"means.md": "\n\n".join(["# Means over the data sets", *filter(None, tables)]) + "\n"}


#: What a curve is summed up by, and how tables call it.
_CURVE = {
    "mean_accuracy": "mean over 1 to 5 labels per class",
    "accuracy_1": "1 per class",
    "accuracy_2": "2 per class",
    "accuracy_5": "5 per class",
}


@dataclass(frozen=True, eq=False)
class _Compared:
    """The runs of some methods on draws that all of them have: (data set, draw) -> metrics, for each method."""

    by: dict[str, dict[tuple[str, int], Mapping[str, float]]]

    @classmethod
    def of(cls, runs: Sequence[Run], errors: int) -> _Compared:
        by: dict[str, dict[tuple[str, int], Mapping[str, float]]] = {}
        for run in runs:
            if run.condition.number("errors") == errors:
                by.setdefault(run.method, {})[run.dataset, run.split] = run.metrics
        shared = set.intersection(*(set(each) for each in by.values())) if by else set()
        return cls({method: {at: each[at] for at in sorted(shared)} for method, each in by.items()})

    @property
    def draws(self) -> dict[str, int]:
        """How many draws of each data set there are."""
        return dict(Counter(dataset for dataset, _ in next(iter(self.by.values()), ())))

    def mean(self, method: str, metric: str) -> float:
        """Over the data sets, each of which counts the same."""
        return self.gap(method, None, metric)[0]

    def gap(self, method: str, other: str | None, metric: str) -> tuple[float, float]:
        """How far a method is above another on the same draws, in the mean over the data sets; its standard error."""
        means, errors = [], []
        for dataset in self.draws:
            found = [
                metrics[metric] - (self.by[other][at][metric] if other else 0.0)
                for at, metrics in self.by[method].items()
                if at[0] == dataset
            ]
            means.append(np.mean(found))
            errors.append(np.var(found, ddof=1) / len(found) if len(found) > 1 else np.nan)
        return float(np.mean(means)), float(np.sqrt(np.sum(np.array(errors, dtype=np.float64))) / len(means))

    def ranked(self, metric: str) -> list[str]:
        """The methods, the best first."""
        return sorted(self.by, key=lambda method: -self.mean(method, metric))

    def counts(self) -> str:
        """Data sets and draws, in words."""
        fewest, most = min(self.draws.values()), max(self.draws.values())
        draws = f"{most}" if fewest == most else f"{fewest} to {most}"
        return f"{len(self.draws)} data sets, {draws} draws of each"


def asking_markdown(runs: Sequence[Run]) -> str:
    """The strategies, the best first, with how far each is behind the best on the same draws."""
    compared = _Compared.of(runs, 0)
    if not compared.by:
        return ""
    first, *_ = ranked = compared.ranked("mean_accuracy")
    lines = [f"Accuracy by labels (%), {compared.counts()}:", ""]
    lines += [f"| strategy | {' | '.join(_CURVE.values())} | behind the first |", "| --- |" + " ---: |" * 5]
    for method in ranked:
        gap, error = compared.gap(first, method, "mean_accuracy")
        cells = [f"{compared.mean(method, metric):.1f}" for metric in _CURVE]
        lines.append(f"| {method} | {' | '.join(cells)} | {f'{gap:.1f} ± {error:.1f}' if method != first else ''} |")
    return "\n".join(lines)


def doubting_markdown(runs: Sequence[Run]) -> str:
    """The share of wrong labels that each method finds among as many that it doubts most."""
    compared = {share: found for share in SHARES if (found := _Compared.of(runs, share)).by}
    if not compared:
        return ""
    methods = next(iter(compared.values())).ranked("found")
    lines = [f"Wrong labels among as many that are doubted (%), {next(iter(compared.values())).counts()}:", ""]
    heads = [f"{name}{', behind' if at else ''}" for name in methods for at in ((0, 1) if name != methods[0] else (0,))]
    lines += [f"| wrong labels | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for share, found in compared.items():
        cells = [f"{found.mean(methods[0], 'found'):.1f}"]
        for method in methods[1:]:
            gap, error = found.gap(methods[0], method, "found")
            cells += [f"{found.mean(method, 'found'):.1f}", f"{gap:.1f} ± {error:.1f}"]
        lines.append(f"| {share} % | {' | '.join(cells)} |")
    return "\n".join(lines)
