"""Texts with few labels: condiff beside what practitioners use, on the same embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.encoders.embedding import progress_shown
from condiff.encoders.sentences import DEFAULT
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.baselines.tables.method import TableMethod
from condiff.reproduce.baselines.text import METHODS, REGISTRY, SLOW
from condiff.reproduce.baselines.text.words import TextProblem
from condiff.reproduce.datasets.ordinary_tables import seed_of
from condiff.reproduce.datasets.texts import TEXTS, Texts, load_texts
from condiff.reproduce.protocol import Case, Job, Options, Protocol, Shown, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.protocols.tables import measured_classes
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.splits import Split
from condiff.reproduce.summary import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How large classes are beside each other in unbalanced draws, over and over.
UNEQUAL = (700, 400, 200, 70)
_NAMES = {"banking77": "Banking77", "ag_news": "AG News"}
# So many texts of a class are left to test.
_LEFT = 2


@dataclass(frozen=True, eq=False)
class Embedded:
    """Texts as numbers: by the default sentence model, and by their words."""

    content: Texts
    x: NDArray[np.float64]
    words: Any


@lru_cache(maxsize=2)
def load(name: str) -> Embedded:
    """A data set by its name."""
    from condiff.encoders.text import WORDS, TextEncoder

    content = load_texts(name)
    texts = list(content.texts)
    # Exact, so that runs come out the same on every processor.
    x = TextEncoder(DEFAULT, exact=True).fit_transform(texts)
    return Embedded(content, x, TextEncoder(WORDS).fit_transform(texts))


def draw(name: str, target: NDArray[np.int64], condition: Condition, seed: int) -> Split:
    """Which texts get a label, and which test; in unbalanced draws the others are left out.

    The draw depends on the names, the condition and the seed alone, so that it is the same for all methods. Which class
    is large is drawn too. Of a class, two texts at least are left to test.
    """
    labels, balanced = int(condition.number("labels")), bool(condition["balanced"])
    generator = np.random.default_rng(seed_of(name, f"{labels} {balanced}", seed))
    members = [generator.permutation(np.flatnonzero(target == code)) for code in range(int(target.max()) + 1)]
    if not balanced:
        largest = UNEQUAL[0] if min(map(len, members)) >= UNEQUAL[0] else min(map(len, members))
        sizes = [max(_LEFT + 1, round(largest * size / UNEQUAL[0])) for size in UNEQUAL]
        order = generator.permutation(len(members))
        members = [rows[: sizes[place % len(sizes)]] for rows, place in zip(members, order, strict=True)]
    known = [rows[: min(labels, len(rows) - _LEFT)] for rows in members]
    tested = [rows[len(own) :] for rows, own in zip(members, known, strict=True)]
    return Split(np.sort(np.concatenate(known)), np.empty(0, np.int64), np.sort(np.concatenate(tested)))


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """The options of ``condiff bench text``."""

    method: str = option(
        "quick",
        "Methods, separated by commas; 'quick' for all but SetFit, which takes minutes for each draw, 'all' for every "
        "one.",
        metavar="A,B|quick|all",
    )
    dataset: str = option("all", "banking77, ag_news, or all.", metavar="NAME|all")
    budget: str = option("1,2,5,10", "Labels per class.", metavar="1,2,5,10")
    balance: str = option(
        "all", "Classes as they come, in unequal sizes (700:400:200:70), or both.", metavar="balanced|unbalanced|all"
    )
    draws: int = option(10, "Draws of the labels, the same for all methods.", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in (("dataset", (*TEXTS, "all")), ("balance", ("balanced", "unbalanced", "all"))):
            if getattr(self, name) not in known:
                raise InvalidInputError(f"--{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if not all(each.strip().isdecimal() and int(each) > 0 for each in self.budget.split(",")):
            raise InvalidInputError(f"--budget must be numbers of labels per class, not {self.budget!r}")

    @property
    def methods(self) -> str:
        """Those that were chosen, by their names."""
        quick = self.method.strip().lower() == "quick"
        return ",".join(name for name in METHODS if name not in SLOW) if quick else self.method

    @property
    def datasets(self) -> list[str]:
        """Those that were chosen."""
        return [name for name in TEXTS if self.dataset in (name, "all")]

    @property
    def conditions(self) -> list[Condition]:
        """Every budget, with balanced classes and others."""
        kinds = [kind for kind, word in ((True, "balanced"), (False, "unbalanced")) if self.balance in (word, "all")]
        budgets = dict.fromkeys(int(each) for each in self.budget.split(","))
        return [Condition(labels=labels, balanced=balanced) for balanced in kinds for labels in budgets]


class Text(Protocol):
    """Texts, each set under several label budgets, for methods that see all texts and few labels.

    Its condition has the number of ``labels`` per class and whether the classes are ``balanced``.
    """

    name = "text"
    title = "Texts"
    about = ABOUT["text"]
    examples = (
        "condiff bench text --out results/text",
        "condiff bench text --dataset ag_news --method COIN,LR,SVM --budget 1,5 --draws 3",
    )
    options = TextOptions
    baselines = "condiff.reproduce.baselines.text"
    metrics = ("accuracy", "balanced_accuracy", "log_loss")
    watches_memory = False
    on_screen = ("accuracy", "balanced_accuracy")

    def fetch(self, options: TextOptions, shown: Shown) -> None:
        with progress_shown(shown):
            for name in options.datasets:
                load(name)

    def cases(self, options: TextOptions) -> list[tuple[Case, dict[int, Split]]]:
        found = []
        for name in options.datasets:
            content = load(name).content
            for condition in options.conditions:
                splits = {seed: draw(name, content.target, condition, seed) for seed in range(options.draws)}
                found.append((Case(name, condition, content.fingerprint), splits))
        return found

    def options_of(self, runs: Sequence[Run]) -> TextOptions:
        condition = runs[0].condition
        return TextOptions(
            dataset=runs[0].dataset,
            budget=str(condition["labels"]),
            balance="balanced" if condition["balanced"] else "unbalanced",
            draws=1 + max(run.split for run in runs),
        )

    def methods(self, case: Case, options: TextOptions) -> dict[str, TableMethod]:
        return REGISTRY.chosen(options.methods, case.dataset, options.changes, case.condition)

    def jobs(self, options: TextOptions) -> list[Job]:
        """Draw by draw, so that what is there after a while is a comparison under all conditions."""
        return sorted(super().jobs(options), key=lambda job: job.seed)

    def problem(self, case: Case, seed: int, split: Split) -> TextProblem:
        data = load(case.dataset)
        rows = _rows(split)
        given = np.full(len(data.x), -1)
        given[split.train] = data.content.target[split.train]
        texts = tuple(data.content.texts[row] for row in rows)
        return TextProblem(data.x[rows], given[rows], len(data.content.classes), data.words[rows], texts)

    def measure(self, job: Job, outcome: Answers) -> dict[str, float]:
        tested = np.isin(_rows(job.split), job.split.test)
        truth = load(job.case.dataset).content.target[job.split.test]
        found = measured_classes(truth, outcome.answers[tested])
        return {name: round(value, 5) for name, value in found.items() if name in self.metrics}

    def summarise(self, runs: Sequence[Run]) -> list[Row]:
        """By data set and balance, few labels first."""

        def place(run: Run) -> tuple[str, bool, float]:
            return run.dataset, not run.condition["balanced"], run.condition.number("labels")

        return rows_of(sorted(runs, key=place))

    def section(self, row: Row) -> str:
        classes = "classes as they come" if row.condition["balanced"] else "unequal classes"
        return f"{_NAMES[row.dataset]}, {classes}: {row.judged.title}"

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        labels = f"{condition['labels']} per class"
        return (_NAMES.get(dataset, dataset), labels, "balanced" if condition["balanced"] else "unbalanced")

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None


def _rows(split: Split) -> NDArray[np.int64]:
    """The texts that take part, in order."""
    return np.sort(np.concatenate([split.train, split.test]))
