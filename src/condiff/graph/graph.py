"""The one graph type: non-negative weights between n nodes, whatever form they came in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from condiff.errors import InvalidInputError
from condiff.graph.convert import to_csr

if TYPE_CHECKING:
    import torch

    from condiff.graph.laplacians import SparseLaplacian

Normalisation = Literal["symmetric", "random_walk", "none"]
SelfLoops = Literal["add", "remove", "keep"]

# Weights that were averaged or normalised in floating point differ from their mirror image by rounding only.
_SYMMETRY_TOLERANCE = {"f4": 1e-6, "f8": 1e-8}


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes joined by non-negative weights, held as a canonical SciPy CSR array.

    Row ``i`` lists what node ``i`` averages over: ``weights[i, j]`` is the pull of ``j`` on ``i``.

    Parameters
    ----------
    weights
        Anything that :meth:`of` accepts; use that method unless you already hold a checked CSR array.
    """

    weights: sp.csr_array

    @classmethod
    def of(cls, source: Any, edge_weight: Any = None, *, n_nodes: int | None = None) -> Graph:
        """Make a graph of anything that describes one.

        Parameters
        ----------
        source
            A :class:`Graph`; a square dense array, SciPy sparse matrix or torch tensor (dense, COO, CSR or CSC);
            an ``edge_index`` of shape (2, edges) with integer entries, where an edge ``(source, target)`` lets
            the target average over the source, as in PyTorch Geometric (a 2 x 2 matrix is read as weights unless
            ``n_nodes`` or ``edge_weight`` is given); a networkx graph, as its adjacency matrix (``weight`` attributes
            count, and a directed edge ``(a, b)`` is row a, column b); or a PyTorch Geometric ``Data``.
        edge_weight
            Weights of the edges of an ``edge_index``; ones by default.
        n_nodes
            Number of nodes of an ``edge_index``; its largest entry plus one by default.

        Raises
        ------
        InvalidInputError
            If it is not square, empty, or has a negative, infinite or NaN weight.
        """
        if isinstance(source, Graph) and edge_weight is None:
            return source
        return cls(_checked(to_csr(source, edge_weight, n_nodes)))

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.weights.shape[0])

    @cached_property
    def n_edges(self) -> int:
        """Number of edges between different nodes; an undirected edge counts once."""
        loops = int(np.count_nonzero(self.weights.diagonal()))
        entries = int(self.weights.nnz) - loops
        return entries // 2 if self.is_symmetric else entries

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether every weight equals its mirror image, up to rounding."""
        if self.weights.nnz == 0:
            return True
        difference = abs(self.weights - self.weights.T)
        tolerance = _SYMMETRY_TOLERANCE.get(self.weights.dtype.str[1:], 1e-8)
        return bool(difference.max() <= tolerance * self.weights.max())

    @cached_property
    def degree(self) -> NDArray[np.float64]:
        """Row sums of the weights."""
        return np.asarray(self.weights.sum(axis=1), dtype=np.float64).ravel()

    @cached_property
    def components(self) -> NDArray[np.int32]:
        """The connected component of every node; directions do not separate."""
        return np.asarray(connected_components(self.weights, directed=False)[1])

    def reached_from(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which nodes lie in a component with one of these."""
        has_one = np.zeros(self.n_nodes, bool)
        has_one[self.components[nodes]] = True
        return has_one[self.components]

    def require_symmetric(self, purpose: str) -> Graph:
        """This graph, or an error that names the worst pair of nodes and what needs the symmetry."""
        if self.is_symmetric:
            return self
        difference = abs(self.weights - self.weights.T).tocoo()
        worst = int(np.argmax(difference.data))
        i, j = int(difference.row[worst]), int(difference.col[worst])
        raise InvalidInputError(
            f"{purpose} needs a symmetric graph, but weight ({i}, {j}) is {self.weights[i, j]:.6g} and "
            f"({j}, {i}) is {self.weights[j, i]:.6g}; call graph.symmetrised() first"
        )

    def symmetrised(self) -> Graph:
        """The graph of ``(W + W^T) / 2``."""
        weights = _canonical(self.weights + self.weights.T)
        weights.data *= 0.5
        return Graph(weights)._mirrored()

    def _mirrored(self) -> Graph:
        """Note that this graph is symmetric by construction: checking would cost two copies."""
        self.__dict__["is_symmetric"] = True
        return self

    def permuted(self, order: NDArray[np.int64]) -> Graph:
        """The same graph with node ``order[i]`` in place i."""
        rows = self.weights[order]
        place = np.empty(self.n_nodes, rows.indices.dtype)
        place[order] = np.arange(self.n_nodes)
        moved = Graph(_canonical(sp.csr_array((rows.data, place[rows.indices], rows.indptr), shape=rows.shape)))
        return moved._mirrored() if self.__dict__.get("is_symmetric") else moved

    def largest_component(self) -> tuple[Graph, NDArray[np.int64]]:
        """The largest connected component, and the indices of its nodes in this graph."""
        nodes = np.flatnonzero(self.components == np.bincount(self.components).argmax())
        return Graph(_canonical(self.weights[nodes][:, nodes])), nodes

    def normalised(self, kind: Normalisation = "symmetric", self_loops: SelfLoops = "keep") -> Graph:
        """Scale the weights by the degrees.

        ``symmetric`` is ``D^-1/2 W D^-1/2``, ``random_walk`` is ``D^-1 W``, ``none`` leaves them, with ``D`` the
        row sums after the self-loops of weight one were added, the diagonal was removed, or it was kept as it is.
        A node without edges keeps its empty row.
        """
        weights = self.weights
        if self_loops == "add":
            weights = weights + sp.eye_array(self.n_nodes, dtype=weights.dtype, format="csr")
        elif self_loops == "remove":
            weights = weights - sp.diags_array(weights.diagonal(), format="csr")
        elif self_loops != "keep":
            raise InvalidInputError(f"self_loops must be 'add', 'remove' or 'keep', not {self_loops!r}")
        if kind not in ("symmetric", "random_walk", "none"):
            raise InvalidInputError(f"normalisation must be 'symmetric', 'random_walk' or 'none', not {kind!r}")
        weights = sp.csr_array(weights)
        if kind != "none":
            degree = np.asarray(weights.sum(axis=1)).ravel()
            power = -0.5 if kind == "symmetric" else -1.0
            scale = np.zeros_like(degree)
            np.power(degree, power, out=scale, where=degree > 0)
            values = weights.data * np.repeat(scale, np.diff(weights.indptr))
            if kind == "symmetric":
                values *= scale[weights.indices]
            weights = sp.csr_array((values, weights.indices.copy(), weights.indptr.copy()), shape=weights.shape)
        normalised = Graph(_canonical(weights))
        # Only where it is known already: checking may cost more than the normalisation.
        return normalised._mirrored() if kind != "random_walk" and self.__dict__.get("is_symmetric") else normalised

    @cached_property
    def max_diagonal(self) -> float:
        """The largest ``L_ii`` of the Laplacian, whose inverse is the positivity limit of a diffusion's step."""
        return float((self.degree - self.weights.diagonal()).max())

    def laplacian(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> SparseLaplacian:
        """The Laplacian ``diag(W 1) - W`` of these weights as they are; normalise first where that is wanted.

        In single precision, unless another is asked for.
        """
        import torch

        from condiff.graph.laplacians import SparseLaplacian

        return SparseLaplacian(
            torch.as_tensor(self.weights.indptr, device=device),
            torch.as_tensor(self.weights.indices, device=device),
            torch.as_tensor(self.weights.data, dtype=dtype or torch.float32, device=device),
            symmetric=self.is_symmetric,
        )


def _canonical(weights: Any) -> sp.csr_array:
    """Sorted int32 indices where they suffice, no duplicates, no stored zeros."""
    matrix = sp.csr_array(weights)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if max(matrix.nnz, *matrix.shape) < np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


def _checked(weights: sp.csr_array) -> sp.csr_array:
    rows, columns = weights.shape
    if rows != columns:
        raise InvalidInputError(f"a graph needs a square matrix of weights, but this one is {rows} x {columns}")
    if rows == 0:
        raise InvalidInputError("the graph has no nodes")
    if np.iscomplexobj(weights.data) or weights.data.dtype.kind not in "biuf":
        raise InvalidInputError(f"weights must be real numbers, not {weights.data.dtype}")
    weights = _canonical(weights.astype(np.float64 if weights.data.dtype.kind != "f" else weights.data.dtype))
    for problem, bad in (
        ("NaN or infinite", ~np.isfinite(weights.data)),
        ("negative", weights.data < 0),
    ):
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            row = int(np.searchsorted(weights.indptr, at, side="right")) - 1
            column = int(weights.indices[at])
            raise InvalidInputError(
                f"weights must be finite and not negative, but {int(bad.sum())} are {problem}, the first one "
                f"({weights.data[at]:g}) between nodes {row} and {column}"
            )
    return weights
