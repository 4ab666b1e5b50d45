from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from condiff.diffusion import certify, diffuse_held
from condiff.diffusion.boundary import one_hot
from condiff.diffusion.euler import Euler
from condiff.errors import InvalidInputError
from condiff.graph import Graph


def ring(n: int = 12) -> Graph:
    nodes = torch.arange(n)
    edges = torch.stack([nodes, (nodes + 1) % n])
    return Graph.of(torch.cat([edges, edges.flip(0)], dim=1)).normalised(self_loops="add")


def random_u(n: int, classes: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, classes, generator=generator, dtype=torch.float64).softmax(dim=-1)


NONE = torch.zeros(0, dtype=torch.long)


def test_nothing_held_is_the_papers_layers() -> None:
    graph, u = ring(), random_u(12)
    found = diffuse_held(u, graph, NONE, torch.zeros(0, 3), layers=7, strength=0.4)
    torch.testing.assert_close(found, Euler()(graph.laplacian(torch.float64), u, 0.4, 7), rtol=0, atol=1e-15)


def test_against_dense_matrices() -> None:
    graph, u = ring(), random_u(12)
    held, values = torch.tensor([2, 7]), one_hot([0, 2], 3)
    dense = torch.eye(12, dtype=torch.float64) - 0.3 * torch.as_tensor(
        torch.diag(torch.as_tensor(graph.degree)) - torch.as_tensor(graph.weights.toarray())
    )
    expected = u.clone()
    expected[held] = values
    for _ in range(9):
        expected = dense @ expected
        expected[held] = values
    found = diffuse_held(u, graph, held, values, layers=9, strength=0.3)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_after_long_it_is_the_harmonic_extension() -> None:
    # On a ring held at 0 and 1 at opposite points, the harmonic function rises linearly between them.
    graph, held = ring(12), torch.tensor([0, 6])
    values = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    found = diffuse_held(torch.rand(12, 1, dtype=torch.float64), graph, held, values, layers=3000, strength=0.5)
    expected = torch.tensor([0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1], dtype=torch.float64)[:, None] / 6
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@given(seed=st.integers(0, 1000), share=st.floats(0.05, 1.0), layers=st.integers(0, 30))
def test_within_the_positivity_limit_probabilities_stay_ones(seed: int, share: float, layers: int) -> None:
    graph, u = ring(), random_u(12, seed=seed)
    strength = share * certify(graph).positivity_limit
    found = diffuse_held(u, graph, torch.tensor([seed % 12]), one_hot([seed % 3], 3), layers=layers, strength=strength)
    assert found.min() >= -1e-12
    torch.testing.assert_close(found.sum(dim=1), torch.ones(12, dtype=torch.float64), rtol=0, atol=1e-12)
    assert found[seed % 12, seed % 3] == 1


def test_gradients() -> None:
    graph, u = ring(6), random_u(6).requires_grad_()
    values = one_hot([1], 3).requires_grad_()
    held = torch.tensor([4])
    assert gradcheck(lambda a, b: diffuse_held(a, graph, held, b, layers=3, strength=0.3), (u, values))


@pytest.mark.parametrize(
    ("held", "values", "layers", "message"),
    [
        ([1], torch.zeros(2, 3), 1, "one row of 3 for each of the 1 points"),
        ([1, 1], torch.zeros(2, 3), 1, "different indices"),
        ([12], torch.zeros(1, 3), 1, "0 .. 11"),
        ([1], torch.zeros(1, 3), -1, "layers must be"),
    ],
)
def test_bad_input(held: list[int], values: torch.Tensor, layers: int, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        diffuse_held(random_u(12), ring(), torch.tensor(held), values, layers=layers, strength=0.3)
