"""How an estimator's networks are fitted: all at once on the diffusion's rows, or one by one by the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from condiff.graph import Laplacian
from condiff.model import COIN
from condiff.training import Choice, Request, Training, choose, fit_projected, projection
from condiff.training.reference import fit_items
from condiff.training.streamed import fit_streamed

#: Of the outputs (networks, n, c) and the weights (networks, items): one number for each network.
Penalty = Callable[[Tensor, Tensor], Tensor]


def fit_networks(
    networks: Sequence[COIN],
    x: Tensor,
    operator: Laplacian,
    nodes: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    penalty: Penalty | None,
    settings: Training,
    engine: str,
    on_epoch: Callable[[int, float], None] | None,
) -> tuple[Tensor, Choice]:
    """Fit networks of one shape in place; returns their answers at all items, and which engine it was.

    Parameters
    ----------
    networks
        One for each row of ``weight``.
    x, operator
        Features of all nodes, and the graph's Laplacian.
    nodes, target
        Node and target of every labelled item.
    weight
        (networks, items): how much an item counts for a network.
    penalty
        What is added to the loss. It must depend on means over all nodes alone: the diffusion keeps those, so that
        engines may apply it before the diffusion or after.
    engine
        ``auto`` or ``reference``.
    """
    choice = Choice("reference", "as asked")
    if engine == "auto":
        row_bytes = nodes.numel() * operator.n_nodes * torch.finfo(operator.dtype).bits // 8
        request = Request(operator.n_nodes, symmetric=operator.symmetric, weighs=True, row_bytes=row_bytes)
        choice = choose(networks[0], request, settings)
    extra = None if penalty is None else lambda u: penalty(u, weight)
    if choice.engine == "streamed":
        arguments = (networks, x, operator, nodes, target, weight)
        return fit_streamed(*arguments, penalty=extra, settings=settings, on_epoch=on_epoch)[1], choice
    if choice.engine == "projected":
        project = projection(networks[0].diffusion, operator, nodes)
        fit_projected(networks, x, project, target, weight, penalty=extra, settings=settings, on_epoch=on_epoch)
        with torch.no_grad():
            return torch.stack([project(network.base(x)) for network in networks]), choice
    for network, own in zip(networks, weight, strict=True):
        _fit_plainly(network, x, operator, nodes, target, own, penalty, settings, on_epoch)
    with torch.no_grad():
        return torch.stack([network(x, operator)[nodes] for network in networks]), choice


def _fit_plainly(
    network: COIN,
    x: Tensor,
    operator: Laplacian,
    nodes: Tensor,
    target: Tensor,
    weight: Tensor,
    penalty: Penalty | None,
    settings: Training,
    on_epoch: Callable[[int, float], None] | None,
) -> None:
    extra = None if penalty is None else lambda u: penalty(u[None], weight[None])[0]
    fit_items(network, x, operator, nodes, target, weight, penalty=extra, settings=settings, on_epoch=on_epoch)
