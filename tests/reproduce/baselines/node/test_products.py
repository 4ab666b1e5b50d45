"""Sparse products against dense ones, with and without the compiled loop."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff import kernels
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.node.products import WIDTH, product, symmetric_product


def matrices(dtype: torch.dtype) -> tuple[SparseMatrix, SparseMatrix]:
    """One that is taller than wide, with empty rows, and a symmetric one."""
    generator = np.random.default_rng(1)
    tall = sp.random_array((60, 9), density=0.05, rng=generator)
    half = sp.random_array((30, 30), density=0.2, rng=generator)
    return SparseMatrix.of(tall, dtype), SparseMatrix.of(half + half.T, dtype)


@pytest.mark.parametrize("available", [True, False])
@pytest.mark.parametrize("width", [WIDTH, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_and_their_gradients(
    monkeypatch: pytest.MonkeyPatch, available: bool, width: int, dtype: torch.dtype
) -> None:
    if available and not kernels.available():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(kernels, "available", lambda: available)
    tall, symmetric = matrices(dtype)
    for matrix, multiply in ((tall, product), (symmetric, product), (symmetric, symmetric_product)):
        start = torch.randn(matrix.shape[1], width, generator=torch.Generator().manual_seed(0), dtype=dtype)
        ours, theirs = (start.clone().requires_grad_() for _ in range(2))
        expected: Tensor = matrix.to_dense() @ theirs
        found = multiply(matrix, ours)
        torch.testing.assert_close(found, expected)
        found.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
        assert theirs.grad is not None and theirs.grad.abs().sum() > 0


def test_the_compiled_loop_takes_what_is_not_contiguous() -> None:
    _, symmetric = matrices(torch.float32)
    turned = torch.randn(WIDTH, 30, generator=torch.Generator().manual_seed(0)).T
    torch.testing.assert_close(product(symmetric, turned), symmetric.to_dense() @ turned)
