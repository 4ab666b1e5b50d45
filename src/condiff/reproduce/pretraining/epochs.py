"""Training in epochs: one loop for any network and objective, which resumes where it was stopped.

Everything random in an epoch comes from a generator made from the seed and the epoch's number, so its state need not
be stored: a training that was stopped and one that was not end with the same bytes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from condiff.bases.backbones.checkpoints import Record, load_record, load_tensors, save_checkpoint
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.training.settings import Training

Network = TypeVar("Network", bound=nn.Module)


class Objective(nn.Module, Generic[Network]):
    """What a network is trained for. Its own parameters, such as a linear head, are trained with it."""

    @abstractmethod
    def losses(self, network: Network, epoch: int) -> Iterator[Tensor]:
        """One loss for each step of an epoch; the loop descends on it before it asks for the next."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """JSON values that determine the objective: a training is resumed only where they are the same."""

    def parameter_groups(self, network: Network) -> list[dict[str, Any]]:
        """What is trained, as torch's optimisers take it; a group's ``factor`` multiplies its learning rate."""
        return [{"params": [*network.parameters(), *self.parameters()]}]

    def mend_gradients(self, network: Network) -> None:  # most objectives take them as they are
        """Called between a loss's gradients and the step, for objectives that clip them."""


@dataclass(frozen=True)
class Schedule:
    """How long a network trains and when it is measured.

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


def fit_in_epochs(
    network: Network,
    described: dict[str, Any],
    objective: Objective[Network],
    validate: Callable[[Network], float],
    schedule: Schedule,
    folder: Path,
    *,
    data: dict[str, Any] | None = None,
    on_step: Callable[[int, int, float], None] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Record:
    """Train a network, in place, with a checkpoint after every epoch; resume where ``folder`` left off.

    Parameters
    ----------
    network, objective
        The network to train, and its objective; freshly made, even when a training is resumed.
    described
        JSON values from which the network can be made again.
    validate
        Measures the network on the validation classes: higher is better, and the best epoch's weights are kept.
    schedule
        How long.
    folder
        Where the checkpoints go; it must be absent, empty, or hold the same training.
    data
        JSON values that determine the data, stored and compared when a training is resumed.
    on_step
        Called with the epoch, the steps done in it and the last loss.
    on_epoch
        Called with each finished epoch's entry in the record.

    Returns
    -------
    Record
        Of the whole training; its folder has the best weights.
    """
    facts = {**objective.facts(), **_plain(asdict(schedule)), "data": _plain(data or {})}
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = schedule.training.make_optimiser(objective.parameter_groups(network))
    record = _begin(folder, _plain(described), _plain(facts))
    if record.epochs:
        _restore(network, objective, optimiser, load_tensors(folder, record, "state"), folder)
    for epoch in range(len(record.epochs), schedule.training.epochs):
        for group in optimiser.param_groups:
            group["lr"] = schedule.training.learning_rate_at(epoch) * group.get("factor", 1.0)
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
    network: Network,
    objective: Objective[Network],
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
        objective.mend_gradients(network)
        value = float(loss.detach())
        if not (math.isfinite(value) or _finite_gradients(optimiser)):
            raise InvalidInputError(f"the loss is {value} in epoch {epoch}: lower the learning rate")
        optimiser.step()
        values.append(value)
        if on_step is not None:
            on_step(epoch, len(values), values[-1])
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        raise InvalidInputError(f"the loss is {values[-1]} in all of epoch {epoch}: lower the learning rate")
    return math.fsum(finite) / len(finite)


def _finite_gradients(optimiser: torch.optim.Optimizer) -> bool:
    """Whether the objective replaced the gradients of a loss that is not finite, so that training can go on."""
    values = (value for group in optimiser.param_groups for value in group["params"])
    return all(bool(value.grad.isfinite().all()) for value in values if value.grad is not None)


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


def _state(network: nn.Module, objective: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"objective.{name}": value for name, value in objective.state_dict().items()}
    for number, values in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in values.items()}
    return tensors


def _restore(
    network: nn.Module, objective: nn.Module, optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], folder: Path
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


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from JSON: tuples are lists."""
    return {
        key: _plain(item) if isinstance(item, dict) else list(item) if isinstance(item, tuple) else item
        for key, item in value.items()
    }
