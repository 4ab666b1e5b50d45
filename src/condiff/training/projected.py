"""The exact fast fit of many networks at once, on the rows of the diffusion that the loss reads.

The diffusion is linear and fixed, ``u_K = P u_0``, and the loss reads only the labelled rows of P. They are computed
once; an epoch then has one small matrix product in place of 2K sparse ones. Networks that differ only in their
initialisation or in which labels they may see are trained side by side as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from condiff.bases import Residual
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian
from condiff.model import COIN, Head, apply_head
from condiff.training.descent import Descent
from condiff.training.losses import pointwise_loss
from condiff.training.reference import History
from condiff.training.settings import Training

# Rows of P beyond this many bytes are not formed; the diffusion is then applied layer by layer.
LARGEST_PROJECTION = 256 * 2**20

Projection = Callable[[Tensor], Tensor]


def projection(diffusion: Diffusion, operator: Laplacian, nodes: Tensor) -> Projection:
    """The map from ``u_0`` of shape (..., n, c) to the rows ``nodes`` of ``u_K``, by whichever way fits in memory."""
    n, size = operator.n_nodes, torch.finfo(operator.dtype).bits // 8
    if nodes.numel() * n * size > LARGEST_PROJECTION:
        return lambda u: diffusion(u, operator)[..., nodes, :]
    rows = projected_rows(diffusion, operator, nodes)
    # Columns first: BLAS is several times slower on a result of few columns than on one of few rows.
    return lambda u: (u.mT @ rows.mT).mT


def projected_rows(diffusion: Diffusion, operator: Laplacian, nodes: Tensor) -> Tensor:
    """The rows ``nodes`` of ``P``, of shape (len(nodes), n): the diffusion run backwards from each of them."""
    if not operator.symmetric:
        raise InvalidInputError("projected rows need a symmetric graph")
    unit = torch.zeros(operator.n_nodes, nodes.numel(), dtype=operator.dtype, device=operator.device)
    unit[nodes, torch.arange(nodes.numel(), device=nodes.device)] = 1.0
    with torch.no_grad():
        rows: Tensor = diffusion(unit, operator).mT.contiguous()
    # Far from a node its row holds numbers that no sum can show but that processors are slow with.
    return rows.masked_fill_(rows.abs() < torch.finfo(rows.dtype).eps ** 2, 0.0)


def fit_projected(
    models: Sequence[COIN],
    x: Tensor,
    project: Projection,
    target: Tensor,
    weight: Tensor,
    *,
    penalty: Callable[[Tensor], Tensor] | None = None,
    settings: Training,
    on_epoch: Callable[[int, float], None] | None = None,
) -> list[History]:
    """Fit networks of one shape in place, each as the reference would without validation nodes.

    Parameters
    ----------
    models
        Networks whose base is a :class:`Residual` of one block, without dropout.
    x
        Dense features of all nodes, (n, features).
    project
        From ``u_0`` (networks, n, c) to the outputs that the loss reads, (networks, items, c).
    target
        The class or the values of each item.
    weight
        (networks, items): how much each item counts for each network; rows are normalised to sum to one.
    penalty
        A function of ``u_0`` of shape (networks, n, c) that gives one number for each network, added to its loss.
    settings
        Optimiser and schedule.
    """
    head = models[0].head
    parameters = _stacked(models)
    descent = Descent(parameters, settings)
    weight = weight / weight.sum(-1, keepdim=True)
    targets = target.expand(len(models), *target.shape)
    course: list[Tensor] = []
    for epoch in range(settings.epochs):
        u = _base(parameters, x, models[0], head)
        losses = (weight * pointwise_loss(project(u), targets, head)).sum(-1)
        if penalty is not None:
            losses = losses + penalty(u)
        losses.sum().backward()
        descent.step()
        course.append(losses.detach())
        if on_epoch is not None:
            on_epoch(epoch, float(course[-1].mean()))
    with torch.no_grad():
        for position, model in enumerate(models):
            for own, trained in zip(_parameters_of(model), parameters, strict=True):
                own.copy_(trained[position])
            model.eval()
    return [History(own, settings.epochs - 1) for own in torch.stack(course, dim=1).tolist()]


def _parameters_of(model: COIN) -> list[torch.nn.Parameter]:
    base = model.convection
    if not isinstance(base, Residual) or len(base.blocks) != 1 or model.diffusion.dropout.p:
        raise InvalidInputError("the projected fit takes networks of one residual block without dropout")
    if model.diffusion.log_strength is not None:
        raise InvalidInputError("the projected fit takes a fixed diffusion, not one whose strength is learned")
    return list(base.parameters())


def _stacked(models: Sequence[COIN]) -> list[torch.nn.Parameter]:
    columns = zip(*(_parameters_of(model) for model in models), strict=True)
    return [torch.nn.Parameter(torch.stack([own.detach() for own in column])) for column in columns]


def _base(parameters: Sequence[Tensor], x: Tensor, model: COIN, head: Head) -> Tensor:
    """The base networks' outputs on all nodes, (networks, n, c)."""
    base = model.convection
    assert isinstance(base, Residual)
    inner, inner_bias, outer, outer_bias = parameters
    moved = base.activation(torch.baddbmm(inner_bias[:, None, :], x.expand(len(inner), -1, -1), inner.mT))
    hidden = base.lift(x) + moved
    return apply_head(torch.baddbmm(outer_bias[:, None, :], hidden, outer.mT), head)
