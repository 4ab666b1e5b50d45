"""The protocol of few-shot learning: many tasks of novel classes, in blocks that a store can hold.

Methods work on the features of a backbone, or are trained on episodes of images: :class:`FewShot` and
:class:`Episodic`. Both get the same tasks and share one table.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import CondiffError, InvalidInputError
from condiff.files import cache_folder
from condiff.reproduce import figures
from condiff.reproduce.baselines.method import Method
from condiff.reproduce.blocks import TASKS as COUNT
from condiff.reproduce.blocks import block_metrics
from condiff.reproduce.datasets.features import ClassFeatures, load_features, save_features
from condiff.reproduce.episodes import Episodes, Sizes, draw_episodes, read_episodes, write_episodes
from condiff.reproduce.pairs import paired, pairs_markdown, pairs_texts
from condiff.reproduce.protocol import Case, Job, Options, Protocol, Shown, Tell, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.rows import Row, dataset_title
from condiff.reproduce.runs import Condition, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.readers.images import ImageSet
    from condiff.reproduce.baselines.fewshot.problem import FewShotProblem
    from condiff.reproduce.pretraining.trained_methods import Assignment

#: Tasks in the paper, and in one run.
TASKS, BLOCK = 10_000, 100
#: What Veilleux et al. (2021) draw the classes' shares by.
CONCENTRATION = 2.0
#: What a run of a method that was trained on episodes says of its training.
EPISODES, SECONDS, VALIDATION = "training_episodes", "training_seconds", "validation_accuracy"
# The paper's names of its backbones, which are the groups of its table.
# The backbone that comes trained; others are trained into a folder.
_READY = "efficientnet_lite0"
_BACKBONES = {"resnet18": "ResNet-18", "wrn28_10": "WRN"}
_PAPERS = Sizes()


@dataclass(frozen=True, kw_only=True)
class FewShotOptions(Options):
    """The options of ``condiff reproduce fewshot``; None for the protocol's own number."""

    dataset: str | None = option(None, "Images: cub, omniglot or a folder of them.", metavar="NAME")
    backbone: str | None = option(
        None,
        "What embeds the images: efficientnet_lite0 by default, or a folder of condiff backbone train. With "
        "--episodic: conv4, or the folder of a trained one to begin from.",
    )
    features: Path | None = option(
        None, "Features that condiff backbone embed wrote (.npz), in place of --dataset.", metavar="FILE"
    )
    shot: int | None = option(None, "Labelled images per class; 1 by default.", low=1)
    ways: int | None = option(None, "Classes of a task; 5 by default.", low=2)
    queries: int | None = option(None, "Queries per class, on average; 15 by default.", low=1)
    tasks: int | None = option(None, "Tasks; 10,000 by default, as in the paper.", low=1)
    unbalanced: bool = option(False, "Draw the classes' shares of the queries (Dirichlet, 2).")
    episodic: bool = option(
        False,
        "Train the methods on tasks of the base classes of --dataset, as their authors do, instead of giving them "
        "fixed features.",
    )
    episodes: int | None = option(None, "Tasks that --episodic trains on; 10,000 by default.", low=1)
    import_splits: Path | None = option(None, "Take the tasks of this file instead of drawing them.", metavar="FILE")
    export_splits: Path | None = option(None, "Write the tasks, all image numbers of them, as JSON.", metavar="FILE")

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = [name for name in ("shot", "ways", "queries", "tasks", "unbalanced") if getattr(self, name)]
        if self.import_splits and fixed:
            raise InvalidInputError(f"the file of --import-splits fixes the tasks: leave out --{', --'.join(fixed)}")
        if self.episodic:
            if self.dataset is None or self.features is not None:
                raise InvalidInputError(
                    "--episodic trains on images: give --dataset cub|omniglot|DIR, and no --features"
                )
            if self.initial is not None and not Path(self.initial).is_dir():
                raise InvalidInputError(
                    "--episodic is for conv4, or a folder of `condiff backbone train --backbone conv4` to begin from, "
                    f"not {self.initial!r}"
                )
        elif self.episodes:
            raise InvalidInputError("--episodes is for methods that are trained on them: give --episodic as well")
        elif self.features is not None and (self.dataset or self.backbone):
            raise InvalidInputError(
                "--features has the features of a data set already: leave out --dataset and --backbone"
            )
        elif self.features is None and self.dataset is None:
            if self.backbone is not None:
                raise InvalidInputError(
                    "--backbone embeds the images of a data set: give --dataset cub|omniglot|DIR as well"
                )
            raise InvalidInputError(
                "few-shot tasks need features: give --features FILE.npz, or --dataset cub|omniglot|DIR"
            )

    @property
    def initial(self) -> str | None:
        """The trained backbone that --episodic begins from; None begins at random."""
        return None if self.backbone in (None, "conv4") else self.backbone

    @property
    def here_only(self) -> str:
        return "--episodic trains on this machine" if self.episodic else ""


