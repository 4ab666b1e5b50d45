from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from tests.diffusion.problems import Counting, cycle, dense_laplacian, kinds, operator_of, random_u, random_weights

from condiff.diffusion import Exact


@kinds
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.float64, 1e-13)])
@pytest.mark.parametrize("time", [1e-3, 0.5, 4.0, 60.0, 600.0])
def test_equals_the_matrix_exponential_of_scipy(
    kind: str, directed: bool, dtype: torch.dtype, tolerance: float, time: float
) -> None:
    weights, u = random_weights(12, 3, directed=directed), random_u(12)
    expected = torch.from_numpy(expm(-time * dense_laplacian(weights))) @ u
    actual = Exact()(operator_of(weights, kind, dtype), u.to(dtype), time / 4, 4)
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance * max(1, time))


@pytest.mark.parametrize(("time", "products"), [(8.0, 58), (32.0, 139)])
def test_the_products_are_as_many_as_the_docstring_says(time: float, products: int) -> None:
    problem, u = cycle(30), random_u(30)  # the largest diagonal entry is 2
    operator = Counting(torch.from_numpy(problem.weights))
    actual = Exact()(operator, u, time, 1)
    assert operator.calls == products
    torch.testing.assert_close(actual, problem.evolved(lambda x: np.exp(-time * x), u), rtol=0, atol=1e-12)
