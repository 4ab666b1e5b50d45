from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sequence import directed_laplacians

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
