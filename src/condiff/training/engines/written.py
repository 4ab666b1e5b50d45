"""Many small networks at once, as in :mod:`condiff.training.engines.projected`, with their gradients written out.

The hidden units of all networks are one wide layer on the features that they share: one matrix product there and one
back. Classes come first where the softmax runs over them, so that it runs along whole rows of points.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from condiff.bases import Residual
from condiff.training.engine import refuses_extras
from condiff.training.engines.projected import Projected, StackedNetworks
from condiff.training.problem import Problem


class Written(Projected):
    """Networks of one ReLU block and a softmax on dense features."""

    name = "written"

    def networks(self, problems: Sequence[Problem]) -> StackedNetworks:
        first = problems[0]
        return WideNetworks([each.model for each in problems], first.dense_x, first.settings)

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        if not all(_is_written_out(each) for each in problems):
            return "gradients are written out for one ReLU block and a softmax on dense features"
        return refuses_extras(problems, balance=True) or super().refuses(problems)

    def declines(self, problems: Sequence[Problem]) -> str | None:
        return "it rounds otherwise than projected, by which figures were made"


def _is_written_out(problem: Problem) -> bool:
    base = problem.model.convection
    return (
        isinstance(base, Residual)
        and isinstance(base.activation, nn.ReLU)
        and problem.head == "softmax"
        and isinstance(problem.x, Tensor)
    )


class WideNetworks(StackedNetworks):
    """The base networks with each of their weights stacked, without autograd."""

    @torch.no_grad()
    def outputs(self) -> Tensor:
        inner, inner_bias, outer, outer_bias = self.weights
        networks, points = len(inner), len(self.x)
        hidden = torch.addmm(inner_bias.flatten(), self.x, inner.flatten(0, 1).mT).relu_()
        self.hidden = hidden.view(points, networks, -1).movedim(1, 0)
        # The shortcut goes straight to the read-out.
        straight = torch.addmm(outer_bias.flatten(), self.x, outer[..., : self.x.shape[1]].flatten(0, 1).mT)
        z = straight.view(points, networks, -1).movedim(1, 0) + self.hidden @ outer.mT
        self.u = torch.softmax(z.permute(2, 0, 1).contiguous(), dim=0).permute(1, 2, 0)
        return self.u

    @torch.no_grad()
    def backward(self, gradient: Tensor) -> None:
        inner, inner_bias, outer, outer_bias = self.weights
        behind, u = gradient.permute(2, 0, 1), self.u.permute(2, 0, 1)
        to_z = u * (behind - (u * behind).sum(0))
        rows = to_z.movedim(0, 1).contiguous()
        outer.grad = rows @ self.hidden
        outer.grad[..., : self.x.shape[1]] += rows @ self.x
        outer_bias.grad = rows.sum(2)
        to_hidden = torch.ops.aten.threshold_backward(rows.mT @ outer, self.hidden, 0.0)
        inner.grad = to_hidden.mT @ self.x
        inner_bias.grad = to_hidden.sum(1)
