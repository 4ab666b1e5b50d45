"""From every common description of a graph to a SciPy CSR array; only its form and indices are checked here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.graph.valid import valid_csr


def to_csr(source: Any, edge_weight: Any = None, n_nodes: int | None = None) -> sp.csr_array:
    """The weights as a CSR array; see :meth:`condiff.graph.Graph.of` for what is accepted."""
    array_like = is_tensor(source) or isinstance(source, np.ndarray | list | tuple)
    if edge_weight is not None and not (array_like and not _is_sparse_tensor(source)):
        raise InvalidInputError("edge_weight goes with an integer edge_index of shape (2, edges) only")
    if hasattr(source, "edge_index"):  # a PyTorch Geometric Data, without importing the package
        weight = getattr(source, "edge_weight", None)
        if weight is None:
            attributes = getattr(source, "edge_attr", None)
            one_each = attributes is not None and attributes.shape.numel() == attributes.shape[0]
            weight = attributes if one_each else None
        return _from_edges(source.edge_index, weight, source.num_nodes)
    if hasattr(source, "adj") and hasattr(source, "is_directed"):  # a networkx graph
        return _from_networkx(source)
    if len(getattr(source, "shape", (0, 0))) != 2:
        raise InvalidInputError(f"a graph needs a square matrix of weights, not the shape {tuple(source.shape)}")
    if sp.issparse(source):
        return valid_csr(source)
    if is_tensor(source):
        if _is_sparse_tensor(source):
            from condiff.graph.sparse import valid_coo

            coordinates = valid_coo(source.detach()).cpu()
            return sp.csr_array(
                (_as_numpy(coordinates.values()), tuple(coordinates.indices().numpy())),
                shape=tuple(source.shape),
            )
        source = _as_numpy(source)
    try:
        array = np.asarray(source)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"cannot read a graph from {type(source).__name__}: {error}") from error
    if array.dtype.kind not in "biufc" or array.ndim != 2:
        raise InvalidInputError(
            f"cannot read a graph from {type(source).__name__} of shape {array.shape} and type {array.dtype}: pass a "
            "square matrix, an edge_index of shape (2, edges), a networkx graph or a PyTorch Geometric Data"
        )
    # A 2 x 2 matrix is an adjacency; any other integer matrix with two rows can only be a list of edges.
    is_edge_list = array.shape[0] == 2 and array.dtype.kind in "iu" and (array.shape[1] != 2 or n_nodes is not None)
    if is_edge_list or edge_weight is not None:
        return _from_edges(array, edge_weight, n_nodes)
    return sp.csr_array(array.astype(np.float32) if array.dtype == np.float16 else array)


def _from_edges(edge_index: Any, edge_weight: Any, n_nodes: int | None) -> sp.csr_array:
    edges = _as_numpy(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise InvalidInputError(
            f"edge_index must hold integers in the shape (2, edges), not {edges.dtype} {edges.shape}"
        )
    weights = np.ones(edges.shape[1]) if edge_weight is None else _as_numpy(edge_weight)
    if weights.shape not in ((edges.shape[1],), (edges.shape[1], 1)):
        raise InvalidInputError(f"there are {edges.shape[1]} edges but the edge weights have the shape {weights.shape}")
    if weights.dtype.kind not in "biufc":
        raise InvalidInputError(f"weights must be real numbers, not {weights.dtype}")
    n = int(edges.max(initial=-1)) + 1 if n_nodes is None else int(n_nodes)
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        raise InvalidInputError(f"edge_index has entries from {edges.min()} to {edges.max()}, but there are {n} nodes")
    # Weights of repeated edges add up, which small integers would not survive.
    wide = weights if weights.dtype.kind == "c" else weights.astype(np.result_type(weights, np.float32))
    return sp.csr_array((wide.ravel(), (edges[1], edges[0])), shape=(n, n))


def _from_networkx(source: Any) -> sp.csr_array:
    nodes = {node: position for position, node in enumerate(source)}
    pairs = [(nodes[a], nodes[b], data.get("weight", 1.0)) for a, b, data in source.edges(data=True)]
    rows = np.array([a for a, _, _ in pairs], dtype=np.int64)
    columns = np.array([b for _, b, _ in pairs], dtype=np.int64)
    try:
        values = np.array([w for _, _, w in pairs], dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"weights must be real numbers: {error}") from error
    if not source.is_directed():
        between = rows != columns
        rows, columns, values = (
            np.concatenate([rows, columns[between]]),
            np.concatenate([columns, rows[between]]),
            np.concatenate([values, values[between]]),
        )
    return sp.csr_array((values, (rows, columns)), shape=(len(nodes), len(nodes)))


def is_tensor(value: Any) -> bool:
    """Whether this is a torch tensor; without importing torch, which whoever has made one has done."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_sparse_tensor(value: Any) -> bool:
    return is_tensor(value) and str(value.layout) != "torch.strided"


def _as_numpy(values: Any) -> np.ndarray[Any, Any]:
    if not is_tensor(values):
        return np.asarray(values)
    values = values.detach().cpu()
    half = str(values.dtype) in ("torch.float16", "torch.bfloat16")  # NumPy lacks the one, SciPy both
    return np.asarray((values.float() if half else values).numpy())