@dataclass(frozen=True, eq=False)
class Answers:
    """The classes that a method predicts in a block of tasks, (tasks, queries), and what that took."""

    classes: NDArray[np.int64]
    epochs: int
    seconds: float
    more: dict[str, float] = field(default_factory=dict)


class FewShot(Protocol):
    """Few-shot tasks on features; a split is a block of tasks.

    Its condition has the ``backbone``, whether methods are ``episodic``, and the sizes of the tasks: ``ways``,
    ``shots``, ``queries``, and the ``concentration`` that unbalanced queries are drawn by (None where they are
    balanced).
    """

    name = "fewshot"
    title = "Few-shot classification"
    about = ABOUT["fewshot"]
    examples = (
        "condiff reproduce fewshot --dataset cub --shot 5 --method COIN,SimpleShot --tasks 1000",
        "condiff reproduce fewshot --features cub.npz --method all --unbalanced",
        "condiff reproduce fewshot --dataset omniglot --backbone conv4 --episodic --method MAML --episodes 2000",
    )
    options = FewShotOptions
    baselines = "condiff.reproduce.baselines.fewshot"
    metrics = ("accuracy",)

    def jobs(self, options: FewShotOptions) -> list[Job]:
        return super().jobs(options) if not options.episodic else Protocol.jobs(Episodic(), options)

    def fetch(self, options: FewShotOptions, shown: Shown) -> None:
        if options.dataset is None:
            return
        with shown("images decoded" if options.episodic else "images embedded") as on_batch:
            if options.episodic:
                from condiff.readers.images import PARTS
                from condiff.reproduce.datasets.image_sets import load_image_set

                for part in PARTS:
                    load_image_set(options.dataset, part, on_batch=on_batch)
            else:
                embedded(options.dataset, options.backbone or _READY, on_batch)

    def cases(self, options: FewShotOptions) -> list[tuple[Case, dict[int, Episodes]]]:
        path = options.features or embedded(options.dataset or "", options.backbone or _READY)
        features = load(str(path))
        episodes = tasks(options, features)
        condition = condition_of(episodes.sizes, features.backbone)
        return [(Case(features.dataset, condition, features.fingerprint, str(path)), blocks(episodes))]

    def options_of(self, runs: Sequence[Run]) -> FewShotOptions | None:
        condition = runs[0].condition
        trained = condition["episodic"] or condition["backbone"] != _READY
        if trained or condition.get("concentration") not in (None, CONCENTRATION):
            return None  # the folder of what was trained is not in the run
        shot, ways, queries = (int(condition.number(name)) for name in ("shots", "ways", "queries"))
        return FewShotOptions(
            dataset=runs[0].dataset,
            backbone=str(condition["backbone"]),
            shot=shot,
            ways=ways,
            queries=queries,
            tasks=BLOCK + max(run.split for run in runs),
            unbalanced=condition.get("concentration") is not None,
        )

    def problem(self, case: Case, seed: int, split: Episodes) -> Any:
        return problems(load(case.source), split)

    def solve(self, job: Job, problem: Any) -> Answers:
        outcomes = job.method.solve_batch(problem, seeds(job))
        classes = np.stack([outcome.scores.argmax(-1).numpy() for outcome in outcomes])
        return Answers(classes, outcomes[0].epochs, sum(outcome.seconds for outcome in outcomes))

    def labels(self, case: Case) -> NDArray[np.int64]:
        """The class of every image."""
        return load(case.source).labels

    def measure(self, job: Job, outcome: Answers) -> dict[str, float]:
        right = 100 * (outcome.classes == job.split.query_labels(self.labels(job.case))).mean(axis=1)
        return {**block_metrics("accuracy", right), **outcome.more}

    def prepare(self, jobs: Sequence[Job], pool: Executor, tell: Tell) -> None:
        """Train what these jobs need, each method in a process of its own."""
        from condiff.reproduce.pretraining.trained_methods import train

        wanted = dict.fromkeys(assignment(job) for job in jobs if isinstance(job.protocol, Episodic))
        begun = [pool.submit(train, each, tell) for each in wanted]
        try:
            for training in begun:
                training.result()
        except BrokenExecutor as error:
            raise CondiffError(
                "a training process died, perhaps for want of memory; what was finished is kept, and the same command "
                "resumes from there (try fewer --jobs)"
            ) from error

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        parts = [dataset, str(condition.get("backbone") or "")]
        parts.append("trained on episodes" if condition.get("episodic") else "")
        if "shots" in condition:
            parts.append(f"{condition['ways']}-way {condition['shots']}-shot")
        queries, concentration = condition.get("queries", _PAPERS.queries), condition.get("concentration")
        parts.append("" if queries == _PAPERS.queries else f"{queries} queries per class")
        if concentration is not None:
            parts.append("unbalanced" if concentration == CONCENTRATION else f"unbalanced (Dirichlet {concentration})")
        return tuple(part for part in parts if part)

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        group = _BACKBONES.get(str(condition.get("backbone")))
        papers = Condition(condition_of(Sizes(), condition.get("backbone")), shots=condition.get("shots"))
        return (f"{dataset}-{condition['shots']}shot", group) if group and condition == papers else None

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        found = {}
        # Other methods are trained on episodes than work on given features: a picture for each kind.
        for name, trained in (("accuracy.png", False), ("episodic.png", True)):
            if shown := [row for row in rows if bool(row.condition.get("episodic")) == trained]:
                found[name] = figures.draw_intervals(shown)
        if figures.with_and_without_balance(rows):
            found["balance.png"] = figures.draw_balance(rows)
        return found

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        return {**_pairs(runs), **training_table(runs)}


