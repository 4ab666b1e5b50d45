from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import Pattern, SparseMatrix, dropout


def random_matrix(rows: int, columns: int, seed: int = 0, density: float = 0.4) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(rows, columns)) * (generator.random((rows, columns)) < density)


def random_dense(rows: int, columns: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, columns))).to(dtype)


shapes = st.tuples(st.integers(1, 30), st.integers(1, 9), st.integers(1, 20))  # wide, square and tall


@settings(deadline=None, max_examples=50)
@given(shapes, st.integers(0, 1000), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_sparse_equals_dense_forward_and_backward(shape: tuple[int, int, int], seed: int, density: float) -> None:
    rows, columns, width = shape
    matrix = random_matrix(rows, columns, seed, density)  # empty rows, empty columns, or nothing at all
    sparse = SparseMatrix.of(matrix, torch.float64)
    values = sparse.values.clone().requires_grad_()
    dense, pull = random_dense(columns, width).requires_grad_(), random_dense(rows, width, seed=2)
    product = sparse.with_values(values) @ dense
    expected = torch.from_numpy(matrix) @ dense.detach()
    torch.testing.assert_close(product.detach(), expected)
    product.backward(pull)
    torch.testing.assert_close(dense.grad, torch.from_numpy(matrix).T @ pull)
    everywhere = pull @ dense.detach().T
    torch.testing.assert_close(values.grad, everywhere[sparse.pattern.rows, sparse.pattern.columns])


@pytest.mark.parametrize("rows", [6, 24])
@pytest.mark.parametrize("width", [1, 3, 8, 11])
def test_gradients_in_values_and_dense(width: int, rows: int) -> None:
    sparse = SparseMatrix.of(random_matrix(rows, 4), torch.float64)

    def product(values: Tensor, dense: Tensor) -> Tensor:
        return sparse.with_values(values) @ dense

    assert torch.autograd.gradcheck(product, (sparse.values.requires_grad_(), random_dense(4, width).requires_grad_()))


@pytest.mark.parametrize("rows", [6, 24])
def test_gradients_that_are_expanded_or_transposed(rows: int) -> None:
    sparse = SparseMatrix.of(random_matrix(rows, 4), torch.float64)
    values, dense = sparse.values.clone().requires_grad_(), random_dense(3, 4).T.requires_grad_()
    (sparse.with_values(values) @ dense).sum().backward()
    ones = torch.ones(rows, 3, dtype=torch.float64)
    torch.testing.assert_close(dense.grad, sparse.to_dense().T @ ones)
    torch.testing.assert_close(values.grad, (ones @ dense.T).detach()[sparse.pattern.rows, sparse.pattern.columns])


def test_single_precision_is_the_default() -> None:
    matrix = random_matrix(5, 7)
    sparse, dense = SparseMatrix.of(matrix), random_dense(7, 3, dtype=torch.float32)
    assert (sparse @ dense).dtype == torch.float32
    torch.testing.assert_close(sparse @ dense, torch.from_numpy(matrix).float() @ dense)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array, sp.coo_array])
def test_every_form_is_read_and_duplicates_are_summed(form: object) -> None:
    matrix = random_matrix(5, 7)
    torch.testing.assert_close(SparseMatrix.of(form(matrix), torch.float64).to_dense(), torch.from_numpy(matrix))  # type: ignore[operator]
    twice = sp.coo_array((np.array([1.0, 2.0]), (np.array([1, 1]), np.array([0, 0]))), shape=(2, 2))
    torch.testing.assert_close(SparseMatrix.of(twice).to_dense(), torch.tensor([[0.0, 0.0], [3.0, 0.0]]))


def test_repeated_entries_of_a_pattern_add_up() -> None:
    pattern = Pattern(torch.tensor([0, 2, 3], dtype=torch.int32), torch.tensor([1, 1, 0], dtype=torch.int32), 2)
    values = torch.tensor([1.0, 2.0, 5.0], requires_grad=True)
    matrix = SparseMatrix(pattern, values)
    torch.testing.assert_close(matrix.to_dense(), torch.tensor([[0.0, 3.0], [5.0, 0.0]]))
    (matrix @ torch.tensor([[1.0], [10.0]])).sum().backward()
    torch.testing.assert_close(values.grad, torch.tensor([10.0, 10.0, 1.0]))


def test_the_pattern_and_its_transpose_are_shared() -> None:
    sparse = SparseMatrix.of(random_matrix(6, 4), torch.float64)
    for other in (sparse.with_values(2 * sparse.values), sparse.dropped(0.5)):
        assert other.pattern is sparse.pattern
        assert other.pattern.mirror is sparse.pattern.mirror
    torch.testing.assert_close(sparse.with_values(2 * sparse.values).to_dense(), 2 * sparse.to_dense())


def test_the_mirror_is_the_transpose() -> None:
    sparse = SparseMatrix.of(random_matrix(6, 4), torch.float64)
    crow, col, order = sparse.pattern.mirror
    transpose = SparseMatrix(Pattern(crow, col, 6), sparse.values[order])
    torch.testing.assert_close(transpose.to_dense(), sparse.to_dense().T)
    again = SparseMatrix.of(sparse.to_dense().T.numpy(), torch.float64)
    assert torch.equal(again.pattern.col_indices, col)  # as ordered as any CSR matrix


