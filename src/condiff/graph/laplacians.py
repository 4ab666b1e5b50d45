"""The graph Laplacian ``L = diag(W 1) - W`` as an operator on tensors, differentiable in ``u`` and in the weights."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph.sparse import Pattern, valid_coo

if TYPE_CHECKING:
    from typing import Self

# Nodes from which on a dense product takes longer than autograd's way into Python and back.
_LARGE = 512


class Laplacian(ABC):
    """``(L u)_i = sum_j w_ij (u_i - u_j)``, for ``u`` of shape (..., n) or (..., n, c); see :meth:`__call__`."""

    #: The weights, of shape (stored entries,) or (..., n, n); gradients reach them.
    weights: Tensor
    #: Whether the weights equal their mirror image.
    symmetric: bool

    @abstractmethod
    def __call__(self, u: Tensor) -> Tensor:
        """Apply L to the columns of ``u``, a tensor of shape (n,) or (..., n, c)."""

    @property
    @abstractmethod
    def transposed(self) -> Laplacian:
        """The operator of ``L^T``, without gradients to the weights; for adjoint solves."""

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Number of nodes."""

    @property
    @abstractmethod
    def diagonal(self) -> Tensor:
        """``L_ii``: the weight of node i towards the others, its self-loop left out."""

    @abstractmethod
    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """This operator on another device or in another precision; itself if nothing changes."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return self.weights.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.weights.device

    @property
    def version(self) -> int:
        """Counts the in-place changes of the weights, such as an optimiser's; what is kept of them is then stale."""
        return 0 if self.weights.is_inference() else self.weights._version

    def _check(self, u: Tensor) -> None:
        nodes = u.shape[-2] if u.ndim > 1 else u.shape[0]
        if nodes != self.n_nodes:
            raise InvalidInputError(
                f"u has {nodes} rows (shape {tuple(u.shape)}) but the graph has {self.n_nodes} nodes"
            )


class DenseLaplacian(Laplacian):
    """The Laplacian of a dense weight matrix, or of a batch of them: shape (..., n, n)."""

    def __init__(self, weights: Tensor, *, symmetric: bool | None = None) -> None:
        if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2]:
            raise InvalidInputError(f"a dense Laplacian needs square weights, not the shape {tuple(weights.shape)}")
        self.weights = weights
        if symmetric is None:
            symmetric = torch.allclose(weights, weights.mT, rtol=1e-5, atol=1e-8 * float(weights.detach().abs().max()))
        self.symmetric = symmetric
        self._degree: tuple[int, Tensor] | None = None

    def __call__(self, u: Tensor) -> Tensor:
        self._check(u)
        if u.ndim == 1:
            return self(u[:, None])[..., 0]
        if self.weights.requires_grad:
            return self.weights.sum(-1, keepdim=True) * u - self.weights @ u
        if self.symmetric and self.weights.ndim == 2 and self.n_nodes >= _LARGE:
            return _SymmetricProduct.apply(u, self)  # type: ignore[no-any-return, no-untyped-call]
        return self.degree[..., None] * u - self.weights @ u

    @property
    def degree(self) -> Tensor:
        """Row sums of the weights, without gradient."""
        version = self.version
        if self._degree is None or self._degree[0] != version:
            # What was made in inference mode could not serve in training later.
            with torch.inference_mode(False):
                self._degree = version, self.weights.detach().sum(-1)
        return self._degree[1]

    @property
    def transposed(self) -> Laplacian:
        # L^T = diag(W 1) - W^T keeps the row sums of W, so it is no Laplacian of W^T unless W is symmetric.
        return self if self.symmetric else _Adjoint(self)

    @property
    def n_nodes(self) -> int:
        return self.weights.shape[-1]

    @property
    def diagonal(self) -> Tensor:
        return self.weights.sum(-1) - self.weights.diagonal(dim1=-2, dim2=-1)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> DenseLaplacian:
        weights = self.weights.to(device=device, dtype=dtype)
        return self if weights is self.weights else DenseLaplacian(weights, symmetric=self.symmetric)


