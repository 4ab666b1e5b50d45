"""Learned weights: the certificate of the graph holds for whatever was learned."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.diffusion.problems import path, random_weights

from condiff.diffusion import certify
from condiff.diffusion.learned import Form, GraphMixture, LearnedDiffusion, LearnedWeights, SignedHops, SignedLaplacian
from condiff.errors import InvalidInputError
from condiff.graph import Graph, kernel_graph, laplacian

FORMS = get_args(Form)


def learned(seed: int, scale: float, form: Form, layers: int = 5) -> tuple[LearnedDiffusion, torch.Tensor, Graph]:
    """A layer with random parameters of some size, features and a random graph."""
    generator = np.random.default_rng(seed)
    weights = generator.random((9, 9)) * (generator.random((9, 9)) < 0.5)
    layer = LearnedDiffusion(4, layers, form=form, width=3).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.as_tensor(scale * generator.normal(size=tuple(parameter.shape))))
    return layer, torch.from_numpy(generator.normal(size=(9, 4))), Graph.of(weights + weights.T)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 30.0, 1e4]), st.sampled_from(FORMS))
def test_no_weights_that_are_learned_pass_the_limit(seed: int, scale: float, form: Form) -> None:
    layer, x, graph = learned(seed, scale, form)
    operator, strength = layer.weights(x, graph), layer.weights.limit(graph)
    assert strength * float(operator.diagonal.detach().max()) <= 1 + 1e-9
    u = torch.from_numpy(np.random.default_rng(seed + 1).random((9, 3)))
    u = u / u.sum(-1, keepdim=True)
    after = layer(u, x, graph).detach()
    if form == "signed":
        assert float(after.abs().max()) <= float(u.abs().max()) + 1e-9
    else:  # the maximum principle, and so probabilities stay probabilities
        assert bool((after >= u.min(0).values - 1e-9).all() and (after <= u.max(0).values + 1e-9).all())
        torch.testing.assert_close(after.sum(-1), torch.ones(9, dtype=torch.float64))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_the_weights(form: Form) -> None:
    layer, x, graph = learned(0, 0.5, form, layers=2)
    u = torch.randn(9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def loss(query: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"weights.query.weight": query}, (u, x, graph)).square().sum()

    assert torch.autograd.gradcheck(loss, layer.weights.query.weight.detach().clone().requires_grad_())


def test_each_form_against_its_formula() -> None:
    weights, x = path(5).weights, torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for form in FORMS:
        made = LearnedWeights(4, form=form, width=3).double()
        q, k = (x @ each.weight.detach().T for each in (made.query, made.key))
        scores = (q @ k.T / 3**0.5 + 2).numpy()
        expected = {
            "symmetric": weights / (1 + np.exp(-scores)),
            "stochastic": weights * np.exp(scores) / (weights * np.exp(scores)).sum(1, keepdims=True),
            "signed": weights * np.tanh(scores),
        }[form]
        operator = made(x, Graph.of(weights))
        matrix = operator(torch.eye(5, dtype=torch.float64)).detach().numpy()
        np.testing.assert_allclose(matrix, np.diag(abs(expected).sum(1)) - expected, atol=1e-12)


def test_negative_weights_push_apart_and_no_mode_grows() -> None:
    weights = path(6).weights * np.where(np.add.outer(np.arange(6), np.arange(6)) % 4 == 1, -1.0, 1.0)
    plain = laplacian(Graph.of(abs(weights)), torch.float64)
    operator = SignedLaplacian(plain._with(plain.pattern, torch.from_numpy(weights[weights != 0])))  # type: ignore[attr-defined]
    matrix = operator(torch.eye(6, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(matrix, np.diag(abs(weights).sum(1)) - weights, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12
    torch.testing.assert_close(operator(torch.ones(6, dtype=torch.float64)), torch.from_numpy(matrix.sum(1)))
    assert operator.transposed is operator and operator.to(dtype=torch.float64) is operator
    assert operator.to(dtype=torch.float32).dtype == torch.float32


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 1e4]), st.integers(1, 4))
def test_no_channel_grows_whatever_signs_its_hops_have(seed: int, scale: float, hops: int) -> None:
    generator, layer = np.random.default_rng(seed), SignedHops(3, hops).double()
    with torch.no_grad():
        layer.weights.copy_(torch.as_tensor(scale * generator.normal(size=(hops + 1, 3))))
    graph = Graph.of(random_weights(9, seed))
    u = torch.from_numpy(generator.normal(size=(9, 3)))
    walk = torch.from_numpy(graph.normalised(self_loops="add").weights.toarray())
    after = layer(u, lambda u: walk @ u).detach()
    assert bool((after.norm(dim=0) <= u.norm(dim=0) * (1 + 1e-9)).all())
    powers = torch.stack([torch.linalg.matrix_power(walk, hop) @ u for hop in range(hops + 1)])
    torch.testing.assert_close(after, (layer.shares.detach()[:, None] * powers).sum(0))
    operator, limit = laplacian(graph, torch.float64), certify(graph).positivity_limit
    after = layer(u, lambda u: u - limit * operator(u)).detach()
    assert bool((after.abs().amax(0) <= u.abs().amax(0) * (1 + 1e-9)).all())


def test_a_mixture_is_an_average_within_the_limits_of_its_graphs() -> None:
    graphs = [Graph.of(random_weights(8, seed)) for seed in (0, 1)]
    mixture = GraphMixture(graphs)
    with torch.no_grad():
        mixture.logits.copy_(torch.tensor([1.0, -1.0]))
    shares = mixture.shares.detach().double().numpy()
    expected = sum(share * graph.weights.toarray() for share, graph in zip(shares, graphs, strict=True))
    operator = mixture()
    np.testing.assert_allclose(operator(torch.eye(8)).detach(), np.diag(expected.sum(1)) - expected, atol=1e-5)
    assert mixture.limit * float(operator.diagonal.detach().max()) <= 1 + 1e-6
    assert mixture.limit == pytest.approx(min(certify(graph).positivity_limit for graph in graphs), rel=1e-5)
    operator(torch.randn(8, 2)).square().sum().backward()
    assert float(mixture.logits.grad.abs().sum()) > 0  # type: ignore[union-attr]


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="form must be"):
        LearnedWeights(3, form="loose")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="sparse graph"):
        LearnedWeights(3)(torch.randn(4, 3), torch.zeros(4, 4))
    with pytest.raises(InvalidInputError, match="same nodes"):
        GraphMixture([Graph.of(np.ones((2, 2))), Graph.of(np.ones((3, 3)))])
    with pytest.raises(InvalidInputError, match="layers"):
        LearnedDiffusion(3, -1)
    with pytest.raises(InvalidInputError, match="hops must be a whole number of at least 1"):
        SignedHops(3, 0)


def test_the_weights_of_a_kernel_graph_are_learned_under_its_certificate() -> None:
    points = np.random.default_rng(0).normal(size=(40, 2))
    graph, layer = kernel_graph(points, 6, 3), LearnedDiffusion(2, 4).double()
    x, u = torch.from_numpy(points), torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(3), 40))
    with torch.no_grad():
        layer.weights.query.weight.mul_(20)  # as far as learning may go
    after = layer(u, x, graph).detach()
    assert float(after.min()) >= 0 and layer.weights.limit(graph) == pytest.approx(certify(graph).positivity_limit)
    torch.testing.assert_close(after.sum(-1), torch.ones(40, dtype=torch.float64))
    assert float((after - u).abs().max()) > 0.01
