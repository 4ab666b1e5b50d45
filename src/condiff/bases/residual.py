"""The residual base networks: the convection part, which carries an input to its output before any diffusion."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph.sparse import SparseMatrix

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh, "gelu": nn.GELU}


class Residual(nn.Module):
    r"""One residual block and a linear read-out: the base network of the node and few-shot tasks.

    .. math:: h = x + \phi(W_1 x + b_1), \qquad z = W_2 h + b_2

    It is one explicit Euler step of the characteristic ODE of the convection equation. ``blocks`` of them may be
    chained, and :meth:`velocity` gives a block's increment. A ``width`` above the input's gives narrow inputs room: the
    shortcut then pads x with zeros.

    Parameters
    ----------
    in_features, out_features
        Widths of the input and of the output.
    width
        Width of the blocks, at least the input's, which is the default.
    blocks
        Number of residual blocks.
    activation
        A name of :data:`ACTIVATIONS`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        width: int | None = None,
        blocks: int = 1,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        width = in_features if width is None else width
        if width < in_features:
            raise InvalidInputError(f"width must be at least the input's, {in_features}, not {width}")
        if not isinstance(blocks, int) or blocks < 0:
            raise InvalidInputError(f"blocks must be a whole number, 0 or more, not {blocks!r}")
        self.activation = _activation(activation)
        self.width = width
        self.blocks = nn.ModuleList(nn.Linear(width if block else in_features, width) for block in range(blocks))
        self.readout = nn.Linear(width if blocks else in_features, out_features)

    def lift(self, x: Tensor) -> Tensor:
        """The shortcut: dense, and padded with zeros to the width of the blocks."""
        dense = x.to_dense()
        return nn.functional.pad(dense, (0, self.width - dense.shape[-1])) if dense.shape[-1] < self.width else dense

    def velocity(self, x: Tensor, block: int = 0) -> Tensor:
        """What a block adds to its input."""
        moved: Tensor = self.activation(_linear(self.blocks[block], x))
        return moved

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (..., in_features), dense or a sparse matrix, to outputs before any softmax."""
        for block in range(len(self.blocks)):
            x = self.lift(x) + self.velocity(x, block)
        out: Tensor = _linear(self.readout, x)
        return out


class Bottleneck(nn.Module):
    r"""A residual network through a narrow hidden layer: :math:`z = S x + W_2 \phi(W_1 x + b_1) + b_2`.

    The base network of the COVID-19 task (8 lags, 16 hidden units, ELU), and the one for wide inputs, because its size
    grows linearly with the input's width.

    Parameters
    ----------
    in_features, hidden_features, out_features
        Widths of the three layers.
    activation
        A name of :data:`ACTIVATIONS`.
    """

    def __init__(self, in_features: int, hidden_features: int, out_features: int, *, activation: str = "elu") -> None:
        super().__init__()
        self.activation = _activation(activation)
        self.shortcut = nn.Linear(in_features, out_features)
        self.inner = nn.Linear(in_features, hidden_features)
        self.outer = nn.Linear(hidden_features, out_features)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Map inputs of shape (..., in_features), dense or a sparse matrix, to outputs before any softmax."""
        out: Tensor = _linear(self.shortcut, x) + self.outer(self.activation(_linear(self.inner, x)))
        return out


def residual_network(
    in_features: int,
    out_features: int,
    *,
    hidden_features: int | Literal["input"] = "input",
    activation: str = "relu",
) -> Residual | Bottleneck:
    """The base network by its hidden width: ``"input"`` keeps the input's (:class:`Residual`), a number narrows it."""
    if hidden_features == "input":
        return Residual(in_features, out_features, activation=activation)
    if not isinstance(hidden_features, int) or hidden_features < 1:
        raise InvalidInputError(f"hidden_features must be 'input' or a positive whole number, not {hidden_features!r}")
    return Bottleneck(in_features, hidden_features, out_features, activation=activation)


def _linear(layer: Any, x: Tensor | SparseMatrix) -> Tensor:
    dense = isinstance(x, Tensor) and x.layout == torch.strided
    out: Tensor = layer(x) if dense else x @ layer.weight.mT.contiguous() + layer.bias
    return out


def _activation(name: str) -> nn.Module:
    if name not in ACTIVATIONS:
        raise InvalidInputError(f"unknown activation {name!r}; the activations are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]()
