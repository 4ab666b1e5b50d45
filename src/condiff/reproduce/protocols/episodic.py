"""Novel tasks for methods that were trained on episodes, in the same blocks and store as those on fixed features."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass

import numpy as np

from condiff.errors import CondiffError
from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod
from condiff.reproduce.blocks import block_metrics
from condiff.reproduce.episodes import Episodes
from condiff.reproduce.memory import peak_memory
from condiff.reproduce.pretraining.episodic import answers
from condiff.reproduce.pretraining.image_episodes import Pixels, as_images
from condiff.reproduce.pretraining.trained_methods import Assignment, Tell, finished, load, load_trained, train
from condiff.reproduce.protocols import fewshot
from condiff.reproduce.runner import Job
from condiff.reproduce.runs import Run
from condiff.reproduce.store import Key

#: What the names of their data sets have in them, and no others.
MARK = "-conv4-episodic"
#: What a run tells of the training behind it.
EPISODES, SECONDS, VALIDATION = "training_episodes", "training_seconds", "validation_accuracy"


@dataclass(frozen=True, eq=False)
class EpisodicJob:
    """One trained method on a block of novel tasks.

    Attributes
    ----------
    assignment
        The training.
    dataset
        Under which runs are kept, such as ``omniglot-conv4-episodic-1shot``.
    first
        The number of the block's first task.
    episodes
        The block.
    """

    assignment: Assignment
    dataset: str
    first: int
    episodes: Episodes

    @property
    def key(self) -> Key:
        """What the run is known by."""
        identity = f"{self.assignment.key}/{self.episodes.hash}"
        return Key("fewshot", self.dataset, self.assignment.name, self.assignment.settings, self.first, 0, identity)

    def run(self) -> Run:
        """Tell the queries and compare with the truth."""
        network, trained = load_trained(self.assignment), finished(self.assignment)
        pixels = Pixels(load(self.assignment.dataset, "novel"), network.encoder.normalise)
        right = []
        with peak_memory() as peak:
            started = time.perf_counter()
            for task in as_images(pixels, self.episodes):
                told = answers(network, task.support, task.labels, task.query)
                right.append(100 * float((told == task.truth).double().mean()))
            seconds = time.perf_counter() - started
        metrics = block_metrics(fewshot.METRIC, np.array(right))
        metrics |= {EPISODES: float(self.assignment.method.training.episodes), SECONDS: trained.seconds}
        if trained.record.best_accuracy is not None:
            metrics[VALIDATION] = 100 * trained.record.best_accuracy
        return self.key.run(metrics, epochs=0, seconds=seconds, memory_mb=peak.megabytes)


def jobs(
    dataset: str, methods: Mapping[str, EpisodicMethod], episodes: Episodes, initial: str | None = None
) -> list[EpisodicJob]:
    """Every method on every block of tasks, block by block."""
    sizes = episodes.sizes
    title = title_of(dataset, episodes)
    assigned = [Assignment(dataset, name, each, sizes.ways, sizes.shots, initial) for name, each in methods.items()]
    return [
        EpisodicJob(assignment, title, first, episodes.block(first, first + fewshot.BLOCK))
        for first in range(0, len(episodes), fewshot.BLOCK)
        for assignment in assigned
    ]


def title_of(dataset: str, episodes: Episodes) -> str:
    """The name that the runs of a data set's tasks are kept under."""
    return fewshot.task_name(load(dataset, "novel").name + MARK, episodes.sizes)


def prepare(pool: Executor, missing: Sequence[Job], tell: Tell) -> None:
    """Train what the missing runs need, each method in a process of its own."""
    wanted = dict.fromkeys(job.assignment for job in missing if isinstance(job, EpisodicJob))
    begun = [pool.submit(train, assignment, tell) for assignment in wanted]
    try:
        for training in begun:
            training.result()
    except BrokenExecutor as error:
        raise CondiffError(
            "a training process died, perhaps for want of memory; what was finished is kept, and the same command goes "
            "on from there (try fewer --jobs)"
        ) from error


def training_table(runs: Sequence[Run]) -> dict[str, str]:
    """What the trainings behind runs took, as a file beside the results."""
    trained = {(run.dataset, run.method, str(run.settings)): run for run in runs if EPISODES in run.metrics}
    if not trained:
        return {}
    lines = ["| data set | method | episodes | seconds | validation accuracy (%) |", "| --- | --- | --- | --- | --- |"]
    for run in trained.values():
        found = run.metrics.get(VALIDATION)
        accuracy = "-" if found is None else f"{found:.2f}"
        cells = [run.dataset, run.method, f"{run.metrics[EPISODES]:.0f}", f"{run.metrics[SECONDS]:.0f}", accuracy]
        lines.append(f"| {' | '.join(cells)} |")
    return {"training.md": "\n".join(lines) + "\n"}
