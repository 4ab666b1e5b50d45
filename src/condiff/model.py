"""COIN: a residual network, then diffusion layers on its output."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from condiff.bases import residual_network
from condiff.diffusion import Diffusion, Solver
from condiff.errors import InvalidInputError
from condiff.graph import Graph, Laplacian, SparseLaplacian, laplacian
from condiff.graph.sparse import SparseMatrix

Head = Literal["softmax", "sigmoid", "identity"]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class _Built(NamedTuple):
    """An operator, and what it was made of."""

    graph: Any
    edge_weight: Tensor | None
    state: tuple[Any, ...]
    operator: Laplacian


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
        self._built: _Built | None = None

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

    def base(self, x: Tensor | SparseMatrix) -> Tensor:
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
        """The Laplacian to diffuse over; the last one is kept, because sorting and certifying it cost many layers."""
        tensors = [source for source in (graph, edge_weight) if isinstance(source, Tensor)]
        changes_unseen = any(tensor.requires_grad or tensor.is_inference() for tensor in tensors)
        if changes_unseen or not isinstance(graph, Graph | Tensor):
            return _build(graph, edge_weight, u)
        # The version of a tensor counts its in-place changes.
        state = (u.shape[-2], u.dtype, u.device, *(tensor._version for tensor in tensors))
        built = self._built
        if built and built.graph is graph and built.edge_weight is edge_weight and built.state == state:
            return built.operator
        operator = _build(graph, edge_weight, u)
        self._built = _Built(graph, edge_weight, state, operator)
        return operator

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles start without the kept operator: it belongs to the caller's graph, not to the network.
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {**state, "_built": None}

    def extra_repr(self) -> str:
        return f"head={self.head}"


def apply_head(z: Tensor, head: Head, dim: int = -1) -> Tensor:
    """Turn the base network's raw output into ``u``; the classes stand along ``dim``."""
    if head == "softmax":
        return torch.softmax(z, dim=dim)
    return torch.sigmoid(z) if head == "sigmoid" else z


def _build(graph: Any, edge_weight: Tensor | None, u: Tensor) -> Laplacian:
    with_gradient = torch.is_grad_enabled()
    # An operator made in inference mode could not serve in training later.
    with torch.inference_mode(False), torch.set_grad_enabled(with_gradient):
        if _is_edge_index(graph):
            weight = None if edge_weight is None else edge_weight.to(u)
            # Narrow integers would overflow where edges are numbered for the sort.
            edge_index = graph.to(u.device, torch.long)
            return SparseLaplacian.from_edges(edge_index, weight, n_nodes=u.shape[-2], dtype=u.dtype)
        if edge_weight is not None:
            raise InvalidInputError("edge_weight goes with an integer edge_index of shape (2, edges) only")
        return laplacian(graph, u.dtype, u.device)


def _is_edge_index(graph: Any) -> bool:
    return (
        isinstance(graph, Tensor)
        and graph.ndim == 2
        and graph.shape[0] == 2
        and graph.dtype in _INTEGERS
        and graph.layout == torch.strided
    )
