"""COIN: a residual network, then diffusion layers on its output."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from condiff.convection import residual_network
from condiff.diffusion import Diffusion, Solver
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, SparseLaplacian, laplacian

Head = Literal["softmax", "sigmoid", "identity"]


class COIN(nn.Module):
    r"""The convection-diffusion network.

    .. math:: u^0 = \mathrm{head}(f(x)), \qquad u^{k+1} = u^k - \sigma^2 L u^k, \quad k = 0, \dots, K - 1

    The diffusion acts on the output ``u``, already through softmax or sigmoid, not on features: no further activation
    follows, and the loss of a classifier is the negative log of ``u``.

    Parameters
    ----------
    convection
        The base network: any module from (n, features) to (n, outputs), without final activation.
    diffusion
        What spreads its output.
    head
        ``softmax`` for exclusive classes, ``sigmoid`` for yes or no, ``identity`` for regression.

    Examples
    --------
    >>> import torch
    >>> from condiff import COIN, Graph
    >>> graph = Graph.of(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> model = COIN.build(in_features=5, out_features=2, layers=4, strength="auto")
    >>> x = torch.randn(3, 5)
    >>> model(x, graph.normalised(self_loops="add").laplacian()).shape
    torch.Size([3, 2])
    """

    def __init__(self, convection: nn.Module, diffusion: Diffusion, *, head: Head = "softmax") -> None:
        super().__init__()
        if head not in ("softmax", "sigmoid", "identity"):
            raise InvalidInputError(f"head must be 'softmax', 'sigmoid' or 'identity', not {head!r}")
        self.convection = convection
        self.diffusion = diffusion
        self.head = head

    @classmethod
    def build(
        cls,
        in_features: int,
        out_features: int,
        *,
        hidden_features: int | Literal["input"] = "input",
        activation: str = "relu",
        head: Head = "softmax",
        layers: int = 20,
        strength: float | Literal["auto"] = "auto",
        solver: str | Solver = "euler",
        dropout: float = 0.0,
        learnable_strength: bool = False,
        strict: bool = False,
    ) -> COIN:
        """Put a residual network and a diffusion together from plain settings."""
        convection = residual_network(in_features, out_features, hidden_features=hidden_features, activation=activation)
        diffusion = Diffusion(
            layers, strength, solver=solver, dropout=dropout, learnable=learnable_strength, strict=strict
        )
        return cls(convection, diffusion, head=head)

    def base(self, x: Tensor) -> Tensor:
        """The output of the base network alone, through the head: ``u`` before any diffusion."""
        return apply_head(self.convection(x), self.head)

    def forward(self, x: Tensor, graph: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Map features to the diffused output.

        Parameters
        ----------
        x
            Features of all nodes, (n, features); dense, or a sparse matrix.
        graph
            A Laplacian (an operator, or the matrix L as a tensor), a :class:`Graph` whose weights are used as they
            are, or an ``edge_index`` of shape (2, edges) as in PyTorch Geometric, to which self-loops are added and
            which is normalised symmetrically.
        edge_weight
            Weights of the edges of an ``edge_index``; gradients reach them.
        """
        u = self.base(x)
        diffused: Tensor = self.diffusion(u, self._operator(graph, edge_weight, u))
        return diffused

    def _operator(self, graph: Any, edge_weight: Tensor | None, u: Tensor) -> Laplacian:
        if not _is_edge_index(graph):
            if edge_weight is not None:
                raise InvalidInputError("edge_weight goes with an integer edge_index of shape (2, edges) only")
            return laplacian(graph, u.dtype, u.device)
        weight = None if edge_weight is None else edge_weight.to(u)
        return SparseLaplacian.from_edges(graph.to(u.device), weight, n_nodes=u.shape[-2], dtype=u.dtype)

    def extra_repr(self) -> str:
        return f"head={self.head}"


def apply_head(z: Tensor, head: Head) -> Tensor:
    """Turn the base network's raw output into ``u``."""
    if head == "softmax":
        return torch.softmax(z, dim=-1)
    return torch.sigmoid(z) if head == "sigmoid" else z


def _is_edge_index(graph: Any) -> bool:
    return (
        isinstance(graph, Tensor)
        and graph.ndim == 2
        and graph.shape[0] == 2
        and not graph.is_floating_point()
        and graph.layout == torch.strided
    )
