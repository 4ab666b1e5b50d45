"""The plain fit on a panel, one network and one snapshot at a time, and what the fast engine shares with it.

A panel's snapshots are graphs of the same nodes on different days, each with inputs and partly known targets. The loss
is the mean over the snapshots of each one's mean squared error over its known targets. A snapshot without a known
target is left out as if it were not there, since it has no error to take the mean of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from condiff.bases import Bottleneck
from condiff.diffusion import Diffusion, Euler
from condiff.diffusion.stability import check_step
from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian
from condiff.model import COIN
from condiff.training.reference import History
from condiff.training.settings import Training

# Values that a quarter of a random number takes.
_LEVELS = 1 << 16


class Snapshots(NamedTuple):
    """The snapshots of a panel that have a known target: what both fits see.

    Attributes
    ----------
    x
        (snapshots, nodes, features).
    operator
        One Laplacian a snapshot, (snapshots, nodes, nodes).
    target
        (snapshots, nodes, outputs), NaN where it is not known.
    strength
        Of a layer of the diffusion.
    """

    x: Tensor
    operator: DenseLaplacian
    target: Tensor
    strength: float


class DropoutMasks:
    """Which entries each diffusion layer keeps, for several networks, each from a generator of its own.

    A network's masks depend on its seed alone, not on the other networks. Four entries share a random number of 64
    bits, which is ten times as fast as torch's one Bernoulli variable an entry; the probability is rounded to 16 bits.

    Parameters
    ----------
    probability
        That an entry is dropped.
    layers
        Number of diffusion layers.
    like
        A tensor of the shape (snapshots, nodes, outputs) and of the type that one layer's masks should have.
    seeds
        One a network.
    """

    def __init__(self, probability: float, layers: int, like: Tensor, seeds: Sequence[int]) -> None:
        dropped = min(round(probability * _LEVELS), _LEVELS - 1)
        #: What a kept entry is multiplied with, so that the mean stays.
        self.scale = _LEVELS / (_LEVELS - dropped)
        self._threshold = dropped - _LEVELS // 2
        self._generators = [torch.Generator(like.device).manual_seed(seed) for seed in seeds]
        snapshots, nodes, outputs = like.shape
        self._shape = (layers, snapshots, outputs, nodes)
        self._numbers = torch.empty(len(seeds), -(-layers * like.numel() // 4), dtype=torch.int64, device=like.device)
        self._kept = like.new_empty(layers, snapshots, len(seeds), outputs, nodes)

    def draw(self) -> Tensor:
        """The coming epoch's masks, ones and zeros, in memory that the next draw uses again.

        Their shape is (layers, snapshots, networks, outputs, nodes).
        """
        for numbers, generator in zip(self._numbers, self._generators, strict=True):
            numbers.random_(-(2**63), None, generator=generator)
        count = self._kept.numel() // len(self._generators)
        lanes = self._numbers.view(torch.int16)[:, :count].unflatten(1, self._shape)
        # Written as numbers at once: to convert truth values costs several times the comparison.
        torch.ge(lanes, self._threshold, out=self._kept.movedim(2, 0))
        return self._kept


def fit_panel_reference(
    model: COIN,
    x: Tensor,
    operator: DenseLaplacian,
    target: Tensor,
    *,
    settings: Training,
    seed: int | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> History:
    """Fit one network in place, by autograd through every layer; see :func:`condiff.training.panel.fit_panel`.

    Parameters
    ----------
    model
        As there, with explicit diffusion layers.
    seed
        Of the dropout.
    """
    if not isinstance(model.diffusion.solver, Euler):
        raise InvalidInputError("the reference takes explicit diffusion layers: give solver='euler'")
    panel = checked_panel(model, x, operator, target)
    masks = dropout_masks(model.diffusion, panel, None if seed is None else [seed])
    weights = panel.operator.weights
    matrices = torch.diag_embed(weights.sum(-1)) - weights
    known = ~panel.target.isnan()
    optimiser = settings.make_optimiser(model.parameters())
    schedule = settings.make_schedule(optimiser)
    history = History()
    for epoch in range(settings.epochs):
        optimiser.zero_grad(set_to_none=True)
        # (layers, snapshots, nodes, outputs)
        factors = None if masks is None else masks.draw()[:, :, 0].mT * masks.scale
        losses = []
        for snapshot in range(len(panel.x)):
            u = model.base(panel.x[snapshot])
            for layer in range(model.diffusion.layers):
                if factors is not None:
                    u = u * factors[layer, snapshot]
                u = u - panel.strength * (matrices[snapshot] @ u)
            here = known[snapshot]
            losses.append(((u[here] - panel.target[snapshot][here]) ** 2).mean())
        loss = torch.stack(losses).mean()
        loss.backward()
        optimiser.step()
        schedule.step()
        history.losses.append(float(loss.detach()))
        if on_epoch is not None:
            on_epoch(epoch, history.losses[-1])
    history.best_epoch = settings.epochs - 1
    model.eval()
    return history


def base_of(model: COIN) -> Bottleneck:
    """The base network, if the network is of the kind that panels are fitted by."""
    if not isinstance(model.convection, Bottleneck):
        raise InvalidInputError(
            "panels are fitted by networks with a Bottleneck base: give a number of hidden_features"
        )
    if model.head != "identity" or model.diffusion.log_strength is not None:
        raise InvalidInputError("panels are fitted by networks of head 'identity' whose strength is not learned")
    return model.convection


def checked_panel(model: COIN, x: Tensor, operator: DenseLaplacian, target: Tensor) -> Snapshots:
    """Refuse what does not fit together or would make a loss NaN, and leave out the snapshots without a target."""
    base, diffusion = base_of(model), model.diffusion
    weight = base.inner.weight
    if x.ndim != 3 or x.shape[2] != weight.shape[1] or x.dtype != weight.dtype:
        raise InvalidInputError(
            f"x must be (snapshots, nodes, {weight.shape[1]}) of the network's {weight.dtype}, not {tuple(x.shape)} of "
            f"{x.dtype}"
        )
    if not bool(x.isfinite().all()):
        raise InvalidInputError("x has NaN or infinite entries: fill what is missing, with 0 as Panel.windows does")
    batch = (x.shape[0], x.shape[1], x.shape[1])
    if not isinstance(operator, DenseLaplacian) or operator.weights.shape not in (batch, batch[1:]):
        found = tuple(operator.weights.shape) if isinstance(operator, DenseLaplacian) else type(operator).__name__
        raise InvalidInputError(f"the operator must be a DenseLaplacian of shape {batch}, one a snapshot, not {found}")
    target = target[..., None] if target.ndim == 2 else target
    expected = (*x.shape[:2], base.outer.out_features)
    if target.shape != expected:
        raise InvalidInputError(f"the target must be (snapshots, nodes, outputs) {expected}, not {tuple(target.shape)}")
    if bool(target.isinf().any()):
        raise InvalidInputError("the target has infinite entries: mend them, or write NaN where it is not known")
    used = ~target.isnan().flatten(1).all(1)
    if not bool(used.any()):
        raise InvalidInputError("no snapshot has a known target, so there is nothing to learn from")
    operator = operator.to(x.device, x.dtype)
    strength = float(diffusion.strength_on(operator))
    if diffusion.solver.limited and diffusion.strength != "auto" and diffusion.layers:
        check_step(operator, strength, strict=diffusion.strict)
    weights = operator.weights.detach().expand(batch)[used]
    return Snapshots(x[used], DenseLaplacian(weights, symmetric=operator.symmetric), target[used].to(x), strength)


def dropout_masks(diffusion: Diffusion, panel: Snapshots, seeds: Sequence[int] | None) -> DropoutMasks | None:
    """The masks of the networks with these seeds, or None without dropout."""
    probability = float(diffusion.dropout.p)
    if probability == 0.0 or diffusion.layers == 0:
        return None
    if seeds is None:
        raise InvalidInputError("dropout draws at random: give a seed for each network")
    return DropoutMasks(probability, diffusion.layers, panel.target, seeds)
