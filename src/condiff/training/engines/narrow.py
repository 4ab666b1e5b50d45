"""One network at a time through a narrow hidden layer, on sparse or dense inputs, with or without early stopping.

Only the rows of the diffusion that the losses read are kept, and sparse inputs stay sparse, forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from condiff.bases import Bottleneck
from condiff.training.descent import Networks, OnEpoch
from condiff.training.engine import Engine, Fitted, descended, joined, refuses_diffusion, refuses_extras
from condiff.training.engines.projected import readout_of
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Problem
from condiff.training.stopping import Snapshot


class Narrow(Engine):
    """Networks whose base is a :class:`Bottleneck`."""

    name = "narrow"

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        if not all(isinstance(each.model.convection, Bottleneck) for each in problems):
            return "the base network has no narrow hidden layer"
        return refuses_diffusion(problems) or refuses_extras(problems, validation=True, balance=True)

    def reason(self, problems: Sequence[Problem]) -> str:
        return "the hidden layer is narrow: an epoch is a few products with the features"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        return [_fit(problem, on_epoch) for problem in problems]


def _fit(problem: Problem, on_epoch: OnEpoch | None) -> Fitted:
    items, _ = joined([problem])
    network = NarrowNetwork(problem)
    fitted = descended([problem], network, readout_of(problem, items.nodes), items, on_epoch)[0]
    with torch.no_grad():
        fitted.base_outputs = network.outputs()[0]
    return fitted


class NarrowNetwork(Networks):
    """The base network under autograd."""

    def __init__(self, problem: Problem) -> None:
        self.model = problem.model
        self.x = problem.sparse_x if problem.mostly_zeros else problem.dense_x
        self.optimiser = Optimiser(list(self.model.parameters()), problem.settings)
        self.snapshot = Snapshot(self.model)

    def outputs(self) -> Tensor:
        self.u = self.model.base(self.x)[None]
        return self.u.detach()

    def keep(self) -> None:
        self.snapshot.take()

    def give_back(self) -> None:
        self.snapshot.restore()
        self.model.eval()
