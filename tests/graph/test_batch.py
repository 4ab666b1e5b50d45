import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from condiff.errors import InvalidInputError
from condiff.graph import Graph, kernel_graph
from condiff.graph.batch import directed_laplacians, kernel_laplacians


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(9, 40), st.integers(1, 30), st.integers(2, 8))
def test_each_cloud_has_its_kernel_graph(seed, n, d, rank):
    points = np.random.default_rng(seed).normal(size=(3, n, d))
    found = kernel_laplacians(torch.from_numpy(points), 8, rank)
    for cloud, weights in zip(points, found.weights, strict=True):
        np.testing.assert_allclose(weights, kernel_graph(cloud, 8, rank).weights.toarray(), atol=1e-9)
    assert found.symmetric


def test_far_from_the_origin_too():
    points = np.random.default_rng(0).normal(size=(2, 20, 3)) + 1e4
    found = kernel_laplacians(torch.from_numpy(points))
    np.testing.assert_allclose(found.weights[0], kernel_graph(points[0]).weights.toarray(), atol=1e-6)


def test_duplicates():
    rng = np.random.default_rng(1)
    twice = np.repeat(rng.normal(size=(6, 4)), 2, axis=0)
    many = np.concatenate([np.ones((8, 4)), rng.normal(size=(4, 4))])
    found = kernel_laplacians(torch.from_numpy(np.stack([twice, many])), 6, 2)
    np.testing.assert_allclose(found.weights[0], kernel_graph(twice, 6, 2).weights.toarray(), atol=1e-9)
    assert torch.isfinite(found.weights).all()
    # A cloud within a cloud: equal points are joined with one weight, whichever of them a search would have found.
    assert torch.allclose(found.weights[1, :8, :8], found.weights[1, 0, 0])


def test_the_precision_is_that_of_the_points():
    assert kernel_laplacians(torch.rand(1, 9, 2)).dtype == torch.float32


@pytest.mark.parametrize(
    ("shape", "ranks"), [((9, 2), (8, 4)), ((1, 5, 2), (8, 4)), ((1, 9, 2), (8, 1)), ((1, 9, 2), (4, 5))]
)
def test_bad_input(shape, ranks):
    with pytest.raises(InvalidInputError):
        kernel_laplacians(torch.rand(shape), *ranks)


# ---- graphs that change with time

weights = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 3), st.just(4), st.just(4)),
    elements=st.sampled_from([0.0, 0.0, 0.5, 3.0, 1e6]),
)


def dense(matrix: np.ndarray) -> np.ndarray:
    """The definition, written out."""
    matrix = matrix - np.diag(np.diag(matrix))
    degree = matrix.sum(1)
    scale = np.array([value**-0.5 if value > 0 else 0.0 for value in degree])
    normalised = scale[:, None] * matrix * scale[None, :]
    return np.diag(normalised.sum(1)) - normalised


@settings(deadline=None, max_examples=25)
@given(weights)
def test_each_is_the_laplacian_by_definition(batch: np.ndarray) -> None:
    operator = directed_laplacians([sp.csr_array(each) for each in batch], torch.float64)
    found = operator(torch.eye(4, dtype=torch.float64).expand(len(batch), 4, 4))
    np.testing.assert_allclose(found.numpy(), [dense(each) for each in batch], rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(weights)
def test_a_constant_does_not_diffuse(batch: np.ndarray) -> None:
    operator = directed_laplacians(list(batch), torch.float64)
    change = operator(torch.full((len(batch), 4, 2), 3.0, dtype=torch.float64))
    torch.testing.assert_close(change, torch.zeros_like(change), rtol=0, atol=1e-9)


def test_it_agrees_with_the_sparse_laplacian_of_every_graph() -> None:
    batch = np.random.default_rng(0).random((3, 5, 5))
    u = torch.randn(3, 5, 2, dtype=torch.float64)
    expected = [
        Graph.of(each).normalised(self_loops="remove").laplacian(torch.float64)(own)
        for each, own in zip(batch, u, strict=True)
    ]
    torch.testing.assert_close(directed_laplacians(list(batch), torch.float64)(u), torch.stack(expected))


def test_a_node_without_a_row_keeps_its_value_and_pulls_on_nobody() -> None:
    # Node 2 is reached from 0, but has no edge of its own.
    operator = directed_laplacians([np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 0.0], [0.0, 0.0, 7.0]])], torch.float64)
    change = operator(torch.tensor([[0.0], [0.0], [1.0]], dtype=torch.float64))
    assert change.abs().max() == 0
    assert not operator.symmetric


def test_symmetric_graphs_stay_symmetric_and_the_type_is_the_one_asked_for() -> None:
    operator = directed_laplacians([np.ones((4, 4)), np.eye(4) + np.ones((4, 4))])
    assert operator.symmetric
    assert operator.weights.shape == (2, 4, 4)
    assert operator.dtype == torch.float32


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "no graph"),
        ([np.ones((3, 3)), np.ones((4, 4))], "the same nodes, not 3 and 4"),
        ([np.ones((3, 3)), -np.ones((3, 3))], "negative"),
        ([np.ones((3, 4))], "square"),
    ],
)
def test_graphs_that_do_not_fit_are_refused(graphs: list[np.ndarray], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        directed_laplacians(graphs)
