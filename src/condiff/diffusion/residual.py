r"""How far a network in space and time is from solving the equation: a term for its loss, as in PINNs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp

from condiff.errors import InvalidInputError
from condiff.graph import laplacian

#: A function of points, (n, d), and of a time, a tensor without axes; its values are (n, c).
InTime = Callable[[Tensor, Tensor], Tensor]


def equation_residual(
    u: InTime,
    x: Tensor,
    time: float,
    *,
    strength: float,
    velocity: Callable[[Tensor], Tensor] | None = None,
    graph: Any = None,
    probes: int | None = None,
) -> Tensor:
    r""":math:`u_t - v \cdot \nabla u - \sigma^2 \Delta u` at every point; zero where ``u`` solves the equation.

    The mean of its square is a term for the loss of any network, instead of diffusion layers or beside them.
    Derivatives are exact, by forward differentiation, and the result can be differentiated in the network's weights.

    Parameters
    ----------
    u
        The network: ``u(x, t)``; :class:`WithTime` makes one of any base.
    x
        Points, (n, d); features of nodes.
    time
        The time at which the equation is asked for.
    strength
        The factor :math:`\sigma^2`.
    velocity
        :math:`v(x)`, (n, d); none by default.
    graph
        Where it is given, :math:`\Delta u = -L u` along its edges. Without it, the sum of second derivatives.
    probes
        Without a graph: how many random directions estimate that sum, for points of many dimensions. All of the
        coordinates, one after another, by default.

    Examples
    --------
    >>> import torch
    >>> x = torch.linspace(0, 3, 5)[:, None].double()
    >>> wave = lambda x, t: torch.exp(-0.5 * t) * torch.sin(x)  # solves u_t = 0.5 u_xx
    >>> bool(equation_residual(wave, x, 0.3, strength=0.5).abs().max() < 1e-12)
    True
    """
    if x.ndim != 2:
        raise InvalidInputError(f"x must have the shape (points, dimensions), not {tuple(x.shape)}")
    now = torch.as_tensor(time, dtype=x.dtype, device=x.device)
    values, change = _along(lambda t: u(x, t), now, torch.ones_like(now))
    if velocity is not None:
        change = change - _along(lambda points: u(points, now), x, velocity(x))[1]
    if graph is not None:
        return change + strength * laplacian(graph, x.dtype, x.device)(values)
    return change - strength * _second(lambda points: u(points, now), x, probes)


def _along(function: Callable[[Tensor], Tensor], point: Tensor, way: Tensor) -> tuple[Tensor, Tensor]:
    """A function's value and its derivative in some direction."""
    found: tuple[Tensor, Tensor] = jvp(function, (point,), (way,))  # type: ignore[assignment]
    return found


def _second(u: Callable[[Tensor], Tensor], x: Tensor, probes: int | None) -> Tensor:
    """The sum of second derivatives, or its estimate by random directions."""
    if probes is None:
        directions = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[:, None].expand(-1, *x.shape)
    elif probes < 1:
        raise InvalidInputError(f"probes must be at least 1, not {probes!r}")
    else:
        directions = 2.0 * torch.randint(0, 2, (probes, *x.shape), device=x.device).to(x) - 1.0
    twice = torch.stack([_along(lambda y, way=way: _along(u, y, way)[1], x, way)[1] for way in directions])  # type: ignore[misc]
    return twice.sum(0) if probes is None else twice.mean(0)


class WithTime(nn.Module):
    """Any base network as one of space and time, which reads the time as one more feature.

    Parameters
    ----------
    base
        A network of ``d + 1`` features.
    head
        What makes values of its outputs; a softmax by default.
    """

    def __init__(self, base: nn.Module, head: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.base = base
        self.head = head or (lambda scores: torch.softmax(scores, dim=-1))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The values at some points, (n, d), and a time."""
        return self.head(self.base(torch.cat((x, time.expand(x.shape[0], 1)), dim=1)))
