"""Fitting and predicting with shards: the single-process fit, with its sums taken over all ranks."""

from __future__ import annotations

import math
import resource
import sys
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
from condiff.files import atomic_path, refusing
from condiff.training import EarlyStopping, Training
from condiff.training.descent import OnEpoch, descend
from condiff.training.problem import Items


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


def fit(
    shards: Path,
    folder: Path,
    settings: Fit | None = None,
    *,
    ranks: Ranks | None = None,
    on_epoch: OnEpoch | None = None,
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
    model = _Trained(settings, shard, ranks)
    record = model.resume(folder)
    if not record.finished or (len(record.losses) < settings.training.epochs and not _stopped(record, settings)):
        _descend(model, record, folder, on_epoch)
    else:
        model.give_back()
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
    model = ShardedCOIN(network, shard, ranks, block_rows=(settings or Fit()).block_rows)
    model.best = checkpoint.unpack(tensors, model.base)
    model.give_back()
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
    with refusing(folder, "the output of a sharded fit", "run 'predict' again"):
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


def _stopped(record: Record, settings: Fit) -> bool:
    """Whether patience had run out."""
    patience = settings.training.patience
    return patience is not None and record.best_epoch >= 0 and len(record.losses) - 1 - record.best_epoch >= patience


class _Trained(ShardedCOIN):
    """The network with torch's optimiser, whose state is part of a checkpoint."""

    def __init__(self, settings: Fit, shard: Shard, ranks: Ranks) -> None:
        super().__init__(settings.network, shard, ranks, block_rows=settings.block_rows)
        self.settings, self.training, self.epoch = settings, settings.training, 0
        self.torch_optimiser = self.training.make_optimiser(self.base.parameters())

    def resume(self, folder: Path) -> Record:
        """Take up what a folder holds, or begin."""
        facts = self.settings.facts(self.shard.description)
        found = checkpoint.load_shared(folder, self.ranks)
        if found is None:
            return Record(facts)
        record, tensors = found
        checkpoint.check_same(record, facts, folder)
        self.best = checkpoint.unpack(tensors, self.base, self.torch_optimiser)
        self.epoch = len(record.losses)
        return record

    def step(self) -> None:
        """Move the weights, the same way on every rank."""
        for group in self.torch_optimiser.param_groups:
            group["lr"] = self.training.learning_rate_at(self.epoch)
        self.torch_optimiser.step()
        self.epoch += 1

    def stopping(self, record: Record) -> EarlyStopping | None:
        """Early stopping from where the record is."""
        if not self.shard.description.n_validation or self.training.patience is None:
            return None
        return EarlyStopping(
            self.training.patience,
            self.keep,
            math.inf if record.best_loss is None else record.best_loss,
            -math.inf if record.best_score is None else record.best_score,
            record.best_epoch,
            len(record.losses) - 1 - record.best_epoch if record.best_epoch >= 0 else 0,
        )

    def items(self, role: int, count: int) -> Items:
        """Own items with a role, of ``count`` over all ranks."""
        nodes = self.shard.with_role(role)
        weight = torch.full(nodes.shape, 1.0 / max(count, 1), dtype=self.network.torch_dtype)
        return Items(nodes, self.shard.labels[nodes], weight, count)


def _descend(model: _Trained, record: Record, folder: Path, on_epoch: OnEpoch | None) -> None:
    problem, settings, ranks = model.shard.description, model.settings, model.ranks
    stopping = model.stopping(record)

    def after(epoch: int, loss: float) -> None:
        if not math.isfinite(loss):
            raise InvalidInputError(f"the fit diverged in epoch {epoch}: the loss is {loss}; lower the learning rate")
        record.losses.append(loss)
        record.finished = epoch + 1 == settings.training.epochs
        if stopping is not None:
            record.best_loss, record.best_score = stopping.best_loss, stopping.best_score
            record.best_epoch = stopping.best_epoch
            record.finished |= stopping.exhausted
        if ranks.first and (record.finished or (epoch + 1) % settings.checkpoint_every == 0):
            checkpoint.save(folder, record, checkpoint.pack(model.base, model.best, model.torch_optimiser))
        if on_epoch is not None:
            on_epoch(epoch, loss)

    descend(
        model,
        model,
        model.items(TRAIN, problem.n_train),
        "softmax",
        settings.training,
        held_out=model.items(VALIDATION, problem.n_validation),
        stopping=stopping,
        first_epoch=model.epoch,
        total=lambda sums: ranks.add_up(sums.double()),
        on_epoch=after,
    )


def _finish(model: ShardedCOIN, record: Record, ranks: Ranks) -> Fitted:
    shard = model.shard
    with torch.no_grad():
        u = model.diffuse(model.outputs()[0])
        tested = (shard.roles == REST) & (shard.labels >= 0)
        right = (u.argmax(-1) == shard.labels) & tested
        counts = ranks.add_up(torch.stack([right.sum(), tested.sum()]).double())
    accuracy = 100.0 * float(counts[0]) / float(counts[1]) if counts[1] else None
    return Fitted(record, u, shard.nodes, accuracy)
