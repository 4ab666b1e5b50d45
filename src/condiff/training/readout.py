"""The diffused output at the labelled items, as a linear map of ``u_0``, and its adjoint.

The diffusion is linear, ``u_K = P u_0``, and a loss reads only the items' rows of ``P``. What an engine needs of the
diffusion is therefore one map and its adjoint, however they are computed.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from condiff.diffusion import Diffusion
from condiff.diffusion.stability import check_step
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian

#: Rows of ``P`` that take more bytes than this are not made all at once, and only where an engine has room for them.
LARGEST_ROWS = 256 * 2**20
# The fewest columns that rows are made from together: as many as a product of the compiled loops takes.
_COLUMNS = 64


class Readout(Protocol):
    """The linear map from ``u_0`` to the diffused output at the items, and its adjoint.

    Shapes
    ------
    ``u`` is (networks, n, c), or another layout that an engine's networks and readout agree on; what is read is
    (networks, items, c).
    """

    def forward(self, u: Tensor) -> Tensor:
        """The diffused output at the items."""

    def adjoint(self, gradient: Tensor) -> Tensor:
        """From the gradient of a loss by what was read to that by ``u``; it may be of the first items alone."""


class Rows:
    """The items' rows of ``P``, made once: a dense product in place of all layers.

    Parameters
    ----------
    rows
        (items, n), or (networks, items, n) where networks differ in their items or graphs.
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def forward(self, u: Tensor) -> Tensor:
        # Columns first: BLAS is several times slower on a result of few columns than on one of few rows.
        return (u.mT @ self.rows.mT).mT if self.rows.ndim == 2 else self.rows @ u

    def adjoint(self, gradient: Tensor) -> Tensor:
        rows = self.rows[..., : gradient.shape[-2], :]
        return (gradient.mT @ rows).mT if rows.ndim == 2 else rows.mT @ gradient


class OwnClasses:
    """The chance of each item's own class, (networks, items, 1): all of the items' rows that a logarithmic loss reads.

    Rows of an item are multiplied by one class in place of all.

    Parameters
    ----------
    rows
        (items, n).
    classes
        The class of every item.
    n_classes
        How many there are.
    """

    def __init__(self, rows: Tensor, classes: Tensor, n_classes: int) -> None:
        self.n_items, self.n_nodes, self.n_classes = *rows.shape, n_classes
        items = [(classes == each).nonzero().ravel() for each in range(n_classes)]
        self.parts = [(each, own, rows[own]) for each, own in enumerate(items) if len(own)]

    def forward(self, u: Tensor) -> Tensor:
        read = u.new_empty(len(u), self.n_items, 1)
        for each, own, rows in self.parts:
            read[:, own, 0] = u[..., each] @ rows.mT
        return read

    def adjoint(self, gradient: Tensor) -> Tensor:
        found = gradient.new_zeros(len(gradient), self.n_classes, self.n_nodes)
        for each, own, rows in self.parts:
            found[:, each] = gradient[:, own, 0] @ rows
        return found.mT


class Products:
    """The diffusion applied anew each time: as many products as it has layers, forward and back.

    The solvers are functions of a symmetric Laplacian alone, so that the diffusion is its own adjoint and nothing of
    the layers need be kept.

    Parameters
    ----------
    diffusion
        Fixed, without dropout.
    operator
        A symmetric Laplacian.
    nodes
        Where the output is read; a node may occur several times.
    """

    def __init__(self, diffusion: Diffusion, operator: Laplacian, nodes: Tensor) -> None:
        self.diffusion, self.operator, self.nodes = diffusion, operator, nodes
        self.strength = checked_strength(diffusion, operator)

    def forward(self, u: Tensor) -> Tensor:
        return by_network(self._diffused(as_columns(u))[self.nodes], len(u))

    def adjoint(self, gradient: Tensor) -> Tensor:
        columns = as_columns(gradient)
        whole = columns.new_zeros(self.operator.n_nodes, columns.shape[1])
        whole.index_add_(0, self.nodes[: len(columns)], columns)
        return by_network(self._diffused(whole), len(gradient))

    @torch.no_grad()
    def _diffused(self, columns: Tensor) -> Tensor:
        return self.diffusion.solver(self.operator, columns, self.strength, self.diffusion.layers)


def checked_strength(diffusion: Diffusion, operator: Laplacian) -> float:
    """The strength of a fixed diffusion on this graph; a step past a limit is warned of, or refused if it is strict."""
    strength = float(diffusion.strength_on(operator))
    if diffusion.solver.limited and diffusion.strength != "auto" and diffusion.layers:
        check_step(operator, strength, strict=diffusion.strict)
    return strength


@torch.no_grad()
def diffusion_rows(diffusion: Diffusion, operator: Laplacian, nodes: Tensor) -> Tensor:
    """The rows ``nodes`` of ``P``, of shape (len(nodes), n): the diffusion run backwards from each of them."""
    if not operator.symmetric:
        raise InvalidInputError("rows of the diffusion need a symmetric graph")
    strength = checked_strength(diffusion, operator)
    rows = torch.empty(nodes.numel(), operator.n_nodes, dtype=operator.dtype, device=operator.device)
    least = torch.finfo(rows.dtype).eps ** 2
    at_once = max(_COLUMNS, LARGEST_ROWS // (operator.n_nodes * rows.element_size()))
    for part, here in zip(rows.split(at_once), nodes.split(at_once), strict=True):
        unit = part.new_zeros(operator.n_nodes, len(here))
        unit[here, torch.arange(len(here), device=here.device)] = 1.0
        part.copy_(diffusion.solver(operator, unit, strength, diffusion.layers).mT)
        # Far from a node its row holds numbers that no sum can show but that processors are slow with.
        part.masked_fill_(part.abs() < least, 0.0)
    return rows


def rows_bytes(operator: Laplacian, n_items: int) -> int:
    """What the items' rows of ``P`` would take."""
    return n_items * operator.n_nodes * operator.weights.element_size()


def as_columns(u: Tensor) -> Tensor:
    """(networks, rows, c) as (rows, networks * c)."""
    return u.movedim(0, 1).flatten(1)


def by_network(columns: Tensor, n_networks: int) -> Tensor:
    """(rows, networks * c) as (networks, rows, c), without a copy."""
    return columns.view(len(columns), n_networks, -1).movedim(1, 0)
