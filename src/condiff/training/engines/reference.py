"""The plain fit: full-batch autograd through every layer, the readable version to which fast engines are held.

It shares no code with them but losses and dropout masks, and keeps its own loop and torch's optimisers for that reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from condiff.model import COIN
from condiff.training.descent import OnEpoch
from condiff.training.dropout import DropoutMasks
from condiff.training.engine import Engine, Fitted
from condiff.training.problem import Problem
from condiff.training.readout import checked_strength
from condiff.training.stopping import EarlyStopping, Snapshot


class Reference(Engine):
    """Fits everything, one network at a time."""

    name = "reference"

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        return None

    def reason(self, problems: Sequence[Problem]) -> str:
        return "it fits everything"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        return [_fit(problem, on_epoch) for problem in problems]


def _fit(problem: Problem, on_epoch: OnEpoch | None) -> Fitted:
    model, settings, items, held_out = problem.model, problem.settings, problem.items, problem.held_out
    x, operator, masks = problem.dense_x, problem.operator, _masks(problem)
    optimiser = settings.make_optimiser(model.parameters())
    schedule = settings.make_schedule(optimiser)
    snapshot = Snapshot(model)
    stopping = EarlyStopping(settings.patience, snapshot.take) if held_out and settings.patience else None
    losses: list[float] = []
    for epoch in range(settings.epochs):
        model.train()
        optimiser.zero_grad(set_to_none=True)
        u = model(x, operator) if masks is None else _dropped(model, problem, masks)
        loss = items.loss(u.flatten(0, -2)[items.nodes], model.head)
        if problem.penalty is not None:
            loss = loss + problem.penalty(u)
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
        stop = False
        if stopping is not None and held_out is not None:
            model.eval()
            with torch.no_grad():
                u = model(x, operator).flatten(0, -2)[held_out.nodes]
                validated = held_out.validate(u, model.head) / held_out.n_known
            stop = stopping.should_stop(epoch, *validated.tolist())
        if on_epoch is not None:
            on_epoch(epoch, losses[-1])
        if stop:
            break
    snapshot.restore()
    model.eval()
    return Fitted(problem, losses, len(losses) - 1 if stopping is None else stopping.best_epoch)


def _masks(problem: Problem) -> DropoutMasks | None:
    diffusion = problem.model.diffusion
    probability = float(diffusion.dropout.p)
    if probability == 0.0 or diffusion.layers == 0:
        return None
    shape = (problem.n_graphs, problem.n_nodes, problem.n_outputs)
    return DropoutMasks(probability, diffusion.layers, shape, [problem.seed_or_drawn], problem.operator.weights)


def _dropped(model: COIN, problem: Problem, masks: DropoutMasks) -> Tensor:
    """The output with entries dropped before each layer."""
    diffusion, operator = model.diffusion, problem.operator
    checked_strength(diffusion, operator)
    strength = diffusion.strength_on(operator)
    u = model.base(problem.dense_x)
    for kept in masks.draw()[:, :, 0].mT:  # (graphs, nodes, outputs) for each layer
        u = diffusion.solver(operator, u * (kept * masks.scale).reshape(u.shape), strength, 1)
    return u
