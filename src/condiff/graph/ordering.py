"""Orders of the nodes in which neighbours stand close together, so that a product finds them in the cache."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph.laplacians import SparseLaplacian


def locality_order(operator: SparseLaplacian) -> Tensor:
    """An order for :func:`permuted`: reverse Cuthill-McKee, which lists the nodes in waves from an outer one.

    It costs about as much as ten products of one column, and is for symmetric graphs.
    """
    if not operator.symmetric:
        raise InvalidInputError("an order of locality needs a symmetric graph")
    pattern = _weights(operator)
    # Only the positions of the entries matter.
    pattern.data = np.ones(pattern.nnz, dtype=np.int8)
    return torch.from_numpy(reverse_cuthill_mckee(sp.csr_matrix(pattern), symmetric_mode=True).astype(np.int64))


def permuted(operator: SparseLaplacian, order: Tensor) -> SparseLaplacian:
    """The same operator with node ``order[i]`` in place i, without gradients to the weights."""
    n = operator.n_nodes
    if order.shape != (n,) or not torch.equal(order.sort().values, torch.arange(n, device=order.device)):
        raise InvalidInputError(f"an order of {n} nodes must name each of them once")
    here = order.cpu().numpy()
    place = np.empty(n, dtype=np.int32)
    place[here] = np.arange(n, dtype=np.int32)
    moved = _weights(operator)[here]
    moved = sp.csr_array((moved.data, place[moved.indices], moved.indptr), shape=moved.shape)
    moved.sort_indices()
    parts = (moved.indptr.astype(np.int32, copy=False), moved.indices.astype(np.int32, copy=False), moved.data)
    crow, col, weights = (torch.from_numpy(part).to(operator.device) for part in parts)
    return SparseLaplacian(crow, col, weights, symmetric=operator.symmetric)


def _weights(operator: SparseLaplacian) -> sp.csr_array:
    parts = (operator.weights, operator.col_indices, operator.crow_indices)
    return sp.csr_array(tuple(part.detach().cpu().numpy() for part in parts), shape=operator.pattern.shape)
