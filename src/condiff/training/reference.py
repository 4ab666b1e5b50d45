"""The plain fit: full-batch autograd through every layer, the readable version to which fast engines are held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import laplacian
from condiff.model import COIN
from condiff.training.losses import pointwise_loss, score
from condiff.training.settings import Training
from condiff.training.stopping import EarlyStopping, Snapshot


@dataclass
class History:
    """What happened in a fit: the training loss of every epoch, and the epoch whose weights were kept."""

    losses: list[float] = field(default_factory=list)
    best_epoch: int = -1


def fit(
    model: COIN,
    x: Tensor,
    graph: Any,
    target: Tensor,
    train: Tensor,
    *,
    validation: Tensor | None = None,
    sample_weight: Tensor | None = None,
    penalty: Callable[[Tensor], Tensor] | None = None,
    settings: Training | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> History:
    """Fit a COIN on the nodes ``train`` of a graph, in place.

    Parameters
    ----------
    model
        The network; it is moved nowhere, so give ``x`` in its precision and on its device.
    x
        Features of all nodes, labelled or not.
    graph
        What :meth:`COIN.forward` takes as graph, except an edge list.
    target
        Classes (softmax), zeros and ones (sigmoid) or values (identity) of all nodes; only those at ``train`` and
        ``validation`` are read.
    train, validation
        Indices of nodes. With ``validation`` and a ``patience`` in the settings, the fit stops early and the weights
        of the best epoch are restored.
    sample_weight
        One weight for each node in ``train``.
    penalty
        A function of the diffused output of all nodes that is added to the loss.
    settings
        Optimiser, schedule and stopping; the paper's for node tasks by default.
    on_epoch
        Called with the epoch and its loss, for progress displays.
    """
    check_nodes(target, train, validation, sample_weight)
    held_out = None if validation is None else (validation, target[validation])
    return _descend(
        model, x, graph, train, target[train], held_out, sample_weight, penalty, settings or Training(), on_epoch
    )


def fit_items(
    model: COIN,
    x: Tensor,
    graph: Any,
    nodes: Tensor,
    target: Tensor,
    sample_weight: Tensor,
    *,
    penalty: Callable[[Tensor], Tensor] | None = None,
    settings: Training,
    on_epoch: Callable[[int, float], None] | None = None,
) -> History:
    """Fit a COIN on labelled items, several of which may be of one node: ``target`` has one entry for each item."""
    return _descend(model, x, graph, nodes, target, None, sample_weight, penalty, settings, on_epoch)


def _descend(
    model: COIN,
    x: Tensor,
    graph: Any,
    nodes: Tensor,
    truth: Tensor,
    held_out: tuple[Tensor, Tensor] | None,
    sample_weight: Tensor | None,
    penalty: Callable[[Tensor], Tensor] | None,
    settings: Training,
    on_epoch: Callable[[int, float], None] | None,
) -> History:
    operator = laplacian(graph, next(model.parameters()).dtype, x.device)
    optimiser = settings.make_optimiser(model.parameters())
    schedule = settings.make_schedule(optimiser)
    snapshot = Snapshot(model)
    stopping = EarlyStopping(settings.patience, snapshot.take) if held_out and settings.patience else None
    history = History()
    for epoch in range(settings.epochs):
        model.train()
        optimiser.zero_grad(set_to_none=True)
        u = model(x, operator)
        losses = pointwise_loss(u[nodes], truth, model.head)
        loss = losses.mean() if sample_weight is None else (sample_weight * losses).sum() / sample_weight.sum()
        if penalty is not None:
            loss = loss + penalty(u)
        loss.backward()
        optimiser.step()
        schedule.step()
        history.losses.append(float(loss.detach()))
        if on_epoch is not None:
            on_epoch(epoch, history.losses[-1])
        if stopping is None or held_out is None:
            continue
        model.eval()
        with torch.no_grad():
            u = model(x, operator)[held_out[0]]
            loss_there = float(pointwise_loss(u, held_out[1], model.head).mean())
        if stopping.should_stop(epoch, loss_there, score(u, held_out[1], model.head)):
            break
    snapshot.restore()
    history.best_epoch = len(history.losses) - 1 if stopping is None else stopping.best_epoch
    model.eval()
    return history


def check_nodes(target: Tensor, train: Tensor, validation: Tensor | None, sample_weight: Tensor | None) -> None:
    """Refuse what would make a loss NaN, or broadcast it, without a word."""
    n_train = len(target[train])
    if n_train == 0:
        raise InvalidInputError("there is no training node")
    if validation is not None and len(target[validation]) == 0:
        raise InvalidInputError("there is no validation node; pass validation=None to run all epochs")
    if sample_weight is None:
        return
    if sample_weight.shape != (n_train,):
        raise InvalidInputError(
            f"there are {n_train} training nodes but the sample weights have the shape {tuple(sample_weight.shape)}"
        )
    if not bool((sample_weight >= 0).all()) or not 0 < float(sample_weight.sum()) < float("inf"):
        raise InvalidInputError("sample weights must be finite and not negative, and at least one must be positive")
