"""Training a backbone on base classes: one loop for any objective, which goes on where it was stopped.

Everything random in an epoch comes from a generator that the seed and the epoch's number make, so nothing of it has to
be stored: a training that was stopped and one that was not end with the same bytes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from condiff.convection.backbones import Backbone, unit_range
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.training.augmentation import Augmentation
from condiff.training.checkpoints import Record, describe, load_record, load_tensors, save_checkpoint
from condiff.training.settings import Training


def multi_step(epochs: int, learning_rate: float = 0.1) -> Training:
    """SGD as the paper's backbones have it: momentum 0.9, weight decay 5e-4, x0.1 at half and at three quarters."""
    milestones = tuple(sorted({epochs // 2, epochs * 3 // 4} - {0}))
    return Training(
        "sgd", learning_rate, momentum=0.9, weight_decay=5e-4, epochs=epochs, milestones=milestones, patience=None
    )


class Objective(nn.Module):
    """What a backbone is trained for. Its own parameters, such as a linear head, are trained along."""

    @abstractmethod
    def losses(self, network: Backbone, epoch: int) -> Iterator[Tensor]:
        """One loss for each step of an epoch; the loop descends on it before it asks for the next."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """JSON values that settle the objective: a training goes on only where they are the same."""


class Classification(Objective):
    """Tell the base classes apart: a linear head and cross-entropy with smoothed labels, on augmented batches.

    Parameters
    ----------
    images, labels
        Bytes of shape (n, h, w, channels), which may be memory-mapped, and their classes from 0 on.
    in_features
        Width of the backbone's features.
    augmentation
        What is done to each batch.
    batch_size, label_smoothing, seed
        As their names say; the last batch of an epoch may be smaller, but a single image joins the one before.
    """

    def __init__(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        in_features: int,
        augmentation: Augmentation,
        *,
        batch_size: int = 64,
        label_smoothing: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if batch_size < 2 or len(images) < 2:
            raise InvalidInputError("batch normalisation needs at least two images in a batch")
        if not 0 <= label_smoothing < 1:
            raise InvalidInputError(f"label_smoothing must be at least 0 and below 1, not {label_smoothing}")
        self.images, self.labels, self.augmentation = images, torch.from_numpy(labels), augmentation
        self.batch_size, self.label_smoothing, self.seed = batch_size, label_smoothing, seed
        self.head = nn.Linear(in_features, int(labels.max()) + 1)

    def losses(self, network: Backbone, epoch: int) -> Iterator[Tensor]:
        """Cross-entropy of each batch of a random order of the images."""
        generator = epoch_generator(self.seed, epoch)
        order = torch.randperm(len(self.images), generator=generator)
        for chosen in _batches(order, self.batch_size):
            pixels = unit_range(torch.from_numpy(self.images[chosen.numpy()]))
            inputs = network.normalise(self.augmentation(pixels, generator))
            outputs = self.head(network(inputs.contiguous(memory_format=torch.channels_last)))
            yield functional.cross_entropy(outputs, self.labels[chosen], label_smoothing=self.label_smoothing)

    def facts(self) -> dict[str, Any]:
        """The settings, without the data, which the caller knows by name."""
        return {
            "objective": "classification",
            "augmentation": asdict(self.augmentation),
            "batch_size": self.batch_size,
            "label_smoothing": self.label_smoothing,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Schedule:
    """How long a backbone trains and when it is measured.

    Attributes
    ----------
    training
        Optimiser, epochs and learning rates.
    validate_every
        Epochs between measurements on the validation classes; the last epoch is always measured.
    """

    training: Training
    validate_every: int = 1

    def __post_init__(self) -> None:
        if self.validate_every < 1:
            raise InvalidInputError(f"validate_every must be at least 1, not {self.validate_every}")

    def measures(self, epoch: int) -> bool:
        """Whether an epoch, counted from 0, ends with a measurement."""
        return (epoch + 1) % self.validate_every == 0 or epoch + 1 == self.training.epochs


def fit_backbone(
    network: Backbone,
    objective: Objective,
    validate: Callable[[Backbone], float],
    schedule: Schedule,
    folder: Path,
    *,
    data: dict[str, Any] | None = None,
    on_step: Callable[[int, int, float], None] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Record:
    """Train a backbone, in place, with a checkpoint after every epoch; go on where ``folder`` left off.

    Parameters
    ----------
    network, objective
        What is trained, and for what; freshly made, also when the training goes on.
    validate
        Measures the network on the validation classes: higher is better, and the best epoch's weights are kept.
    schedule
        How long.
    folder
        Where the checkpoints go; it must be absent, empty, or hold the same training.
    data
        JSON values that settle the data, stored and compared when the training goes on.
    on_step
        Called with the epoch, the steps done in it and the last loss.
    on_epoch
        Called with each finished epoch's entry in the record.

    Returns
    -------
    Record
        Of the whole training; :func:`~condiff.training.checkpoints.load_backbone` gives the best weights.
    """
    facts = {**objective.facts(), **_plain(asdict(schedule)), "data": _plain(data or {})}
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = schedule.training.make_optimiser([*network.parameters(), *objective.parameters()])
    record = _begin(folder, describe(network), _plain(facts))
    if record.epochs:
        _restore(network, objective, optimiser, load_tensors(folder, record, "state"), folder)
    for epoch in range(len(record.epochs), schedule.training.epochs):
        for group in optimiser.param_groups:
            group["lr"] = schedule.training.learning_rate_at(epoch)
        entry: dict[str, Any] = {"epoch": epoch, "loss": _run_epoch(network, objective, optimiser, epoch, on_step)}
        improved = False
        if schedule.measures(epoch):
            network.eval()
            entry["accuracy"] = validate(network)
            improved = record.best_accuracy is None or entry["accuracy"] > record.best_accuracy
            if improved:
                record.best_epoch, record.best_accuracy = epoch, entry["accuracy"]
        record.epochs.append(entry)
        best = network.state_dict() if improved else None
        save_checkpoint(folder, record, _state(network, objective, optimiser), best)
        if on_epoch is not None:
            on_epoch(entry)
    network.eval()
    return record


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The generator of everything random in an epoch."""
    words = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(words[0]) >> 1)


def _run_epoch(
    network: Backbone,
    objective: Objective,
    optimiser: torch.optim.Optimizer,
    epoch: int,
    on_step: Callable[[int, int, float], None] | None,
) -> float:
    network.train()
    objective.train()
    values = []
    for loss in objective.losses(network, epoch):
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        values.append(float(loss.detach()))
        if not math.isfinite(values[-1]):
            raise InvalidInputError(f"the loss is {values[-1]} in epoch {epoch}: lower the learning rate")
        if on_step is not None:
            on_step(epoch, len(values), values[-1])
    return math.fsum(values) / len(values)


def _begin(folder: Path, network: dict[str, Any], facts: dict[str, Any]) -> Record:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not (folder / "backbone.json").is_file():
            raise InvalidInputError(f"{folder} exists and is not a condiff backbone; choose another name or remove it")
        record = load_record(folder)
        for key, value in {"backbone": network, **facts}.items():
            before = record.backbone if key == "backbone" else record.facts.get(key)
            if before != value:
                raise InvalidInputError(
                    f"{folder} holds a training with other settings ({key} was {before}, now {value}); "
                    "give the same ones to go on, or another folder"
                )
        return record
    return Record(network, facts)


def _state(network: Backbone, objective: Objective, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"objective.{name}": value for name, value in objective.state_dict().items()}
    for number, values in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in values.items()}
    return tensors


def _restore(
    network: Backbone, objective: Objective, optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], folder: Path
) -> None:
    parts: dict[str, dict[str, Tensor]] = {"network": {}, "objective": {}, "optimiser": {}}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        parts.setdefault(kind, {})[rest] = value
    whole = optimiser.state_dict()
    for name, value in parts["optimiser"].items():
        number, _, rest = name.partition(".")
        whole["state"].setdefault(int(number), {})[rest] = value
    try:
        network.load_state_dict(parts["network"])
        objective.load_state_dict(parts["objective"])
        optimiser.load_state_dict(whole)
    except (RuntimeError, ValueError) as error:
        raise InvalidFileError(f"{folder}: the state does not fit the training ({error}); train again") from error


def _batches(order: Tensor, size: int) -> Iterator[Tensor]:
    cuts = list(range(size, len(order), size))
    if cuts and len(order) - cuts[-1] == 1:
        cuts.pop()  # a batch of one image has no variance to normalise by
    yield from torch.tensor_split(order, cuts)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from JSON: tuples are lists."""
    return {
        key: _plain(item) if isinstance(item, dict) else list(item) if isinstance(item, tuple) else item
        for key, item in value.items()
    }
