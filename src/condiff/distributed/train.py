"""Fitting and predicting with shards: the single-process fit, with its sums taken over all ranks."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from condiff.distributed import checkpoint
from condiff.distributed.checkpoint import Record
from condiff.distributed.group import Ranks
from condiff.distributed.model import Network, ShardedCOIN
from condiff.distributed.shards import REST, TRAIN, VALIDATION, Description, Shard, part_folder
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import atomic_path
from condiff.training import EarlyStopping, Training, pointwise_loss


@dataclass(frozen=True)
class Fit:
    """A fit by its settings.

    Attributes
    ----------
    network
        Base network and diffusion.
    training
        Optimiser, schedule and stopping. More ``epochs`` than before continue a fit that ran to its end.
    block_rows
        Rows that go through the base network at a time; a matter of memory alone.
    checkpoint_every
        Epochs between checkpoints.
    """

    network: Network = field(default_factory=Network)
    training: Training = field(default_factory=Training)
    block_rows: int = 16_384
    checkpoint_every: int = 10

    def __post_init__(self) -> None:
        if self.checkpoint_every < 1:
            raise InvalidInputError(f"checkpoint_every must be at least 1, not {self.checkpoint_every}")

    def facts(self, problem: Description) -> dict[str, Any]:
        """What settles the answer, apart from rounding."""
        training = asdict(self.training) | {"milestones": list(self.training.milestones)}
        del training["epochs"]
        return {**problem.problem, **asdict(self.network), **training}


@dataclass
class Fitted:
    """What a fit leaves on each rank.

    Attributes
    ----------
    record
        Losses and the best epoch.
    u
        The output of own nodes, with the weights that were kept.
    nodes
        Their numbers in the whole graph.
    accuracy
        Percent of all nodes with a known label and no role that are right; None where there are none.
    """

    record: Record
    u: Tensor
    nodes: np.ndarray[Any, np.dtype[np.int64]]
    accuracy: float | None


@dataclass(frozen=True)
class _Figures:
    """Of one epoch over all ranks: training loss; validation loss and accuracy, NaN without validation nodes."""

    loss: float
    validation_loss: float
    validation_score: float


def fit(
    shards: Path,
    folder: Path,
    settings: Fit | None = None,
    *,
    ranks: Ranks | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> Fitted:
    """Fit a COIN whose nodes are spread over the ranks; go on where ``folder`` left off.

    The loss is the mean over the training nodes of all ranks, and gradients are summed over ranks, so this is the fit
    of a single process up to rounding. Every rank must call it.

    Parameters
    ----------
    shards
        What :func:`~condiff.distributed.write_shards` wrote for this number of ranks.
    folder
        For checkpoints; the first rank alone reads and writes there.
    settings
        Network and training.
    ranks
        The job, from :func:`~condiff.distributed.joined`; a single process by default.
    on_epoch
        Called with each finished epoch and its loss.
    """
    settings, ranks = settings or Fit(), ranks or Ranks()
    shard = Shard.load(shards, ranks, settings.network.torch_dtype)
    problem = shard.description
    if settings.network.strength != "auto" and ranks.first:
        settings.network.certificate(problem).check(settings.network.strength)
    model = ShardedCOIN(settings.network, shard, block_rows=settings.block_rows)
    optimiser = settings.training.make_optimiser(model.base.parameters())
    record, best = _begin(folder, settings, model, optimiser, ranks)

    def keep() -> None:
        best.update({name: value.detach().clone() for name, value in model.base.state_dict().items()})

    stopping = None
    if problem.n_validation and settings.training.patience is not None:
        seen = len(record.losses) - 1 - record.best_epoch if record.best_epoch >= 0 else 0
        stopping = EarlyStopping(
            settings.training.patience,
            keep,
            math.inf if record.best_loss is None else record.best_loss,
            -math.inf if record.best_score is None else record.best_score,
            record.best_epoch,
            seen,
        )
    if not record.finished or (len(record.losses) < settings.training.epochs and not _stopped(record, settings)):
        _descend(model, optimiser, record, best, stopping, settings, folder, ranks, on_epoch)
    model.base.load_state_dict(best or model.base.state_dict())
    return _finish(model, record, ranks)


def predict(shards: Path, folder: Path, settings: Fit | None = None, *, ranks: Ranks | None = None) -> Fitted:
    """The output of own nodes with the weights that a fit kept; its settings are read from the fit."""
    ranks = ranks or Ranks()
    found = checkpoint.load_shared(folder, ranks)
    if found is None:
        raise InvalidFileError(f"{folder} holds no fit: run 'fit' first")
    record, tensors = found
    names = {name for name in Network.__dataclass_fields__ if name in record.facts}
    network = Network(**{name: record.facts[name] for name in names})
    shard = Shard.load(shards, ranks, network.torch_dtype)
    model = ShardedCOIN(network, shard, block_rows=(settings or Fit()).block_rows)
    best = checkpoint.unpack(tensors, model.base)
    model.base.load_state_dict(best or model.base.state_dict())
    return _finish(model, record, ranks)


def save_output(folder: Path, fitted: Fitted, ranks: Ranks) -> None:
    """Write ``nodes.npy`` and ``u.npy`` of this rank's part; :func:`gather_output` puts all parts together."""
    place = part_folder(folder, ranks.rank)
    for name, array in (("nodes", fitted.nodes), ("u", fitted.u.numpy())):
        with atomic_path(place / f"{name}.npy") as temporary, temporary.open("wb") as stream:
            np.save(stream, array)