class _SymmetricProduct(torch.autograd.Function):
    """``L u`` whose gradient is the same product: BLAS is many times slower on the transpose of a tall matrix."""

    @staticmethod
    def forward(u: Tensor, operator: DenseLaplacian) -> Tensor:
        return operator.degree[:, None] * u - operator.weights @ u

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, DenseLaplacian], output: Tensor) -> None:
        ctx.operator = inputs[1]

    @staticmethod
    def backward(ctx: Any, to_product: Tensor) -> tuple[Tensor, None]:
        return ctx.operator(to_product), None


class SparseLaplacian(Laplacian):
    """The Laplacian of weights in CSR form.

    The product keeps no copy of ``u`` for the backward pass unless the weights need a gradient, so that a chain of
    K layers takes no more memory than one.

    Parameters
    ----------
    crow_indices, col_indices
        The CSR structure; it is kept as int32.
    weights
        One value for each stored entry.
    symmetric
        Whether the weights equal their mirror image.
    """

    def __init__(self, crow_indices: Tensor, col_indices: Tensor, weights: Tensor, *, symmetric: bool) -> None:
        if weights.shape != col_indices.shape:
            raise InvalidInputError(
                f"there are {col_indices.shape[0]} entries but the weights have the shape {tuple(weights.shape)}"
            )
        self.pattern = Pattern(crow_indices, col_indices, crow_indices.shape[0] - 1)
        self.weights = weights
        self.symmetric = symmetric
        self._degree: tuple[int, Tensor] | None = None
        self._diagonal: tuple[int, Tensor] | None = None

    @classmethod
    def from_edges(
        cls,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        n_nodes: int,
        normalisation: Literal["symmetric", "random_walk", "none"] = "symmetric",
        self_loops: bool = True,
        dtype: torch.dtype | None = None,
    ) -> SparseLaplacian:
        """The Laplacian of a PyTorch Geometric edge list, differentiable in ``edge_weight``.

        An edge ``(source, target)`` lets the target average over the source. Self-loops of weight one are added
        before the normalisation, as in :meth:`condiff.graph.Graph.normalised`.
        """
        if normalisation not in ("symmetric", "random_walk", "none"):
            raise InvalidInputError(
                f"normalisation must be 'symmetric', 'random_walk' or 'none', not {normalisation!r}"
            )
        if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
            raise InvalidInputError(
                f"edge_index must hold integers in the shape (2, edges), not {edge_index.dtype} "
                f"{tuple(edge_index.shape)}"
            )
        # In 64 bits, because pairs of nodes are numbered below.
        source, target = edge_index[0].long(), edge_index[1].long()
        if edge_weight is None:
            edge_weight = torch.ones(source.shape[0], dtype=dtype or torch.get_default_dtype(), device=source.device)
        if edge_weight.shape != source.shape:
            raise InvalidInputError(
                f"there are {source.shape[0]} edges but the edge weights have the shape {tuple(edge_weight.shape)}"
            )
        if source.numel() and (int(edge_index.min()) < 0 or int(edge_index.max()) >= n_nodes):
            raise InvalidInputError(
                f"edge_index has entries from {int(edge_index.min())} to {int(edge_index.max())}, but there are "
                f"{n_nodes} nodes"
            )
        if self_loops:
            loop = torch.arange(n_nodes, device=source.device, dtype=source.dtype)
            source, target = torch.cat([source, loop]), torch.cat([target, loop])
            edge_weight = torch.cat([edge_weight, edge_weight.new_ones(n_nodes)])
        if normalisation != "none":
            degree = edge_weight.new_zeros(n_nodes).index_add(0, target, edge_weight)
            safe = torch.where(degree > 0, degree, 1.0)
            if normalisation == "symmetric":
                # A node without a row of its own contributes 0, not infinity.
                edge_weight = edge_weight * (safe[target] * safe[source]).rsqrt() * (degree[source] > 0)
            else:
                edge_weight = edge_weight / safe[target]
        order = torch.argsort(target * n_nodes + source, stable=True)
        crow = torch.zeros(n_nodes + 1, dtype=torch.int32, device=source.device)
        crow[1:] = torch.cumsum(torch.bincount(target, minlength=n_nodes), 0)
        result = cls(crow, source[order].to(torch.int32), edge_weight[order], symmetric=False)
        result.symmetric = result._equals_mirror()
        return result

    def __call__(self, u: Tensor) -> Tensor:
        self._check(u)
        if u.ndim == 1:
            return self(u[:, None])[:, 0]
        if u.ndim == 2:
            return _SparseProduct.apply(self.weights, u, self)  # type: ignore[no-any-return, no-untyped-call]
        # CSR products take matrices only: the batch goes into the columns.
        columns = u.movedim(-2, 0)
        return self(columns.reshape(self.n_nodes, -1)).reshape(columns.shape).movedim(0, -2)

    @property
    def n_nodes(self) -> int:
        return self.pattern.shape[0]

    @property
    def crow_indices(self) -> Tensor:
        """Where the entries of every row begin, and where the last one's end."""
        return self.pattern.crow_indices

    @property
    def col_indices(self) -> Tensor:
        """The column of every stored entry."""
        return self.pattern.col_indices

    @property
    def row_indices(self) -> Tensor:
        """The row of every stored entry."""
        return self.pattern.rows

    @property
    def degree(self) -> Tensor:
        """Row sums of the weights, without gradient."""
        version = self.version
        if self._degree is None or self._degree[0] != version:
            weights = self.weights.detach()
            degree = weights.new_zeros(self.n_nodes)
            for rows, entries in self.pattern.row_blocks():
                degree.index_add_(0, rows, weights[entries])
            self._degree = version, degree
        return self._degree[1]

    @property
    def diagonal(self) -> Tensor:
        if self.weights.requires_grad:
            return self._sums_apart()
        version = self.version
        if self._diagonal is None or self._diagonal[0] != version:
            self._diagonal = version, self._sums_apart()
        return self._diagonal[1]

    def _sums_apart(self) -> Tensor:
        """Row sums of the weights without the loops."""
        diagonal = self.weights.new_zeros(self.n_nodes)
        for rows, entries in self.pattern.row_blocks():
            between = rows != self.col_indices[entries]
            diagonal = diagonal.index_add(0, rows[between], self.weights[entries][between])
        return diagonal

    @property
    def transposed(self) -> Laplacian:
        return self if self.symmetric else _Adjoint(self)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> SparseLaplacian:
        if torch.device(device or self.device) == self.device and (dtype or self.dtype) == self.dtype:
            return self
        return self._with(self.pattern.to(device), self.weights.to(device=device, dtype=dtype))

    def detach(self) -> SparseLaplacian:
        """The same operator, to whose weights no gradient flows."""
        return self._with(self.pattern, self.weights.detach())

    def _with(self, pattern: Pattern, weights: Tensor) -> SparseLaplacian:
        other = copy.copy(self)
        other.pattern, other.weights, other._degree, other._diagonal = pattern, weights, None, None
        return other

    def _equals_mirror(self) -> bool:
        crow, col, order = self.pattern.mirror
        same = torch.equal(crow, self.crow_indices) and torch.equal(col, self.col_indices)
        values = self.weights.detach()
        tolerance = 1e-8 if values.dtype == torch.float64 else 1e-5
        return same and torch.allclose(values[order], values, rtol=tolerance, atol=0.0)

    def product(self, u: Tensor, *, transpose: bool = False) -> Tensor:
        """``L u`` or ``L^T u`` for a matrix ``u``, outside of autograd."""
        from condiff.graph import steps

        if (self.symmetric or not transpose) and steps.multiplies_compiled(self, u):
            return steps.product(self, u)
        pull = self.pattern.product(self.weights.detach(), u, transpose=transpose and not self.symmetric)
        return self.degree[:, None] * u - pull