class Episodic(FewShot):
    """The same tasks for methods that are trained on episodes of images first."""

    baselines = "condiff.reproduce.baselines.fewshot.episodic"

    def cases(self, options: FewShotOptions) -> list[tuple[Case, dict[int, Episodes]]]:
        assert options.dataset is not None
        images = _images(options.dataset)
        episodes = tasks(options, images)
        condition = condition_of(episodes.sizes, "conv4", episodic=True)
        case = Case(images.name, condition, images.fingerprint, (options.dataset, options.initial))
        return [(case, blocks(episodes))]

    def methods(self, case: Case, options: FewShotOptions) -> Mapping[str, Method]:
        given = () if options.episodes is None else (f"training.episodes={options.episodes}",)
        return super().methods(case, replace(options, changes=(*options.changes, *given)))

    def settings(self, job: Job) -> dict[str, Any]:
        return assignment(job).settings

    def identity(self, job: Job) -> str:
        return f"{assignment(job).key}/{job.split.hash}"

    def problem(self, case: Case, seed: int, split: Episodes) -> Any:
        return split  # a network says how it reads images

    def labels(self, case: Case) -> NDArray[np.int64]:
        return _images(case.source[0]).labels

    def solve(self, job: Job, problem: Episodes) -> Answers:
        import torch

        from condiff.reproduce.pretraining.episodic import answers
        from condiff.reproduce.pretraining.image_episodes import Pixels, as_images
        from condiff.reproduce.pretraining.trained_methods import finished, load, load_trained

        network, trained = load_trained(assignment(job)), finished(assignment(job))
        pixels = Pixels(load(job.case.source[0], "novel"), network.encoder.normalise)
        started = time.perf_counter()
        found = [answers(network, task.support, task.labels, task.query) for task in as_images(pixels, problem)]
        seconds = time.perf_counter() - started
        more = {EPISODES: float(job.method.training.episodes), SECONDS: trained.seconds}
        if trained.record.best_accuracy is not None:
            more[VALIDATION] = 100 * trained.record.best_accuracy
        return Answers(torch.stack(found).numpy(), 0, seconds, more)


def condition_of(sizes: Sizes, backbone: Any, *, episodic: bool = False) -> Condition:
    """The condition of tasks of these sizes."""
    shape = {"ways": sizes.ways, "shots": sizes.shots, "queries": sizes.queries}
    return Condition(shape, concentration=sizes.concentration, backbone=backbone, episodic=episodic)


@lru_cache(maxsize=2)
def load(path: str) -> ClassFeatures:
    """The features of a file; the same object for all jobs of a process."""
    return load_features(Path(path))


