"""Many networks at once, on the rows of the diffusion that the loss reads: the engine of the estimators.

The rows are computed once; an epoch then has one small matrix product in place of 2K sparse ones. Networks that differ
only in their initialisation or in which labels they may see are trained side by side as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from condiff.bases import Residual
from condiff.model import COIN, apply_head
from condiff.training.descent import Networks, OnEpoch
from condiff.training.engine import (
    Engine,
    Fitted,
    descended,
    joined,
    refuses_diffusion,
    refuses_early_batch,
    refuses_extras,
    refuses_unlike,
    refuses_unshared,
    with_held_out,
)
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Problem
from condiff.training.readout import LARGEST_ROWS, Products, Readout, Rows, diffusion_rows, rows_bytes
from condiff.training.settings import Training
from condiff.training.stopping import Snapshot


class Projected(Engine):
    """Networks of one residual block, with the diffusion's rows at the labels held in memory."""

    name = "projected"

    def networks(self, problems: Sequence[Problem]) -> StackedNetworks:
        """What is trained."""
        first = problems[0]
        return StackedNetworks([each.model for each in problems], first.dense_x, first.settings)

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        if not all(is_one_block(each.model.convection) for each in problems):
            return "the base network is not a single residual block"
        return (
            refuses_diffusion(problems)
            or refuses_early_batch(problems)
            or refuses_extras(problems, validation=True, balance=True)
            or refuses_unlike(problems)
            or refuses_unshared(problems)
        )

    def reason(self, problems: Sequence[Problem]) -> str:
        return "the diffusion is fixed: only its rows at the labels are needed"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        first, (items, own) = problems[0], joined(problems)
        readout = readout_of(first, items.nodes)
        fitted = descended(problems, self.networks(problems), readout, items, on_epoch)
        for each, here in zip(fitted, own, strict=True):
            each.outputs = readout.forward(each.base_outputs[None])[0, here]
        return fitted


def readout_of(problem: Problem, nodes: Tensor) -> Readout:
    """The faster readout that has room."""
    nodes = with_held_out(nodes, problem)
    if rows_bytes(problem.operator, len(nodes)) > LARGEST_ROWS:
        return Products(problem.model.diffusion, problem.operator, nodes)
    return Rows(diffusion_rows(problem.model.diffusion, problem.operator, nodes))


class StackedNetworks(Networks):
    """The base networks with each of their weights stacked, under autograd.

    Parameters
    ----------
    models
        Networks of one shape whose base is a :class:`Residual` of one block.
    x
        Dense features of all nodes.
    settings
        Optimiser and schedule.
    """

    def __init__(self, models: Sequence[COIN], x: Tensor, settings: Training) -> None:
        self.models, self.x = models, x
        columns = zip(*(model.convection.parameters() for model in models), strict=True)
        self.weights = nn.ParameterList([torch.stack([own.detach() for own in column]) for column in columns])
        self.optimiser = Optimiser(list(self.weights), settings)
        self.snapshot = Snapshot(self.weights)

    def outputs(self) -> Tensor:
        base = self.models[0].convection
        assert isinstance(base, Residual)
        inner, inner_bias, outer, outer_bias = self.weights
        moved = base.activation(torch.baddbmm(inner_bias[:, None, :], self.x.expand(len(inner), -1, -1), inner.mT))
        hidden = base.lift(self.x) + moved
        self.u = apply_head(torch.baddbmm(outer_bias[:, None, :], hidden, outer.mT), self.models[0].head)
        return self.u.detach()

    def keep(self) -> None:
        self.snapshot.take()

    @torch.no_grad()
    def give_back(self) -> None:
        self.snapshot.restore()
        for position, model in enumerate(self.models):
            for own, trained in zip(model.convection.parameters(), self.weights, strict=True):
                own.copy_(trained[position])
            model.eval()


def is_one_block(base: nn.Module) -> bool:
    """Whether a base is one residual block."""
    return isinstance(base, Residual) and len(base.blocks) == 1


def is_square(base: nn.Module) -> bool:
    """Whether a base is one residual block with ReLU, as wide as its input."""
    return (
        isinstance(base, Residual)
        and is_one_block(base)
        and base.width == base.blocks[0].in_features
        and isinstance(base.activation, nn.ReLU)
    )