def test_dropout_keeps_the_mean_and_acts_on_entries_alone() -> None:
    torch.manual_seed(0)
    sparse = SparseMatrix.of(random_matrix(6, 4), torch.float64)
    total = torch.zeros(6, 4, dtype=torch.float64)
    for _ in range(4000):
        total += sparse.dropped(0.3).to_dense()
    torch.testing.assert_close(total / 4000, sparse.to_dense(), rtol=0.1, atol=0.0)
    assert sparse.dropped(0.3, training=False) is sparse
    assert sparse.dropped(0.0) is sparse


@pytest.mark.parametrize("trained", [False, True])
def test_the_dense_matrix_is_kept_only_when_the_values_need_it(trained: bool) -> None:
    sparse = SparseMatrix.of(random_matrix(6, 4), torch.float64)
    sparse.values.requires_grad_(trained)
    leaf = random_dense(4, 2).requires_grad_()
    middle = leaf * 2.0
    result = sparse @ middle
    kept = weakref.ref(middle)
    del middle
    gc.collect()
    assert (kept() is not None) == trained
    result.sum().backward()
    assert leaf.grad is not None


def test_copies_stand_alone() -> None:
    sparse, dense = SparseMatrix.of(random_matrix(6, 4), torch.float64), random_dense(4, 2)
    expected, apart = sparse @ dense, copy.deepcopy(sparse)
    sparse.values.mul_(2.0)
    torch.testing.assert_close(apart @ dense, expected, rtol=0, atol=0)
    torch.testing.assert_close(sparse @ dense, 2 * expected)


def test_a_pattern_moves_only_if_it_must() -> None:
    pattern = SparseMatrix.of(random_matrix(6, 4)).pattern
    assert pattern.to(None) is pattern
    assert pattern.to("cpu") is pattern
    elsewhere = pattern.to("meta")
    assert elsewhere.col_indices.device.type == "meta"
    assert elsewhere.shape == pattern.shape


def test_values_must_fit_the_pattern() -> None:
    sparse = SparseMatrix.of(np.eye(3))
    with pytest.raises(InvalidInputError, match=r"there are 3 entries but the values have the shape \(2,\)"):
        sparse.with_values(torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.8])
def test_the_share_and_the_mean_are_as_asked(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = torch.ones(100_003, dtype=dtype)  # not a multiple of four
    kept = dropout(values, probability)
    assert kept.dtype == dtype
    assert abs(float((kept == 0).double().mean()) - probability) < 0.01
    assert abs(float(kept.double().mean()) - 1.0) < 0.02
    # What is left is one number, the inverse of the share kept up to the rounding of the probability.
    (scale,) = kept[kept != 0].unique().tolist()
    assert scale == pytest.approx(1 / (1 - probability), rel=1e-4)


def test_neighbours_in_one_random_number_are_independent() -> None:
    torch.manual_seed(0)
    kept = (dropout(torch.ones(400_000), 0.5) != 0).double().view(-1, 4)
    assert torch.corrcoef(kept.T).sub(torch.eye(4)).abs().max() < 0.02
    assert (kept.mean(0) - 0.5).abs().max() < 0.01


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=3), st.floats(0.0, 1.0, exclude_max=True))
def test_any_shape_and_any_probability(shape: list[int], probability: float) -> None:
    values = torch.rand(shape, dtype=torch.float64) + 1.0
    kept = dropout(values, probability)
    assert kept.shape == values.shape
    assert torch.isfinite(kept).all()
    ratio = (kept / values)[kept != 0]
    assert (ratio >= 1.0).all()
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))


def test_the_same_seed_gives_the_same_bytes_and_the_next_call_others() -> None:
    values = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(values, 0.5), dropout(values, 0.5)
    torch.manual_seed(3)
    assert torch.equal(dropout(values, 0.5), first)
    assert not torch.equal(second, first)


def test_without_training_or_without_dropout_nothing_is_copied() -> None:
    values = torch.ones(5)
    assert dropout(values, 0.5, training=False) is values
    assert dropout(values, 0.0) is values


def test_gradients_and_strided_inputs_take_the_same_factors() -> None:
    values = torch.rand(6, 4, dtype=torch.float64).T.requires_grad_()
    kept = dropout(values, 0.4)
    kept.sum().backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad * values.detach(), kept.detach())


@pytest.mark.parametrize("probability", [-0.1, 1.0, 1.5, float("nan")])
def test_impossible_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(InvalidInputError, match="the probability of dropout must be at least 0 and below 1, not"):
        dropout(torch.ones(3), probability)
    with pytest.raises(InvalidInputError, match="below 1"):
        dropout(torch.ones(3), probability, training=False)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_blocks_of_rows_cover_every_entry(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("condiff.graph.sparse._BLOCK", size)
    counts = torch.tensor([0, 3, 0, 7, 1, 0])
    crow = torch.cat([torch.zeros(1, dtype=torch.int32), counts.cumsum(0).to(torch.int32)])
    pattern = Pattern(crow, torch.zeros(11, dtype=torch.int32), 4)
    found = list(pattern.row_blocks())
    assert torch.equal(torch.cat([rows for rows, _ in found]), pattern.rows)
    assert [entries.start for _, entries in found[1:]] == [entries.stop for _, entries in found[:-1]]
    assert (found[0][1].start, found[-1][1].stop) == (0, 11)
    assert (len(found) == 1) == (size == 1000)


def test_degrees_and_diagonals_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.abs(random_matrix(30, 30))
    monkeypatch.setattr("condiff.graph.sparse._BLOCK", 7)
    operator = Graph.of(weights).laplacian(torch.float64)
    np.testing.assert_allclose(operator.degree.numpy(), weights.sum(axis=1))
    np.testing.assert_allclose(operator.diagonal.numpy(), weights.sum(axis=1) - weights.diagonal())
