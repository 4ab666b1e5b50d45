"""Indices that point outside are refused where they enter; compiled code would read whatever stands there."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph, SparseLaplacian, kernel_graph, laplacian
from condiff.graph.sparse import SparseMatrix

GOOD = {"indptr": [0, 2, 3, 4], "indices": [0, 1, 2, 0], "data": [1.0, 2.0, 3.0, 4.0]}
BAD = {
    "index out of range": ({"indices": [0, 1, 3, 0]}, "go from 0 to 3, but must be from 0 to 2"),
    "index far out of range": ({"indices": [0, 1, 2**30, 0]}, "must be from 0 to 2"),
    "negative index": ({"indices": [0, -1, 2, 0]}, "go from -1 to 2"),
    "decreasing row pointers": ({"indptr": [0, 3, 2, 4]}, "never decrease"),
    "row pointers that return to 0": ({"indptr": [0, 9, 9, 0]}, "never decrease"),
    "row pointers that do not begin at 0": ({"indptr": [1, 2, 3, 4]}, "begin at 0"),
    "row pointers beyond the data": ({"indptr": [0, 2, 3, 900]}, "end at 900, but there are 4 entries"),
    "too few row pointers": ({"indptr": [0, 2, 4]}, "one more than rows"),
    "fewer values than indices": ({"data": [1.0, 2.0]}, "end at 4, but there are 2 entries"),
    "indices that are no whole numbers": ({"indices": [0.0, 1.0, 2.0, 0.0]}, "whole numbers"),
    "row pointers that are no whole numbers": ({"indptr": [0.0, 2.0, 3.0, 4.0]}, "whole numbers"),
}
ENTRANCES = {"graph": Graph.of, "features": SparseMatrix.of, "points": lambda x: kernel_graph(x, 2, 2)}


def hostile(kind, **changes):
    """A matrix whose parts were changed behind SciPy's back."""
    matrix = kind((3, 3))
    for name, values in (GOOD | changes).items():
        setattr(matrix, name, np.array(values))
    return matrix


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix])
@pytest.mark.parametrize("flaw", BAD)
def test_sparse_matrices(flaw, kind, entrance):
    changes, message = BAD[flaw]
    with pytest.raises(InvalidInputError, match=message):
        ENTRANCES[entrance](hostile(kind, **changes))


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_matrices_in_other_forms(entrance):
    coordinates = sp.coo_array((3, 3))
    coordinates.data, coordinates.coords = np.ones(1), (np.array([0]), np.array([7]))
    lists = sp.lil_array((3, 3))
    lists.rows[1], lists.data[1] = [7], [1.0]
    blocks = sp.bsr_array(np.ones((4, 4)), blocksize=(2, 2))
    blocks.indices = np.array([0, 1, 0, 9], np.int32)
    for matrix in (coordinates, lists, blocks):
        with pytest.raises(InvalidInputError, match="indices of a sparse matrix go from"):
            ENTRANCES[entrance](matrix)


def test_good_ones_are_read_as_they_are():
    matrix = hostile(sp.csr_array)
    assert (Graph.of(matrix).weights != sp.csr_array(matrix)).nnz == 0
    longer = hostile(sp.csr_array, indices=[0, 1, 2, 0, 99], data=[1.0, 2.0, 3.0, 4.0, 5.0])
    assert (Graph.of(longer).weights != sp.csr_array(matrix)).nnz == 0  # what is behind the last row does not count


@pytest.mark.parametrize("flaw", BAD)
def test_laplacians(flaw):
    changes, _ = BAD[flaw]
    parts = GOOD | changes
    with pytest.raises(InvalidInputError, match=r"sparse matrix|entries"):
        SparseLaplacian(*(torch.tensor(parts[name]) for name in ("indptr", "indices", "data")), symmetric=False)


@pytest.mark.parametrize("read", [Graph.of, laplacian])
def test_tensors(read):
    coordinates = torch.sparse_coo_tensor([[0, 1], [1, 7]], [1.0, 1.0], (3, 3), check_invariants=False)
    rows = torch.sparse_csr_tensor([0, 1, 2, 2], [1, 7], [1.0, 1.0], (3, 3), check_invariants=False)
    columns = torch.sparse_csc_tensor([0, 1, 2, 2], [1, 7], [1.0, 1.0], (3, 3), check_invariants=False)
    for tensor in (coordinates, rows, columns):
        with pytest.raises(InvalidInputError, match="indices of this sparse tensor are not valid"):
            read(tensor)


def test_indices_are_kept_as_int32():
    operator = SparseLaplacian(*(torch.tensor(GOOD[name]) for name in ("indptr", "indices", "data")), symmetric=False)
    assert operator.crow_indices.dtype == operator.col_indices.dtype == torch.int32
