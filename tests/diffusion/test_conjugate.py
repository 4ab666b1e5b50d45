from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff import kernels
from condiff.diffusion.conjugate import Array, Product, solve_symmetric


def test_conjugate_gradients_solve_every_column() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(20, 20))
    matrix = matrix @ matrix.T + np.eye(20)
    right = generator.normal(size=(20, 3))
    assert np.allclose(matrix @ solve_symmetric(lambda v, _: matrix @ v, right, 1e-12), right)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_solved_beside_a_problem_changes_none_of_its_numbers(
    compiled: bool, scaled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not kernels.available():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(kernels, "available", lambda: compiled)
    generator = np.random.default_rng(0)
    ring = Product(sp.diags_array([0.5] * 4, offsets=[1, -1, 3999, -3999], shape=(4000, 4000)).tocsr())
    right = generator.normal(size=(4000, 30)) * np.repeat([1.0, 1e3, 1.0], 10)
    right[:, 10:20] = ring.less(right[:, 10:20], 0.9)  # solved in other steps than the rest
    rate = generator.uniform(0.9, 1.1, size=(4000, 1))

    def solved(columns: Array) -> Array:
        inverse = np.repeat(rate, columns.shape[1], axis=1) if scaled else None
        return solve_symmetric(lambda v, _: ring.less(v, 0.9), columns, 1e-8, width=10, inverse=inverse)

    together = solved(right)
    for number in range(3):
        columns = slice(10 * number, 10 * number + 10)
        assert np.array_equal(together[:, columns], solved(right[:, columns]))
    assert np.allclose(ring.less(together, 0.9), right, rtol=1e-6, atol=1e-4)


def test_a_solution_that_is_known_is_kept() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 2))
    found = solve_symmetric(lambda v, _: 2 * v, 2 * x, 1e-10, start=x)
    assert np.allclose(found, x)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_with_its_diagonal_taken_out_an_uneven_matrix_takes_few_steps(
    compiled: bool, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not kernels.available():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(kernels, "available", lambda: compiled)
    generator = np.random.default_rng(0)
    diagonal = 10.0 ** generator.uniform(-3, 3, size=3000)
    band = sp.diags_array([0.2 * np.sqrt(diagonal[:-1] * diagonal[1:])] * 2, offsets=[1, -1])
    matrix = sp.csr_array(sp.diags_array(diagonal) + band).astype(kind)
    given = generator.normal(size=(3000, 3)).astype(kind)
    given[:5] = 0.0
    inverse = np.repeat(1 / diagonal[:, None], 3, axis=1).astype(kind)
    inverse[:5] = 0.0  # these stay what they are, zero
    right = matrix @ given
    found = solve_symmetric(lambda v, _: matrix @ v, right, 1e-5, most=30, inverse=inverse)
    assert found.dtype == kind and not found[:5].any()
    assert np.abs((found - given) * np.sqrt(diagonal)[:, None]).max() < 1e-3 * np.sqrt(diagonal.max())
    plain = solve_symmetric(lambda v, _: matrix @ v, right, 1e-5, most=30)
    assert np.abs(plain - given).max() > 100 * np.abs(found - given).max()
