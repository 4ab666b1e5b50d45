from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.diffusion.problems import random_u
from tests.graph.operators import KINDS, WEIGHTS, N, build, laplacian_of
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import Graph, Laplacian, laplacian

MATRIX = laplacian_of(WEIGHTS["directed"])


@pytest.mark.parametrize(
    "source",
    [
        MATRIX,
        MATRIX.to_sparse_coo(),
        MATRIX.to_sparse_csr(),
        MATRIX.to_sparse_csc(),
        build("dense", WEIGHTS["directed"]),
        build("sparse", WEIGHTS["directed"]),
        Graph.of(WEIGHTS["directed"]),
    ],
    ids=["dense", "coo", "csr", "csc", "DenseLaplacian", "SparseLaplacian", "Graph"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_laplacian_reads_every_form(source: Any, dtype: torch.dtype) -> None:
    operator = laplacian(source, dtype)
    assert isinstance(operator, Laplacian)
    assert not operator.symmetric
    u = random_u(N, dtype=dtype)
    tolerance = 100 * torch.finfo(dtype).eps
    torch.testing.assert_close(operator(u), MATRIX.to(dtype) @ u, rtol=tolerance, atol=tolerance)


def test_laplacian_keeps_an_operator_as_it_is() -> None:
    for kind in KINDS:
        operator = build(kind, WEIGHTS["undirected"])
        assert laplacian(operator) is operator
        assert laplacian(operator, torch.float64, "cpu") is operator


def test_laplacian_of_a_graph_takes_the_default_precision() -> None:
    assert laplacian(Graph.of(WEIGHTS["directed"])).dtype == torch.float32


def test_laplacian_recognises_symmetry_and_integers() -> None:
    matrix = torch.tensor([[1, -1, 0], [-1, 2, -1], [0, -1, 1]])
    for source in (matrix, matrix.to_sparse_coo()):
        operator = laplacian(source)
        assert operator.symmetric
        torch.testing.assert_close(operator(torch.eye(3)), matrix.float())


def test_laplacian_reads_batches() -> None:
    batch = torch.stack([MATRIX, 2 * MATRIX])
    u = random_u(N)
    torch.testing.assert_close(laplacian(batch)(u.expand(2, N, 3)), batch @ u)


def test_laplacian_passes_gradients_to_the_matrix_off_its_diagonal() -> None:
    matrix = MATRIX.clone().requires_grad_()
    laplacian(matrix)(random_u(N)).sum().backward()
    assert matrix.grad is not None
    assert (matrix.grad - torch.diag(matrix.grad.diagonal())).abs().max() > 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (torch.ones(3, 3) - torch.eye(3), "positive off-diagonal entries, so it is no Laplacian; for an adjacency"),
        (torch.eye(3), "the rows of a Laplacian sum to zero, but one of these sums to 1"),
        (torch.full((3, 3), torch.nan), "NaN or infinite"),
        (torch.ones(3, 4), r"square matrix, but this tensor has the shape \(3, 4\)"),
        (torch.ones(3), r"square matrix, but this tensor has the shape \(3,\)"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_tensors_that_are_no_laplacian_are_refused(source: Tensor, message: str, sparse: bool) -> None:
    with pytest.raises(InvalidInputError, match=message):
        laplacian(source.to_sparse_coo() if sparse else source)


def test_laplacian_of_something_else() -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read a Laplacian from ndarray; use Graph.of"):
        laplacian(np.eye(3))
