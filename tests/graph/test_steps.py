from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.diffusion import Chebyshev, Euler
from condiff.graph import Graph, SparseLaplacian, steps
from condiff.graph.steps import euler_layers, runs_compiled

pytest.importorskip("numba", reason="numba is not installed")


def operator_of(n: int, seed: int = 0, dtype: torch.dtype = torch.float64, symmetric: bool = True) -> SparseLaplacian:
    weights = sp.random_array((n, n), density=min(1.0, 4 / n), rng=np.random.default_rng(seed), format="csr")
    return Graph.of(weights + weights.T if symmetric else weights).normalised(self_loops="add").laplacian(dtype)


def plainly(operator: SparseLaplacian, u: torch.Tensor, strength: float, layers: int) -> torch.Tensor:
    """Dense matrix powers."""
    matrix = torch.eye(operator.n_nodes, dtype=u.dtype) - strength * operator(
        torch.eye(operator.n_nodes, dtype=u.dtype)
    )
    return torch.linalg.matrix_power(matrix, layers) @ u


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    columns=st.integers(1, 140),
    layers=st.integers(0, 5),
    seed=st.integers(0, 1000),
    symmetric=st.booleans(),
)
def test_it_is_the_dense_power(n: int, columns: int, layers: int, seed: int, symmetric: bool) -> None:
    operator = operator_of(n, seed, symmetric=symmetric)
    u = torch.randn(n, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    before = u.clone()
    torch.testing.assert_close(euler_layers(operator, u, 0.4, layers), plainly(operator, u, 0.4, layers))
    assert torch.equal(u, before)


@pytest.mark.parametrize("columns", [8, 16, 20, 64, 70])
def test_a_single_product_is_the_plain_one(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    operator = operator_of(90)
    u = torch.randn(90, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected, before = operator(u), u.clone()
    monkeypatch.setattr(steps, "COMPILED_FROM", 1)
    monkeypatch.setattr(steps, "_PRODUCT_FROM", 1)
    assert steps.multiplies_compiled(operator, u)
    torch.testing.assert_close(operator(u), expected)
    torch.testing.assert_close(steps.product(operator, u), expected)
    assert torch.equal(u, before)


@pytest.mark.parametrize("columns", [8, 32, 50, 70])
@pytest.mark.parametrize("time", [0.1, 3.0, 40.0])
def test_a_chebyshev_series_is_the_plain_one(monkeypatch: pytest.MonkeyPatch, columns: int, time: float) -> None:
    operator = operator_of(90)
    u = torch.randn(90, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before, expected = u.clone(), Chebyshev()(operator, u, time, 1)
    monkeypatch.setattr(steps, "COMPILED_FROM", 1)
    monkeypatch.setattr(steps, "_PRODUCT_FROM", 1)
    torch.testing.assert_close(Chebyshev()(operator, u, time, 1), expected)
    assert torch.equal(u, before)
    # A gradient takes the plain way.
    u.requires_grad_()
    assert Chebyshev()(operator, u, time, 1).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_precisions(dtype: torch.dtype) -> None:
    operator = operator_of(200, dtype=dtype)
    u = torch.rand(200, 10, generator=torch.Generator().manual_seed(0), dtype=dtype)
    found = euler_layers(operator, u, 0.5, 7)
    assert found.dtype == dtype
    exact = plainly(operator.to(dtype=torch.float64), u.double(), 0.5, 7)
    torch.testing.assert_close(
        found.double(), exact, rtol=20 * torch.finfo(dtype).eps, atol=20 * torch.finfo(dtype).eps
    )


@pytest.mark.parametrize("shape", [(50,), (50, 3), (2, 50, 3), (2, 3, 50, 4)])
def test_vectors_and_batches(shape: tuple[int, ...]) -> None:
    operator = operator_of(50)
    u = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = euler_layers(operator, u, 0.3, 4)
    expected = Euler()(operator, u, 0.3, 4)
    assert found.shape == u.shape
    torch.testing.assert_close(found, expected)


def test_rows_without_entries_stay_and_a_graph_without_edges_does_nothing() -> None:
    lonely = Graph.of(sp.csr_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(4, 4))).laplacian(torch.float64)
    u = torch.arange(8.0, dtype=torch.float64).reshape(4, 2)
    found = euler_layers(lonely, u, 0.25, 3)
    assert torch.equal(found[2:], u[2:])
    torch.testing.assert_close(found, plainly(lonely, u, 0.25, 3))
    empty = Graph.of(np.zeros((3, 3))).laplacian(torch.float64)
    assert torch.equal(euler_layers(empty, u[:3], 0.5, 2), u[:3])


def test_the_number_of_threads_changes_nothing() -> None:
    operator = operator_of(3000, dtype=torch.float32)
    u = torch.rand(3000, 20, generator=torch.Generator().manual_seed(0))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(euler_layers(operator, u, 0.5, 5))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])


def test_means_are_kept_and_probabilities_stay_ones() -> None:
    operator = operator_of(500)
    u = torch.softmax(torch.randn(500, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64), dim=1)
    found = euler_layers(operator, u, 1 / float(operator.diagonal.max()), 30)
    assert float(found.min()) >= 0
    torch.testing.assert_close(found.sum(1), torch.ones(500, dtype=torch.float64))
    torch.testing.assert_close(found.mean(0), u.mean(0))


def test_euler_takes_it_on_large_graphs_where_no_gradient_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, u = operator_of(300), torch.rand(300, 4, dtype=torch.float64)
    assert not runs_compiled(operator, u)
    expected = Euler()(operator, u, 0.5, 6)
    monkeypatch.setattr(steps, "COMPILED_FROM", 300)
    assert runs_compiled(operator, u)
    torch.testing.assert_close(Euler()(operator, u, 0.5, 6), expected, rtol=1e-13, atol=1e-13)
    leaf = u.clone().requires_grad_()
    assert not runs_compiled(operator, leaf)
    assert Euler()(operator, leaf, 0.5, 6).requires_grad
    with torch.no_grad():
        assert runs_compiled(operator, leaf)
    assert not runs_compiled(operator, u.float())
    assert Euler()(operator, u, torch.tensor(0.5, requires_grad=True), 1).requires_grad
    monkeypatch.setattr(steps.kernels, "available", lambda: False)
    assert not runs_compiled(operator, u)