def laplacian(source: Any, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Laplacian:
    """Read a Laplacian: a :class:`Laplacian`, a :class:`Graph`, or a tensor that holds the matrix ``L`` itself.

    A tensor may be dense, of shape (..., n, n), or sparse; its rows must sum to zero and its off-diagonal entries
    must not be positive, or it is no Laplacian and the error says so.
    """
    if isinstance(source, Laplacian):
        return source.to(device, dtype)
    if hasattr(source, "laplacian"):
        made: Laplacian = source.laplacian(dtype or torch.get_default_dtype(), device)
        return made
    if not isinstance(source, Tensor):
        raise InvalidInputError(
            f"cannot read a Laplacian from {type(source).__name__}; use Graph.of(...).normalised().laplacian()"
        )
    if source.ndim < 2 or source.shape[-1] != source.shape[-2]:
        raise InvalidInputError(f"a Laplacian is a square matrix, but this tensor has the shape {tuple(source.shape)}")
    matrix = source.to(
        device=device, dtype=dtype or (None if source.is_floating_point() else torch.get_default_dtype())
    )
    if matrix.layout != torch.strided:
        coordinates = valid_coo(matrix)
        (rows, columns), values = coordinates.indices(), coordinates.values()
        between = rows != columns
        sums = values.new_zeros(matrix.shape[0]).index_add(0, rows, values)
        _check_rows(sums, -values[between], values)
        edges = torch.stack([columns[between], rows[between]])
        return SparseLaplacian.from_edges(
            edges, -values[between], n_nodes=matrix.shape[0], normalisation="none", self_loops=False
        )
    weights = torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1)) - matrix
    _check_rows(matrix.sum(-1), weights, matrix)
    return DenseLaplacian(weights)


