import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.errors import InvalidInputError
from condiff.graph import kernel_graph
from condiff.graph.batch import kernel_laplacians


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
