"""The protocol of few-shot learning: many tasks from the features of novel classes, in blocks that a store can hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from condiff.files import cache_folder
from condiff.reproduce.baselines.fewshot.method import FewShotMethod
from condiff.reproduce.baselines.fewshot.problem import FewShotProblem
from condiff.reproduce.blocks import block_metrics
from condiff.reproduce.datasets.features import ClassFeatures, load_features, save_features
from condiff.reproduce.episodes import Episodes, Sizes
from condiff.reproduce.memory import peak_memory
from condiff.reproduce.runs import Run
from condiff.reproduce.store import Key

#: What the paper reports: mean and 95 % interval over all tasks.
METRIC = "accuracy"
#: Tasks in the paper, and in one run.
TASKS, BLOCK = 10_000, 100
#: What Veilleux et al. (2021) draw the classes' shares by.
CONCENTRATION = 2.0
_PROTOCOL = Sizes()


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


def dataset_name(features: ClassFeatures, sizes: Sizes) -> str:
    """``cub-resnet18-5shot``: the features, the shots, and whatever else differs from the paper's tasks."""
    return task_name(features.name.removesuffix("-novel"), sizes)


def task_name(name: str, sizes: Sizes) -> str:
    """The name of a set of images or features with the shape of its tasks."""
    parts = [name]
    if sizes.ways != _PROTOCOL.ways:
        parts.append(f"{sizes.ways}way")
    parts.append(f"{sizes.shots}shot")
    if sizes.queries != _PROTOCOL.queries:
        parts.append(f"{sizes.queries}queries")
    if sizes.concentration is not None:
        parts.append("unbalanced" if sizes.concentration == CONCENTRATION else f"dirichlet{sizes.concentration:g}")
    return "-".join(parts)


def problems(features: ClassFeatures, episodes: Episodes) -> list[FewShotProblem]:
    """What a method may see of the tasks: the classes of the queries are not in it."""
    labels, base_mean = torch.from_numpy(episodes.support_labels), torch.from_numpy(features.base_mean)
    return [
        FewShotProblem(
            torch.from_numpy(features.features[support]), labels, torch.from_numpy(features.features[query]), base_mean
        )
        for support, query in zip(episodes.support, episodes.query, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class FewShotJob:
    """One method on a block of tasks.

    Attributes
    ----------
    path
        The file of features.
    dataset
        As in :func:`dataset_name`.
    fingerprint
        Of the features.
    name, method
        The method.
    first
        The number of the block's first task.
    episodes
        The block.
    """

    path: str
    dataset: str
    fingerprint: str
    name: str
    method: FewShotMethod
    first: int
    episodes: Episodes

    @property
    def key(self) -> Key:
        """What the run is known by."""
        identity = f"{self.fingerprint}/{self.episodes.hash}"
        return Key("fewshot", self.dataset, self.name, self.method.settings(), self.first, 0, identity)

    def seeds(self) -> list[int]:
        """One for each task, a function of the task alone, for methods that begin at random."""
        known = int.from_bytes(hashlib.sha256(self.fingerprint.encode()).digest()[:4], "little")
        numbers = range(self.first, self.first + len(self.episodes))
        return [int(np.random.SeedSequence([known, number]).generate_state(1)[0]) for number in numbers]

    def run(self) -> Run:
        """Solve the tasks and compare with the truth; the same job gives the same answers wherever it runs."""
        features = load(self.path)
        given = problems(features, self.episodes)
        with peak_memory() as peak:
            outcomes = self.method.solve_batch(given, self.seeds())
        answers = np.stack([outcome.scores.argmax(-1).numpy() for outcome in outcomes])
        right = 100 * (answers == self.episodes.query_labels(features.labels)).mean(axis=1)
        seconds = sum(outcome.seconds for outcome in outcomes)
        metrics = block_metrics(METRIC, right)
        return self.key.run(metrics, epochs=outcomes[0].epochs, seconds=seconds, memory_mb=peak.megabytes)


def jobs(path: Path | str, methods: Mapping[str, FewShotMethod], episodes: Episodes) -> list[FewShotJob]:
    """Every method on every block of tasks, block by block, so that all methods advance together."""
    features = load(str(path))
    dataset = dataset_name(features, episodes.sizes)
    return [
        FewShotJob(str(path), dataset, features.fingerprint, name, method, first, episodes.block(first, first + BLOCK))
        for first in range(0, len(episodes), BLOCK)
        for name, method in methods.items()
    ]