def embedded(dataset: str, backbone: str, on_batch: Callable[[int, int], None] | None = None) -> Path:
    """The file of features of a set's novel classes, in the cache; see :mod:`condiff.reproduce.embedding`."""
    from condiff.reproduce.embedding import dataset_features

    features = dataset_features(dataset, backbone, "novel", on_batch=on_batch)
    path = cache_folder() / "features" / f"{features.name}-{features.fingerprint}.npz"
    if not path.is_file():
        save_features(path, features)
    return path


def tasks(options: FewShotOptions, source: ClassFeatures | ImageSet) -> Episodes:
    """The tasks, drawn or imported, and exported on request."""
    if options.import_splits:
        found = read_episodes(options.import_splits, source)
    else:
        concentration = CONCENTRATION if options.unbalanced else None
        sizes = Sizes(options.ways or 5, options.shot or 1, options.queries or 15, concentration)
        found = draw_episodes(source, sizes, options.tasks or TASKS)
    if options.export_splits:
        write_episodes(options.export_splits, found, source)
    return found


def blocks(episodes: Episodes) -> dict[int, Episodes]:
    """The tasks in blocks, by the number of the first."""
    return {first: episodes.block(first, first + BLOCK) for first in range(0, len(episodes), BLOCK)}


def problems(features: ClassFeatures, episodes: Episodes) -> list[FewShotProblem]:
    """The tasks as a method sees them: without the classes of the queries."""
    import torch

    from condiff.reproduce.baselines.fewshot.problem import FewShotProblem

    labels, base_mean = torch.from_numpy(episodes.support_labels), torch.from_numpy(features.base_mean)
    return [
        FewShotProblem(
            torch.from_numpy(features.features[support]), labels, torch.from_numpy(features.features[query]), base_mean
        )
        for support, query in zip(episodes.support, episodes.query, strict=True)
    ]


def seeds(job: Job) -> list[int]:
    """One for each task of a job, a function of the task alone, for methods that begin at random."""
    known = int.from_bytes(hashlib.sha256(job.case.fingerprint.encode()).digest()[:4], "little")
    numbers = range(job.seed, job.seed + len(job.split))
    return [int(np.random.SeedSequence([known, number]).generate_state(1)[0]) for number in numbers]


def assignment(job: Job) -> Assignment:
    """The training that a job of :class:`Episodic` is about."""
    ways, shots = (int(job.case.condition.number(name)) for name in ("ways", "shots"))
    return _assignment(job.case.source, job.name, job.method, ways, shots)


def training_table(runs: Sequence[Run]) -> dict[str, str]:
    """The cost of the trainings behind the runs, as a file beside the results."""
    trained = {(_title(run), run.method, str(run.settings)): run for run in runs if EPISODES in run.metrics}
    if not trained:
        return {}
    lines = ["| data set | method | episodes | seconds | validation accuracy (%) |", "| --- | --- | --- | --- | --- |"]
    for run in trained.values():
        found = run.metrics.get(VALIDATION)
        accuracy = "-" if found is None else f"{found:.2f}"
        cells = [_title(run), run.method, f"{run.metrics[EPISODES]:.0f}", f"{run.metrics[SECONDS]:.0f}", accuracy]
        lines.append(f"| {' | '.join(cells)} |")
    return {"training.md": "\n".join(lines) + "\n"}


def _pairs(runs: Sequence[Run]) -> dict[str, str]:
    """Methods compared on the same tasks, for every kind of task by itself."""
    texts, found = [], []
    whole = [run for run in runs if run.metrics.get(COUNT) == BLOCK]
    for title in dict.fromkeys(_title(run) for run in whole):
        pairs = paired([run for run in whole if _title(run) == title], ("accuracy",))
        if pairs:
            about = f"{title}: differences over blocks of {BLOCK} tasks that both were run on, ± standard error"
            texts.append(f"{about}.\n\n{pairs_markdown(pairs)}\n")
            found += pairs
    return pairs_texts(found, "\n".join(texts))


def _title(run: Run) -> str:
    return dataset_title(run.task, run.dataset, run.condition)


def _images(dataset: str) -> ImageSet:
    from condiff.reproduce.pretraining.trained_methods import load

    return load(dataset, "novel")


@lru_cache(maxsize=64)
def _assignment(source: tuple[str, str | None], name: str, method: Any, ways: int, shots: int) -> Assignment:
    from condiff.reproduce.pretraining.trained_methods import Assignment

    return Assignment(source[0], name, method, ways, shots, source[1])
