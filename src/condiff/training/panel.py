"""The exact fast fit of several networks on a panel: all snapshots and all networks in one batch.

It does what :func:`condiff.training.panel_reference.fit_panel_reference` does for each network, number for number up to
rounding, with far less work an epoch:

- a diffusion layer is one matrix a snapshot, ``I - strength L``, computed once; its product serves all networks;
- layers are linear, so that the backward pass is the same products with the transposes and keeps no intermediate;
- without dropout all layers are one matrix;
- what a network answers to equal inputs is computed once: with nine tenths of the values hidden, four in ten windows
  are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian
from condiff.model import COIN
from condiff.training.descent import Descent
from condiff.training.panel_reference import DropoutMasks, Snapshots, base_of, checked_panel, dropout_masks
from condiff.training.reference import History
from condiff.training.settings import Training


def fit_panel(
    models: Sequence[COIN],
    x: Tensor,
    operator: DenseLaplacian,
    target: Tensor,
    *,
    settings: Training,
    seeds: Sequence[int] | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> list[History]:
    """Fit networks of one shape in place, for all epochs; what becomes of each does not depend on the others.

    Parameters
    ----------
    models
        Networks with a :class:`Bottleneck` base and the head ``identity``, alike but for their weights.
    x
        Inputs, (snapshots, nodes, features), without NaN.
    operator
        One Laplacian a snapshot, such as :func:`condiff.graph.batch.directed_laplacians` gives, or one for all.
    target
        (snapshots, nodes), or (snapshots, nodes, outputs); NaN where it is not known. A network's loss is the mean over
        the snapshots of their mean squared errors over the known targets; snapshots without any are left out.
    settings
        Optimiser, schedule and number of epochs.
    seeds
        Of each network's dropout.
    on_epoch
        Called with the epoch and the networks' mean loss, for progress displays.
    """
    _check_alike(models)
    if seeds is not None and len(seeds) != len(models):
        raise InvalidInputError(f"there are {len(models)} networks but {len(seeds)} seeds: give one each")
    panel = checked_panel(models[0], x, operator, target)
    masks = dropout_masks(models[0].diffusion, panel, seeds)
    bases, spread, loss = _Bases(models, panel.x), _Spread(models[0].diffusion, panel, masks), _Loss(panel.target)
    descent = Descent(list(bases.parameters()), settings)
    losses = torch.empty(settings.epochs, len(models), dtype=x.dtype)
    for epoch in range(settings.epochs):
        u = bases()
        losses[epoch], pull = loss(spread(u.detach()))
        u.backward(spread.backward(pull))
        descent.step()
        if on_epoch is not None:
            on_epoch(epoch, float(losses[epoch].mean()))
    bases.give_to(models)
    return [History(own.tolist(), settings.epochs - 1) for own in losses.T]


class _Bases(nn.Module):
    """The base networks side by side, as one; inputs and outputs are (rows, points), the layout that BLAS is fast on.

    Biases are the weights of one more input, which is always 1.
    """

    def __init__(self, models: Sequence[COIN], x: Tensor) -> None:
        super().__init__()
        bases = [base_of(model) for model in models]
        self.activation = bases[0].activation
        self.shape = (x.shape[0], len(models), bases[0].outer.out_features, x.shape[1])
        distinct, self.place = torch.unique(x.flatten(0, 1), dim=0, return_inverse=True)
        self.x = torch.cat([distinct, distinct.new_ones(len(distinct), 1)], dim=1).mT.contiguous()
        self.shortcut, self.inner = (
            nn.Parameter(torch.cat([_joined(getattr(base, name)) for base in bases])) for name in ("shortcut", "inner")
        )
        self.outer = nn.Parameter(torch.stack([base.outer.weight.detach() for base in bases]))
        self.outer_bias = nn.Parameter(torch.stack([base.outer.bias.detach() for base in bases])[..., None])

    def forward(self) -> Tensor:
        """The outputs, (snapshots, networks x outputs, nodes)."""
        snapshots, networks, outputs, nodes = self.shape
        hidden = self.activation(self.inner @ self.x).view(networks, -1, self.x.shape[1])
        shortcut = (self.shortcut @ self.x).view(networks, outputs, -1)
        rows = torch.baddbmm(shortcut + self.outer_bias, self.outer, hidden).flatten(0, 1)
        return rows[:, self.place].view(-1, snapshots, nodes).transpose(0, 1)

    @torch.no_grad()
    def give_to(self, models: Sequence[COIN]) -> None:
        """Write the weights back into the networks that they came from."""
        for position, model in enumerate(models):
            base = base_of(model)
            for layer, joined in ((base.shortcut, self.shortcut), (base.inner, self.inner)):
                own = joined.view(len(models), -1, joined.shape[1])[position]
                layer.weight.copy_(own[:, :-1])
                layer.bias.copy_(own[:, -1])
            base.outer.weight.copy_(self.outer[position])
            base.outer.bias.copy_(self.outer_bias[position, :, 0])
            model.eval()


class _Spread:
    """The diffusion of all networks' outputs, (snapshots, networks x outputs, nodes), and its transpose."""

    def __init__(self, diffusion: Diffusion, panel: Snapshots, masks: DropoutMasks | None) -> None:
        self.masks = masks
        self.kept: list[Tensor] = []
        layers, scale = (diffusion.layers, 1.0) if masks is None else (1, masks.scale)
        unit = torch.eye(panel.operator.n_nodes, dtype=panel.x.dtype, device=panel.x.device)
        with torch.no_grad():
            step = diffusion.solver(panel.operator, unit.expand(panel.operator.weights.shape), panel.strength, layers)
            self.matrix = scale * step

    def __call__(self, u: Tensor) -> Tensor:
        if self.masks is None:
            return torch.bmm(u, self.matrix.mT)
        self.kept = list(self.masks.draw().flatten(2, 3))
        for kept in self.kept:
            u = torch.bmm(u * kept, self.matrix.mT)
        return u

    def backward(self, pull: Tensor) -> Tensor:
        """The gradient by the outputs before the diffusion, with the masks of the last call."""
        if self.masks is None:
            return torch.bmm(pull, self.matrix)
        for kept in reversed(self.kept):
            pull = torch.bmm(pull, self.matrix).mul_(kept)
        return pull


class _Loss:
    """The loss of each network, and its gradient by the diffused outputs."""

    def __init__(self, target: Tensor) -> None:
        known = (~target.isnan()).to(target)
        share = known / known.sum((1, 2), keepdim=True) / len(target)
        # (snapshots, 1, outputs, nodes)
        self.target = target.nan_to_num(0.0).mT[:, None].contiguous()
        self.share = share.mT[:, None].contiguous()

    def __call__(self, u: Tensor) -> tuple[Tensor, Tensor]:
        outputs, nodes = self.target.shape[2:]
        error = u.view(len(u), -1, outputs, nodes) - self.target
        weighted = self.share * error
        return (weighted * error).sum((0, 2, 3)), 2 * weighted.flatten(1, 2)


def _joined(layer: nn.Linear) -> Tensor:
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)


def _check_alike(models: Sequence[COIN]) -> None:
    if not models:
        raise InvalidInputError("there is no network to fit")
    # A module's text names its parts with their sizes and settings.
    kinds = {(str(model), str(vars(model.diffusion.solver)), base_of(model).inner.weight.dtype) for model in models}
    if len(kinds) > 1:
        raise InvalidInputError("the networks of one fit must be alike but for their weights: fit others by themselves")