def _check_rows(sums: Tensor, weights: Tensor, entries: Tensor) -> None:
    scale = float(entries.detach().abs().max()) if entries.numel() else 1.0
    tolerance = 1e-4 * max(scale, 1e-30) if entries.dtype != torch.float64 else 1e-8 * max(scale, 1e-30)
    if not bool(torch.isfinite(entries.detach()).all()):
        raise InvalidInputError("this matrix has NaN or infinite entries, so it is no Laplacian")
    if weights.numel() and float(weights.detach().min()) < -tolerance:
        raise InvalidInputError(
            "this matrix has positive off-diagonal entries, so it is no Laplacian; for an adjacency use "
            "Graph.of(adjacency).normalised().laplacian()"
        )
    if float(sums.detach().abs().max()) > tolerance:
        raise InvalidInputError(
            f"the rows of a Laplacian sum to zero, but one of these sums to {float(sums.detach().abs().max()):.3g}"
        )


class _Adjoint(Laplacian):
    """``L^T`` of a Laplacian that is not symmetric."""

    def __init__(self, forward: DenseLaplacian | SparseLaplacian) -> None:
        self.forward = forward
        self.weights = forward.weights.detach()
        self.symmetric = False

    def __call__(self, u: Tensor) -> Tensor:
        self._check(u)
        if u.ndim == 1:
            return self(u[:, None])[..., 0]
        if isinstance(self.forward, SparseLaplacian):
            columns = u.movedim(-2, 0)
            product = self.forward.product(columns.reshape(self.n_nodes, -1), transpose=True)
            return product.reshape(columns.shape).movedim(0, -2)
        return self.weights.sum(-1, keepdim=True) * u - self.weights.mT @ u

    @property
    def transposed(self) -> Laplacian:
        return self.forward

    @property
    def n_nodes(self) -> int:
        return self.forward.n_nodes

    @property
    def diagonal(self) -> Tensor:
        return self.forward.diagonal.detach()

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> _Adjoint:
        return _Adjoint(self.forward.to(device, dtype))


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, u: Tensor, operator: SparseLaplacian) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(*((u,) if ctx.needs_input_grad[0] else ()))
        return operator.product(u)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        operator: SparseLaplacian = ctx.operator
        to_weights = to_u = None
        if ctx.needs_input_grad[0]:
            (u,) = ctx.saved_tensors
            # d(L u)_i / d w_ij = u_i - u_j.
            own = (gradient * u).sum(-1).index_select(0, operator.row_indices)
            to_weights = own - operator.pattern.outer(gradient, u)
        if ctx.needs_input_grad[1]:
            to_u = operator.product(gradient, transpose=True)
        return to_weights, to_u, None
