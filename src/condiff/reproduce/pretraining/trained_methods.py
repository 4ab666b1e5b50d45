"""Methods trained on episodes of base classes: each training kept in the cache under a key of all that decides it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from condiff.bases.backbones.checkpoints import Record, load_backbone, load_record, load_tensors
from condiff.encoders.images import backbone_key
from condiff.errors import InvalidInputError
from condiff.files import cache_folder, write_text
from condiff.readers.images import ImageSet, Part
from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod, PretrainedMethod, class_means
from condiff.reproduce.baselines.fewshot.problem import squared_distances
from condiff.reproduce.datasets.image_sets import load_image_set
from condiff.reproduce.episodes import Sizes
from condiff.reproduce.pretraining.augmentation import Augmentation
from condiff.reproduce.pretraining.base_classes import OnBaseClasses, PretrainedNetwork
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, OnEpisodes, episodic_accuracy
from condiff.reproduce.pretraining.epochs import Schedule, fit_in_epochs
from condiff.reproduce.pretraining.image_episodes import ImageEpisodes, Pixels, base_batch
from condiff.reproduce.pretraining.train import CHARACTERS, PHOTOGRAPHS

#: Episodes between checkpoints.
PER_EPOCH = 100
#: A training is measured about so often, each time on so many tasks with so many queries per class.
MEASUREMENTS, VALIDATION_TASKS, QUERIES = 10, 100, 15
# Raised when trainings change, so that those of older versions are not reused.
_VERSION = 1
_SECONDS = "seconds.json"
Tell = Callable[[str], None]


@lru_cache(maxsize=3)
def load(dataset: str, part: Part) -> ImageSet:
    """One part of an image set, loaded once per process."""
    return load_image_set(dataset, part)


@dataclass(frozen=True)
class Assignment:
    """A method to train for tasks of one shape.

    Attributes
    ----------
    dataset
        As in :func:`~condiff.reproduce.datasets.image_sets.load_image_set`.
    name, method
        The method.
    ways, shots
        Of the tasks.
    initial
        The folder of a trained Conv-4 to begin from; None begins at random.
    seed
        Of everything random.
    """

    dataset: str
    name: str
    method: EpisodicMethod
    ways: int
    shots: int
    initial: str | None = None
    seed: int = 0

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that runs are stored under: the method's, and the weights that it began from."""
        begun = {} if self.initial is None else {"initial": backbone_key(load_backbone(self.initial))}
        return {**self.method.settings(), **begun}

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits of everything that determines the trained weights."""
        parts: list[Part] = ["base", "validation"]
        images = [(load(self.dataset, part).fingerprint, load(self.dataset, part).frame.crop) for part in parts]
        facts = [_VERSION, PER_EPOCH, MEASUREMENTS, VALIDATION_TASKS, QUERIES, images]
        facts += [self.name, self.settings, self.ways, self.shots, self.seed]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Where the checkpoints are."""
        base = load(self.dataset, "base").name
        return cache_folder() / "episodic" / f"{base}-{self.name}-{self.ways}way-{self.shots}shot-{self.key}"

    @property
    def described(self) -> dict[str, Any]:
        """For the record of the checkpoints."""
        return {"name": self.name, "ways": self.ways, "shots": self.shots, **self.settings}

    def network(self) -> EpisodicNetwork:
        """The network before training."""
        base = load(self.dataset, "base")
        side, channels = base.frame.crop, base.frame.shape[2]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self.method.build((channels, side, side), self.ways, self.shots, len(base.classes))
        if self.initial is not None:
            trained = load_backbone(self.initial)
            if (trained.name, trained.in_channels, trained.size) != ("conv4", channels, side):
                raise InvalidInputError(
                    f"{self.initial} holds a {trained.name} for {trained.in_channels} channel(s) of {trained.size} "
                    f"pixels, but {self.name} begins from a conv4 for {channels} of {side}: train that one"
                )
            own = network.encoder.state_dict()  # without averages, where a method keeps none
            network.encoder.load_state_dict({name: trained.state_dict()[name] for name in own})
        return network


@dataclass(frozen=True)
class Trained:
    """A finished training: its record, and the seconds that it took, measurements included."""

    record: Record
    seconds: float


