"""What an engine is: it fits a batch of problems, or says why it cannot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from condiff.model import COIN
from condiff.training.descent import Networks, OnEpoch, descend
from condiff.training.losses import ClassBalance
from condiff.training.problem import Items, Problem
from condiff.training.readout import Readout


class Fitted:
    """What a fit leaves behind; what costs something is computed when it is first asked for.

    Parameters
    ----------
    problem
        What was fitted.
    losses
        The training loss of every epoch.
    best_epoch
        The epoch whose weights were kept: the last one, or with early stopping the best.
    model
        Makes the fitted network, where that is not simply the problem's.
    matrix
        The diffusion of all nodes as a matrix, (n, n), where the engine has made it.
    """

    def __init__(
        self,
        problem: Problem,
        losses: list[float],
        best_epoch: int,
        *,
        model: Callable[[], COIN] | None = None,
        matrix: Tensor | None = None,
    ) -> None:
        self.problem, self.losses, self.best_epoch, self.matrix = problem, losses, best_epoch, matrix
        self._model = model
        #: The engine's name, and why it was the one.
        self.engine, self.reason = "", ""

    @cached_property
    def model(self) -> COIN:
        """The fitted network, ready to predict."""
        return (self._model() if self._model else self.problem.model).eval()

    @cached_property
    def base_outputs(self) -> Tensor:
        """``u_0`` of all nodes: what the base network answers before any diffusion."""
        with torch.no_grad():
            return self.model.base(self.problem.dense_x)

    @cached_property
    def diffused(self) -> Tensor:
        """The output of all nodes, (n, c), or (graphs, n, c)."""
        with torch.no_grad():
            if self.matrix is not None:
                return self.matrix @ self.base_outputs
            diffused: Tensor = self.model.diffusion(self.base_outputs, self.problem.operator)
            return diffused

    @cached_property
    def outputs(self) -> Tensor:
        """The diffused outputs at the items that were learned from, (items, c)."""
        return self.diffused.flatten(0, -2)[self.problem.items.nodes]


class Engine(ABC):
    """A way to fit; all give the reference's numbers up to rounding and differ in the work that they avoid.

    A batch of problems may share features, graph and items, as networks do that differ in initialisation or fold.
    """

    #: What it is asked for by.
    name: ClassVar[str]
    #: Whether it draws first weights itself where a network has none.
    draws_weights: ClassVar[bool] = False

    @abstractmethod
    def refuses(self, problems: Sequence[Problem]) -> str | None:
        """Why it cannot fit these, in a few words, or None."""

    def declines(self, problems: Sequence[Problem]) -> str | None:
        """Why it is not the fastest for these, although it could fit them, or None."""
        return None

    @abstractmethod
    def reason(self, problems: Sequence[Problem]) -> str:
        """Why it is a good choice for these."""

    @abstractmethod
    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        """Fit the networks in place, each as if it were alone."""


# ---- reasons to refuse that engines share ------------------------------------------------------------------------


def refuses_diffusion(problems: Sequence[Problem]) -> str | None:
    """For engines that need a diffusion that is its own adjoint and the same in every epoch."""
    if any(each.is_batch for each in problems):
        return "there is a batch of graphs"
    if any(each.model.diffusion.dropout.p or each.model.diffusion.log_strength is not None for each in problems):
        return "dropout or a learned strength changes the diffusion from epoch to epoch"
    return None if all(each.operator.symmetric for each in problems) else "the graph is not symmetric"


def refuses_extras(problems: Sequence[Problem], *, validation: bool = False, balance: bool = False) -> str | None:
    """For engines without early stopping, or without penalties."""
    if not validation and any(each.held_out is not None for each in problems):
        return "validation nodes stop the fit early"
    penalties = [each.penalty for each in problems if each.penalty is not None]
    if penalties and not (balance and all(isinstance(each, ClassBalance) for each in penalties)):
        return "the loss has a penalty of its own"
    strengths = {each.penalty.strength if isinstance(each.penalty, ClassBalance) else 0.0 for each in problems}
    return None if len(strengths) == 1 else "the networks' penalties differ in strength"


def refuses_early_batch(problems: Sequence[Problem]) -> str | None:
    """For engines that can stop a single network early, but not one of several."""
    if len(problems) > 1 and any(each.held_out is not None for each in problems):
        return "networks that stop early are fitted one at a time"
    return None


def refuses_unlike(problems: Sequence[Problem], *, diffusion: bool = True) -> str | None:
    """For engines that train networks of one shape side by side."""
    first = problems[0]
    if any(each.settings != first.settings for each in problems):
        return "the networks are trained with different settings"
    kinds = {each.model: _kind(each, diffusion) for each in problems}
    if len(set(kinds.values())) > 1:
        return "the networks are not alike but for their weights"
    return None


def refuses_unshared(problems: Sequence[Problem]) -> str | None:
    """For engines whose networks have features and graph in common."""
    first = problems[0]
    if any(each.x is not first.x for each in problems):
        return "the networks have different features"
    return None if all(each.operator is first.operator for each in problems) else "the networks have different graphs"


def _kind(problem: Problem, diffusion: bool) -> tuple[object, ...]:
    # A module's text names its parts with their sizes and settings.
    model = problem.model
    own = (str(model), str(vars(model.diffusion.solver))) if diffusion else (str(model.convection), model.head)
    return (*own, problem.dtype)


# ---- several problems as one -------------------------------------------------------------------------------------


def joined(problems: Sequence[Problem]) -> tuple[Items, list[slice]]:
    """The items of all networks as one list that each weighs in its own way, and where each network's own ones are."""
    first = problems[0].items
    if all(_same(each.items, first) for each in problems):
        weight = torch.stack([each.items.weight for each in problems])
        return first._replace(weight=weight), [slice(0, len(first.nodes))] * len(problems)
    ends = np.cumsum([0, *(len(each.items.nodes) for each in problems)]).tolist()
    own = [slice(*ends_of) for ends_of in pairwise(ends)]
    nodes, target = (torch.cat([getattr(each.items, name) for each in problems]) for name in ("nodes", "target"))
    weight = first.weight.new_zeros(len(problems), *target.shape)
    for row, here, each in zip(weight, own, problems, strict=True):
        row[here] = each.items.weight
    return Items(nodes, target, weight, sum(each.items.n_known for each in problems)), own


def _same(one: Items, other: Items) -> bool:
    return torch.equal(one.nodes, other.nodes) and torch.equal(one.target, other.target)


def descended(
    problems: Sequence[Problem], networks: Networks, readout: Readout, items: Items, on_epoch: OnEpoch | None
) -> list[Fitted]:
    """Train networks that share settings and head."""
    first = problems[0]
    penalties = [each.penalty for each in problems if isinstance(each.penalty, ClassBalance)]
    course = descend(
        networks,
        readout,
        items,
        first.head,
        first.settings,
        held_out=first.held_out,
        balance=ClassBalance.stacked(penalties) if penalties else None,
        on_epoch=on_epoch,
    )
    pairs = zip(problems, course.by_network(), strict=True)
    return [Fitted(problem, losses, course.best_epoch) for problem, losses in pairs]


def with_held_out(nodes: Tensor, problem: Problem) -> Tensor:
    """The nodes to read: those of the items, then those of validation."""
    return nodes if problem.held_out is None else torch.cat([nodes, problem.held_out.nodes])