def gather_output(folder: Path) -> np.ndarray[Any, Any]:
    """The output of all nodes, in their order, from what every rank wrote."""
    places = sorted(folder.glob("part-*"))
    if not places:
        raise InvalidFileError(f"{folder} holds no output: run 'predict' first")
    parts = [(np.load(place / "nodes.npy"), np.load(place / "u.npy")) for place in places]
    nodes = np.concatenate([nodes for nodes, _ in parts])
    if not np.array_equal(np.sort(nodes), np.arange(nodes.size)):
        raise InvalidFileError(f"{folder} lacks the output of some ranks")
    u = np.empty((nodes.size, parts[0][1].shape[1]), dtype=parts[0][1].dtype)
    u[nodes] = np.concatenate([u for _, u in parts])
    return u


def usage(ranks: Ranks, shard_size: int) -> list[dict[str, float]]:
    """Of each rank: border rows and bytes sent, exchanges, messages, seconds in them, peak memory in bytes."""
    traffic = ranks.traffic
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    names = ("exchanges", "messages", "rows", "payload", "seconds", "peak_memory", "shard_bytes")
    values = [*(getattr(traffic, name) for name in names[:5]), peak, shard_size]
    table = ranks.side_by_side(torch.tensor(values, dtype=torch.float64))
    return [dict(zip(names, row, strict=True)) for row in table.tolist()]


def _begin(
    folder: Path, settings: Fit, model: ShardedCOIN, optimiser: torch.optim.Optimizer, ranks: Ranks
) -> tuple[Record, dict[str, Tensor]]:
    facts = settings.facts(model.shard.description)
    found = checkpoint.load_shared(folder, ranks)
    if found is None:
        return Record(facts), {}
    record, tensors = found
    checkpoint.check_same(record, facts, folder)
    return record, checkpoint.unpack(tensors, model.base, optimiser)


def _stopped(record: Record, settings: Fit) -> bool:
    """Whether patience had run out."""
    patience = settings.training.patience
    return patience is not None and record.best_epoch >= 0 and len(record.losses) - 1 - record.best_epoch >= patience


def _descend(
    model: ShardedCOIN,
    optimiser: torch.optim.Optimizer,
    record: Record,
    best: dict[str, Tensor],
    stopping: EarlyStopping | None,
    settings: Fit,
    folder: Path,
    ranks: Ranks,
    on_epoch: Callable[[int, float], None] | None,
) -> None:
    training = settings.training
    record.finished = False
    # One forward pass serves twice: the loss that the next step descends on, and the validation of the last one.
    u0, mean_loss, figures = _forward(model, ranks)
    for epoch in range(len(record.losses), training.epochs):
        for group in optimiser.param_groups:
            group["lr"] = training.learning_rate_at(epoch)
        if not math.isfinite(figures.loss):
            raise InvalidInputError(f"the fit diverged in epoch {epoch}: the loss is {figures.loss}; lower the rate")
        optimiser.zero_grad(set_to_none=True)
        mean_loss.backward()
        assert u0.grad is not None
        model.pull_back(u0.grad)
        _sum_gradients(model, ranks)
        optimiser.step()
        record.losses.append(figures.loss)
        u0, mean_loss, figures = _forward(model, ranks)
        if stopping is not None:
            record.finished = stopping.should_stop(epoch, figures.validation_loss, figures.validation_score)
            record.best_loss, record.best_score = stopping.best_loss, stopping.best_score
            record.best_epoch = stopping.best_epoch
        record.finished |= epoch + 1 == training.epochs
        if ranks.first and (record.finished or (epoch + 1) % settings.checkpoint_every == 0):
            checkpoint.save(folder, record, checkpoint.pack(model.base, best, optimiser))
        if on_epoch is not None:
            on_epoch(epoch, record.losses[-1])
        if record.finished:
            break


def _forward(model: ShardedCOIN, ranks: Ranks) -> tuple[Tensor, Tensor, _Figures]:
    """The base network's output, this rank's part of the mean loss as a function of it, and all ranks' figures."""
    problem, shard = model.shard.description, model.shard
    u0 = model.initial()
    u = model.diffuse(u0)
    train, held_out = shard.with_role(TRAIN), shard.with_role(VALIDATION)
    mean_loss = pointwise_loss(u[train], shard.labels[train], "softmax").sum() / problem.n_train
    with torch.no_grad():
        there, truth = u[held_out], shard.labels[held_out]
        sums = torch.stack(
            [
                mean_loss.double(),
                pointwise_loss(there, truth, "softmax").double().sum(),
                (there.argmax(-1) == truth).double().sum(),
            ]
        )
    ranks.add_up(sums)
    count = problem.n_validation or math.nan
    return u0, mean_loss, _Figures(float(sums[0]), float(sums[1]) / count, float(sums[2]) / count)


def _sum_gradients(model: ShardedCOIN, ranks: Ranks) -> None:
    """One sum over ranks for the gradients of all weights."""
    gradients = [parameter.grad for parameter in model.base.parameters() if parameter.grad is not None]
    flat = ranks.add_up(torch.cat([gradient.flatten() for gradient in gradients]))
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _finish(model: ShardedCOIN, record: Record, ranks: Ranks) -> Fitted:
    shard = model.shard
    with torch.no_grad():
        u = model.diffuse(model.initial().detach())
        tested = (shard.roles == REST) & (shard.labels >= 0)
        right = (u.argmax(-1) == shard.labels) & tested
        counts = ranks.add_up(torch.stack([right.sum(), tested.sum()]).double())
    accuracy = 100.0 * float(counts[0]) / float(counts[1]) if counts[1] else None
    return Fitted(record, u, shard.nodes, accuracy)