def train(assignment: Assignment, tell: Tell | None = None) -> Trained:
    """Train, or resume a training that was stopped; a finished one is returned as it is."""
    network, method, settings = assignment.network(), assignment.method, assignment.method.training
    clock = _Clock(assignment, tell)
    others = 0
    if isinstance(method, PretrainedMethod):
        assert isinstance(network, PretrainedNetwork)
        others = method.others
        if method.pretraining.batches and not (method.replaceable and assignment.initial):
            _pretrain(assignment, method, network, clock)
    pixels = _pixels(assignment, network, augment=settings.augment)
    ways, shots = settings.ways or assignment.ways, settings.shots or assignment.shots
    sizes = fitting_sizes(pixels.images, ways, shots, settings.queries)
    source = ImageEpisodes(pixels, sizes, others, assignment.seed)
    objective = OnEpisodes(
        settings.episodes,
        source.draw,
        source.facts(),
        per_epoch=PER_EPOCH,
        per_step=settings.per_step,
        seed=assignment.seed,
    )
    record = fit_in_epochs(
        network,
        assignment.described,
        objective,
        lambda trained: episodic_accuracy(trained, _validation(assignment, trained)),
        Schedule(settings.schedule(PER_EPOCH), max(1, objective.epochs // MEASUREMENTS)),
        assignment.folder / "episodes",
        data={"key": assignment.key},
        on_epoch=clock.of("episodes", settings.episodes),
    )
    return Trained(record, clock.seconds)


def _pretrain(assignment: Assignment, method: PretrainedMethod, network: PretrainedNetwork, clock: _Clock) -> None:
    """The first stage; the network has the weights of its best measurement afterwards."""
    settings, folder = method.pretraining, assignment.folder / "base"
    pixels = _pixels(assignment, network, augment=method.training.augment)
    objective = OnBaseClasses(
        settings.batches,
        lambda number: base_batch(pixels, settings.batch_size, number, assignment.seed),
        {**pixels.facts(), "batch_size": settings.batch_size},
        per_epoch=PER_EPOCH,
        seed=assignment.seed,
    )

    def nearest_prototypes(trained: PretrainedNetwork) -> float:
        shares = []
        for task in _validation(assignment, trained):
            with torch.no_grad():
                support, query = trained.embed(task.support, task.query)
            predicted = squared_distances(query, class_means(support, task.labels)).argmin(-1)
            shares.append(float((predicted == task.truth).float().mean()))
        return float(np.mean(shares))

    record = fit_in_epochs(
        network,
        assignment.described,
        objective,
        nearest_prototypes,
        Schedule(settings.schedule(PER_EPOCH), max(1, objective.epochs // MEASUREMENTS)),
        folder,
        data={"key": assignment.key},
        on_epoch=clock.of("batches of base classes", settings.batches),
    )
    network.load_state_dict(load_tensors(folder, record, "best"))


def finished(assignment: Assignment) -> Trained:
    """The result of :func:`train`, read from disk."""
    return Trained(load_record(assignment.folder / "episodes"), _Clock(assignment, None).seconds)


@lru_cache(maxsize=2)
def load_trained(assignment: Assignment) -> EpisodicNetwork:
    """The network with the weights of its best measurement, ready for novel tasks."""
    network, folder = assignment.network(), assignment.folder / "episodes"
    network.load_state_dict(load_tensors(folder, load_record(folder), "best"))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval()


def fitting_sizes(images: ImageSet, ways: int, shots: int, queries: int) -> Sizes:
    """The shape of tasks, limited to the classes and images that a set has."""
    fewest = int(np.bincount(images.labels).min())
    return Sizes(min(ways, len(images.classes)), shots, max(1, min(queries, fewest - shots)))


def _pixels(assignment: Assignment, network: EpisodicNetwork, *, augment: bool) -> Pixels:
    base = load(assignment.dataset, "base")
    recipe = CHARACTERS if assignment.dataset == "omniglot" else PHOTOGRAPHS
    drawn = Augmentation(base.frame.crop, recipe.scale, recipe.ratio, recipe.flip, recipe.jitter)
    return Pixels(base, network.encoder.normalise, drawn if augment else None)


def _validation(assignment: Assignment, network: EpisodicNetwork) -> Iterator[Episode]:
    held_out = load(assignment.dataset, "validation")
    sizes = fitting_sizes(held_out, assignment.ways, assignment.shots, QUERIES)
    return ImageEpisodes(Pixels(held_out, network.encoder.normalise), sizes).draw(0, VALIDATION_TASKS)


class _Clock:
    """Adds up a training's seconds over interruptions, in a file of its own: checkpoints are reproducible bytes."""

    def __init__(self, assignment: Assignment, tell: Tell | None) -> None:
        self.path, self.name, self.tell = assignment.folder / _SECONDS, assignment.name, tell
        self.seconds = float(json.loads(self.path.read_text())["seconds"]) if self.path.is_file() else 0.0
        self._last = time.perf_counter()

    def of(self, what: str, total: int) -> Callable[[dict[str, Any]], None]:
        """The callback for the epochs of one stage."""

        def on_epoch(entry: dict[str, Any]) -> None:
            now = time.perf_counter()
            self.seconds, self._last = self.seconds + now - self._last, now
            write_text(self.path, json.dumps({"seconds": self.seconds}) + "\n")
            if self.tell is not None and "accuracy" in entry:
                done = min(total, (entry["epoch"] + 1) * PER_EPOCH)
                accuracy = f"validation accuracy {100 * entry['accuracy']:.2f} %"
                self.tell(f"{self.name}: {done} of {total} {what}, {accuracy}, {self.seconds:.0f} s")

        return on_epoch
