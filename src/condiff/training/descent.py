"""The one loop of full-batch descent: networks give outputs, a readout diffuses them, the loss comes back, they step.

One forward pass serves twice: without dropout, the one that validates an epoch also trains the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from condiff.model import Head
from condiff.training.losses import ClassBalance, loss_gradient
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Items
from condiff.training.readout import Readout
from condiff.training.settings import Training
from condiff.training.stopping import EarlyStopping

#: Called with the epoch and the mean loss of the networks, for progress displays.
OnEpoch = Callable[[int, float], None]


class Networks(ABC):
    """The base networks of one or several problems, side by side, with whatever trains them.

    What is written out here is for networks under autograd.
    """

    optimiser: Optimiser
    #: The last outputs, with their trace.
    u: Tensor

    @abstractmethod
    def outputs(self) -> Tensor:
        """``u_0`` of all nodes with the present weights, (networks, n, c) or what the readout takes; without trace."""

    def backward(self, gradient: Tensor) -> None:
        """Find the gradients of the weights, given that of the loss by the last outputs."""
        self.u.backward(gradient)

    def step(self) -> None:
        """Move the weights."""
        self.optimiser.step()

    def keep(self) -> None:
        """Remember the present weights as the best; only for networks that can stop early."""
        raise NotImplementedError

    @abstractmethod
    def give_back(self) -> None:
        """Write the best weights, or the present ones if none were kept, into the networks that they came from."""


@dataclass
class Course:
    """What happened: the losses of every epoch, one tensor each, and the epoch whose weights were kept."""

    losses: list[Tensor] = field(default_factory=list)
    best_epoch: int = -1

    def by_network(self) -> list[list[float]]:
        """The losses of each network."""
        found: list[list[float]] = torch.stack(self.losses, dim=1).tolist()
        return found


def descend(
    networks: Networks,
    readout: Readout,
    items: Items,
    head: Head,
    settings: Training,
    *,
    held_out: Items | None = None,
    balance: ClassBalance | None = None,
    on_epoch: OnEpoch | None = None,
    stopping: EarlyStopping | None = None,
    first_epoch: int = 0,
    total: Callable[[Tensor], Tensor] = lambda sums: sums,
) -> Course:
    """Train until the epochs or the patience run out, and give the weights back.

    Parameters
    ----------
    networks, readout
        The readout reads ``items``, then those that are held out.
    items
        Of all networks: ``target`` and ``weight`` may have a first axis of networks.
    held_out
        With a patience in the settings, what stops the fit of a single network.
    balance
        A penalty, one row of proportions for each network.
    stopping, first_epoch
        To go on with a fit that was stopped.
    total
        Adds sums up over the processes that share the work.
    """
    if stopping is None and held_out is not None and settings.patience is not None:
        stopping = EarlyStopping(settings.patience, networks.keep)
    n_items, course, stop = items.target.shape[-1 if head == "softmax" else -2], Course(), False
    u: Tensor | None = None
    read: Tensor | None = None
    for epoch in range(first_epoch, settings.epochs):
        if u is None or read is None:
            u = networks.outputs()
            read = readout.forward(u)
        seen = read[:, :n_items]
        to_u = readout.adjoint(loss_gradient(seen, items.target, items.weight, head))
        losses = total(items.loss(seen, head))
        if balance is not None:
            losses = losses + _add_gradient(balance, u, to_u)
        networks.backward(to_u)
        networks.step()
        course.losses.append(losses)
        u = read = None
        if stopping is not None and held_out is not None:
            u = networks.outputs()
            read = readout.forward(u)
            sums = total(held_out.validate(read[0, n_items:], head))
            stop = stopping.should_stop(epoch, *(sums / held_out.n_known).tolist())
        if on_epoch is not None:
            on_epoch(epoch, float(losses.mean()))
        if stop:
            break
    networks.give_back()
    course.best_epoch = first_epoch + len(course.losses) - 1 if stopping is None else stopping.best_epoch
    return course


def _add_gradient(balance: ClassBalance, u: Tensor, to_u: Tensor) -> Tensor:
    """Add the penalty's gradient by ``u_0`` to the loss's; returns its values."""
    leaf = u.detach().requires_grad_()
    values = balance(leaf)
    to_u.add_(torch.autograd.grad(values.sum(), leaf)[0])
    return values.detach()
