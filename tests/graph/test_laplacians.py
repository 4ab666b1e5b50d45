from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.diffusion.problems import dense_laplacian, random_u, random_weights
from tests.graph.operators import KINDS, WEIGHTS, N, build, edge_list, laplacian_of
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian, Graph, Laplacian, SparseLaplacian, laplacian


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("direction", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
def test_dense_sparse_and_edges_equal_the_explicit_matrix(kind: str, direction: str, dtype: torch.dtype) -> None:
    weights = WEIGHTS[direction]
    operator, matrix = build(kind, weights, dtype), torch.tensor(dense_laplacian(weights), dtype=dtype)
    u, tolerance = random_u(N, dtype=dtype), 100 * torch.finfo(dtype).eps
    batch = random_u(N, 12, dtype=dtype).reshape(N, 2, 2, 3).permute(1, 2, 0, 3)
    for value, expected in (
        (u, matrix @ u),
        (u[:, 0], matrix @ u[:, 0]),
        (batch, matrix @ batch),
        (torch.ones(N, 1, dtype=dtype), torch.zeros(N, 1, dtype=dtype)),
    ):
        actual = operator(value)
        assert actual.shape == value.shape
        assert actual.dtype == dtype
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(operator.diagonal, matrix.diagonal(), rtol=tolerance, atol=tolerance)
    assert operator.symmetric == (direction == "undirected")
    assert operator.n_nodes == N
    assert (operator.dtype, operator.device) == (dtype, torch.device("cpu"))


@pytest.mark.parametrize("direction", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
def test_transposed_is_the_transpose_of_the_matrix(kind: str, direction: str) -> None:
    operator, matrix = build(kind, WEIGHTS[direction]), torch.tensor(dense_laplacian(WEIGHTS[direction]))
    u, batch = random_u(N), random_u(N, 6).reshape(N, 2, 3).movedim(0, 1)
    for value in (u, u[:, 0], batch):
        torch.testing.assert_close(operator.transposed(value), matrix.T @ value)
    assert operator.transposed.transposed is operator
    assert operator.transposed.n_nodes == N
    torch.testing.assert_close(operator.transposed.diagonal, matrix.diagonal())
    single = operator.transposed.to(dtype=torch.float32)
    assert single(u.float()).dtype == torch.float32
    assert (operator.transposed is operator) == (direction == "undirected")


@pytest.mark.parametrize("direction", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["vector", "matrix", "batch"])
def test_gradients_of_u_and_of_the_weights(kind: str, direction: str, shape: str) -> None:
    u = {"vector": random_u(N)[:, 0], "matrix": random_u(N), "batch": random_u(N, 6).reshape(2, N, 3)}[shape]
    edges, values = edge_list(WEIGHTS[direction])
    fixed = build(kind, WEIGHTS[direction])

    def apply(weights: Tensor, u: Tensor) -> Tensor:
        if kind == "dense":
            matrix = torch.zeros(N, N, dtype=torch.float64).index_put((edges[1], edges[0]), weights)
            return DenseLaplacian(matrix, symmetric=fixed.symmetric)(u)
        if kind == "edges":
            return SparseLaplacian.from_edges(edges, weights, n_nodes=N, self_loops=True)(u)
        # Row by row is the order of CSR, too.
        return SparseLaplacian(fixed.crow_indices, fixed.col_indices, weights, symmetric=False)(u)  # type: ignore[attr-defined]

    values, u = values.requires_grad_(), u.clone().requires_grad_()
    assert torch.autograd.gradcheck(apply, (values, u))
    assert torch.autograd.gradcheck(lambda u: fixed(u), (u,))  # here a symmetric operator takes the short way back


def test_gradients_of_a_sum_are_those_of_the_explicit_matrix() -> None:
    u = random_u(N).requires_grad_()
    operator = build("sparse", WEIGHTS["directed"])
    operator(u).sum().backward()  # an expanded, not a contiguous, gradient comes back
    torch.testing.assert_close(u.grad, torch.tensor(dense_laplacian(WEIGHTS["directed"])).T @ torch.ones_like(u))


def test_a_batch_of_dense_graphs() -> None:
    weights = torch.tensor(np.stack([random_weights(N, seed) for seed in range(4)]))
    operator, u = DenseLaplacian(weights), random_u(N)
    expected = torch.stack([torch.tensor(dense_laplacian(w.numpy())) @ u for w in weights])
    torch.testing.assert_close(operator(u.expand(4, N, 3)), expected)
    torch.testing.assert_close(operator(u[:, 0]), expected[..., 0])
    assert operator.diagonal.shape == (4, N)
    assert operator.symmetric


def test_a_large_symmetric_matrix_has_the_gradients_of_plain_autograd() -> None:
    weights = torch.rand(600, 600, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = weights + weights.mT
    u = random_u(600).requires_grad_()
    operator, plain = DenseLaplacian(weights), torch.diag(weights.sum(1)) - weights

    def gradients(apply: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        (once,) = torch.autograd.grad((apply(apply(u)) ** 3).sum(), u, create_graph=True)
        (twice,) = torch.autograd.grad((once**2).sum(), u)  # a plain sum is zero: L has constants in its kernel
        return once.detach(), twice

    torch.testing.assert_close(gradients(operator), gradients(lambda v: plain @ v))


@pytest.mark.parametrize("kind", KINDS)
def test_the_wrong_number_of_rows_is_named(kind: str) -> None:
    with pytest.raises(InvalidInputError, match=r"u has 8 rows \(shape \(8, 2\)\) but the graph has 9 nodes"):
        build(kind, WEIGHTS["directed"])(torch.ones(8, 2))
    with pytest.raises(InvalidInputError, match="u has 8 rows"):
        build(kind, WEIGHTS["directed"]).transposed(torch.ones(8))


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("normalisation", ["symmetric", "random_walk", "none"])
def test_from_edges_normalises_as_the_graph_does(normalisation: Any, self_loops: bool) -> None:
    weights = WEIGHTS["directed"].copy()
    weights[3] = 0  # averages over nobody, but others over it
    weights[5] = weights[:, 5] = 0  # isolated
    edges, values = edge_list(weights)
    actual = SparseLaplacian.from_edges(edges, values, n_nodes=N, normalisation=normalisation, self_loops=self_loops)
    graph = Graph.of(weights).normalised(normalisation, "add" if self_loops else "keep")
    torch.testing.assert_close(actual(random_u(N)), graph.laplacian(torch.float64)(random_u(N)))


def test_from_edges_takes_gradients_through_the_normalisation_of_isolated_nodes() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    weights = torch.tensor([1.0, 1.0], requires_grad=True)
    SparseLaplacian.from_edges(edges, weights, n_nodes=3, self_loops=False)(torch.eye(3)).square().sum().backward()
    assert torch.isfinite(weights.grad).all()


def test_from_edges_without_weights_and_with_repeated_edges() -> None:
    edges = torch.tensor([[0, 0, 1], [1, 1, 2]])
    actual = SparseLaplacian.from_edges(edges, n_nodes=3, normalisation="none", dtype=torch.float64)
    torch.testing.assert_close(
        actual(torch.eye(3, dtype=torch.float64)), laplacian_of([[0, 0, 0], [2, 0, 0], [0, 1, 0]])
    )


def test_from_edges_of_32_bit_indices_on_a_large_graph() -> None:
    n = 70_000  # n^2 is past 32 bits
    edges = torch.tensor([[1, 69_999, 40_000], [0, 1, 69_999]], dtype=torch.int32)
    operator = SparseLaplacian.from_edges(edges, n_nodes=n, normalisation="none", self_loops=False)
    u = torch.arange(n, dtype=torch.float32)
    expected = torch.zeros(n)
    expected[[0, 1, 69_999]] = torch.tensor([-1.0, 1.0 - 69_999, 69_999.0 - 40_000])
    torch.testing.assert_close(operator(u), expected)


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (torch.tensor([[0, 1], [1, 3]]), {}, "edge_index has entries from 0 to 3, but there are 3 nodes"),
        (torch.tensor([[0, -1], [1, 0]]), {}, "edge_index has entries from -1 to 1, but there are 3 nodes"),
        (torch.tensor([[0, 1], [1, 0]]), {"edge_weight": torch.ones(3)}, r"2 edges but .* the shape \(3,\)"),
        (torch.tensor([[0, 1], [1, 0]]), {"normalisation": "left"}, "normalisation must be .* not 'left'"),
        (torch.zeros(3, 2, dtype=torch.long), {}, r"integers in the shape \(2, edges\), not torch.int64 \(3, 2\)"),
        (torch.zeros(2, 2), {}, "integers in the shape"),
    ],
)
def test_bad_edges_are_named(edges: Tensor, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SparseLaplacian.from_edges(edges, n_nodes=3, **options)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_dense_weights_must_be_square(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="a dense Laplacian needs square weights"):
        DenseLaplacian(torch.ones(shape))


@pytest.mark.parametrize("kind", KINDS)
def test_to_returns_the_operator_itself_unless_something_changes(kind: str) -> None:
    operator = build(kind, WEIGHTS["directed"])
    assert operator.to() is operator
    assert operator.to("cpu", torch.float64) is operator
    single = operator.to(dtype=torch.float32)
    assert single.dtype == torch.float32
    assert single.symmetric == operator.symmetric
    torch.testing.assert_close(single(random_u(N).float()), operator(random_u(N)).float())


@pytest.mark.parametrize("kind", KINDS)
def test_copies_work_and_stand_alone(kind: str) -> None:
    operator, u = build(kind, WEIGHTS["directed"]), random_u(N)
    expected = operator(u)
    operator.transposed(u)  # fills the caches
    for duplicate in (copy.deepcopy(operator), copy.copy(operator)):
        torch.testing.assert_close(duplicate(u), expected, rtol=0, atol=0)
        torch.testing.assert_close(duplicate.transposed(u), operator.transposed(u), rtol=0, atol=0)
    apart = copy.deepcopy(operator)
    operator.weights.mul_(2)
    torch.testing.assert_close(apart(u), expected, rtol=0, atol=0)
    torch.testing.assert_close(operator(u), 2 * expected)  # no stale row sums


def test_weights_can_be_trained_in_place() -> None:
    reference = build("sparse", WEIGHTS["directed"])
    assert isinstance(reference, SparseLaplacian)
    weights = reference.weights.clone().requires_grad_()
    operator = SparseLaplacian(reference.crow_indices, reference.col_indices, weights, symmetric=False)
    optimiser = torch.optim.SGD([weights], lr=0.1)
    operator(random_u(N)).square().sum().backward()
    optimiser.step()
    after = SparseLaplacian(reference.crow_indices, reference.col_indices, weights.detach().clone(), symmetric=False)
    torch.testing.assert_close(operator(random_u(N)), after(random_u(N)))


def test_detach_stops_gradients_to_the_weights() -> None:
    edges, values = edge_list(WEIGHTS["directed"])
    operator = SparseLaplacian.from_edges(edges, values.requires_grad_(), n_nodes=N)
    assert operator(random_u(N)).requires_grad
    assert not operator.detach()(random_u(N)).requires_grad


@pytest.mark.parametrize("trained", [False, True])
def test_u_is_kept_for_the_backward_pass_only_when_the_weights_need_it(trained: bool) -> None:
    operator = build("sparse", WEIGHTS["directed"])
    operator.weights.requires_grad_(trained)
    leaf = random_u(N).requires_grad_()
    middle = leaf * 2.0
    result = operator(middle)
    kept = weakref.ref(middle)
    del middle
    gc.collect()
    assert (kept() is not None) == trained
    result.sum().backward()
    assert leaf.grad is not None


# ---- whatever holds a Laplacian, read as an operator

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
