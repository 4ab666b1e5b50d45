"""The forms of a graph that the model takes, and when it keeps the operator it made of one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.networks import GRAPHS, N, edge_weights, edges_of, features, matrix_of, network, normalised_graph
from torch import Tensor

from condiff import model as module
from condiff.diffusion import certify, stability
from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.graph import Graph, SparseLaplacian


@pytest.mark.parametrize("form", GRAPHS)
def test_every_form_of_the_graph_gives_the_formula(form: str) -> None:
    graph, x, model = normalised_graph(), features(), network(strength=0.3)
    step = torch.eye(N, dtype=torch.float64) - 0.3 * matrix_of(graph)
    expected = torch.linalg.matrix_power(step, 6) @ torch.softmax(model.convection(x), -1)
    tolerance = 1e-6 if "single" in form else 1e-12
    torch.testing.assert_close(model(x, GRAPHS[form](graph)), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("integers", [torch.int64, torch.int32, torch.uint8])
def test_edge_list_is_self_looped_and_normalised_like_the_graph(integers: torch.dtype) -> None:
    edges, x, model = edges_of(), features(), network()
    weights = edge_weights(edges)
    torch.testing.assert_close(model(x, edges.to(integers), weights), model(x, normalised_graph()))
    plain = Graph.of(edges, n_nodes=N).normalised(self_loops="add")
    torch.testing.assert_close(model(x, edges.to(integers)), model(x, plain))


def test_edge_list_agrees_with_the_normalisation_of_pytorch_geometric() -> None:
    gcn_norm = pytest.importorskip("torch_geometric.nn.conv.gcn_conv").gcn_norm
    edges, x, model = edges_of(), features(), network(strength=0.3)
    weights = edge_weights(edges)
    index, values = gcn_norm(edges, weights, N, add_self_loops=True, dtype=torch.float64)
    dense = torch.zeros(N, N, dtype=torch.float64).index_put((index[1], index[0]), values, accumulate=True)
    step = torch.eye(N, dtype=torch.float64) - 0.3 * (torch.diag(dense.sum(1)) - dense)
    expected = torch.linalg.matrix_power(step, 6) @ model.base(x)
    torch.testing.assert_close(model(x, edges, weights), expected)


def test_directed_edge_lets_only_the_target_average() -> None:
    model, x = network(strength=0.3), features(2)
    base = model.base(x)
    found = model(x, torch.tensor([[0], [1]]))
    torch.testing.assert_close(found[0], base[0])
    assert (found[1] - base[1]).abs().max() > 1e-3


def test_separate_components_take_their_own_means() -> None:
    n = 6
    edges = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 5], [1, 0, 2, 1, 4, 3, 5, 4]])
    model, x = network(layers=3000), features(n)
    base = model.base(x)
    expected = torch.cat([part.mean(0, keepdim=True).expand(3, -1) for part in base.split(3)])
    torch.testing.assert_close(model(x, Graph.of(edges, n_nodes=n).laplacian(torch.float64)), expected)


@pytest.mark.parametrize("solver", ["euler", "exact", "implicit", "chebyshev"])
@pytest.mark.parametrize("strength", ["auto", 0.7])
@pytest.mark.parametrize("empty", [torch.zeros(2, 0, dtype=torch.long), torch.zeros(N, N, dtype=torch.float64)])
def test_graph_without_edges_changes_nothing(solver: str, strength: Any, empty: Tensor) -> None:
    model, x = network(solver=solver, strength=strength), features()
    torch.testing.assert_close(model(x, empty), model.base(x))


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(N)), st.integers(0, 2**31))
def test_permuting_nodes_permutes_outputs(order: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, N, (2, 30), generator=generator)
    weights = torch.rand(30, generator=generator, dtype=torch.float64)
    model, x, new = network(), features(), torch.tensor(order)
    place = torch.empty(N, dtype=torch.long)
    place[new] = torch.arange(N)  # node new[i] moves to place i
    torch.testing.assert_close(model(x[new], place[edges], weights), model(x, edges, weights)[new])


class Counting:
    """Counts how often an operator is built."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, build = 0, module._build

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return build(*arguments)

        monkeypatch.setattr(module, "_build", counted)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(monkeypatch)


@pytest.mark.parametrize("form", ["edge list", "graph", "matrix", "csr matrix"])
def test_second_call_reuses_the_operator(builds: Counting, form: str) -> None:
    graph = edges_of() if form == "edge list" else GRAPHS[form](normalised_graph())
    model, x = network(), features()
    first, second = model(x, graph), model(x, graph)
    assert torch.equal(first, second) and builds.count == 1
    assert "_built" not in "".join(model.state_dict())


def test_given_operator_is_used_as_it_is() -> None:
    operator, model = normalised_graph().laplacian(torch.float64), network()
    assert model._operator(operator, None, features()) is operator
    assert model._built is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trained_weights_of_a_given_operator_are_seen_in_every_pass(dtype: torch.dtype) -> None:
    operator, x, model = normalised_graph().laplacian(dtype), features(), network(strength=0.3)
    operator.weights.requires_grad_()
    first = model(x, operator)
    first.square().sum().backward()
    with torch.no_grad():
        operator.weights.mul_(0.5)
    second = model(x, operator)
    second.square().sum().backward()
    half = Graph.of(normalised_graph().weights * 0.5)
    torch.testing.assert_close(second, network(strength=0.3)(x, half), rtol=0, atol=1e-6)
    assert (second - first).abs().max() > 1e-3 and model._built is None


def test_change_in_place_is_noticed(builds: Counting) -> None:
    edges, x, model = edges_of(), features(), network()
    weights = edge_weights(edges)
    before = model(x, edges, weights)
    weights[:3] = 9.0
    changed = model(x, edges, weights)
    torch.testing.assert_close(changed, network()(x, edges.clone(), weights.clone()), rtol=0, atol=0)
    assert (changed - before).abs().max() > 1e-4
    edges[:, -1] = 0  # the last edge becomes a self-loop
    rewired = model(x, edges, weights)
    torch.testing.assert_close(rewired, network()(x, edges.clone(), weights.clone()), rtol=0, atol=0)
    assert (rewired - changed).abs().max() > 1e-5


@pytest.mark.parametrize("change", ["another edge list", "other weights", "no weights", "precision", "more nodes"])
def test_any_other_input_is_built_anew(builds: Counting, change: str) -> None:
    edges, x, model = edges_of(), features(), network()
    weights: Tensor | None = edge_weights(edges)
    model(x, edges, weights)
    if change == "another edge list":
        edges = edges.flip(0)
    elif change == "other weights":
        weights = 2 * edge_weights(edges)
    elif change == "no weights":
        weights = None
    elif change == "precision":
        model, x = model.float(), x.float()
    else:
        x = features(N + 1)
    found = model(x, edges, weights)
    assert builds.count == 2
    torch.testing.assert_close(found, network(x.dtype)(x, edges, weights), rtol=0, atol=0)


def test_weights_with_gradient_are_never_kept(builds: Counting) -> None:
    edges, x, model = edges_of(), features(), network()
    weights = edge_weights(edges).requires_grad_()
    for _ in range(2):  # a kept operator would have lost its graph after the first backward pass
        model(x, edges, weights).square().sum().backward()
    assert builds.count == 2 and model._built is None


@pytest.mark.parametrize("solver", ["euler", "exact", "implicit", "chebyshev"])
@pytest.mark.parametrize("form", ["edge list", *GRAPHS])
def test_operator_made_in_inference_mode_serves_in_training(solver: str, form: str) -> None:
    graph = edges_of() if form == "edge list" else GRAPHS[form](normalised_graph())
    x, model = features(), network(solver=solver)
    with torch.inference_mode():
        inside = model(x, graph)
    outside = model(x, graph)
    outside[:, 0].sum().backward()
    torch.testing.assert_close(outside, inside.clone(), rtol=0, atol=0)


def test_tensors_made_in_inference_mode_are_taken(builds: Counting) -> None:
    x, model, expected = features(), network(), network()(features(), edges_of(), edge_weights(edges_of()))
    with torch.inference_mode():
        edges = edges_of()
        weights = edge_weights(edges)
        torch.testing.assert_close(model(x, edges, weights), expected)
    torch.testing.assert_close(model(x, edges, weights), expected)
    assert model._built is None  # their changes in place are not counted, so nothing can be kept


def test_no_gradient_is_recorded_where_it_is_switched_off() -> None:
    edges, x, model = edges_of(), features(), network()
    weights = edge_weights(edges).requires_grad_()
    with torch.no_grad():
        assert not model._operator(edges, weights, x).weights.requires_grad
    assert model._operator(edges, weights, x).weights.requires_grad


def test_copy_starts_without_the_kept_operator(builds: Counting) -> None:
    edges, x, model = edges_of(), features(), network()
    model(x, edges)
    other = copy.deepcopy(model)
    assert other._built is None and model._built is not None
    other(x, edges)
    other(x, edges)
    assert builds.count == 2


def test_kept_operator_is_certified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, measure = [], stability._measure
    monkeypatch.setattr(stability, "_measure", lambda operator: measured.append(operator) or measure(operator))
    model, x = network(strength=5.0, layers=1), features()
    edges = edges_of()
    with pytest.warns(StepSizeWarning):
        model(x, edges)
        model(x, edges)
    assert len(measured) == 1


def test_auto_strength_is_the_positivity_limit_of_the_edge_list() -> None:
    model, x = network(layers=1), features()
    limit = certify(normalised_graph()).positivity_limit
    edges = edges_of()
    torch.testing.assert_close(
        model(x, edges, edge_weights(edges)), network(layers=1, strength=limit)(x, normalised_graph())
    )


@pytest.mark.parametrize(
    ("graph", "weight", "message"),
    [
        (torch.eye(N, dtype=torch.float64), None, "rows of a Laplacian sum to zero"),
        (torch.ones(N, N, dtype=torch.float64), None, "positive off-diagonal entries"),
        ("ring", None, "cannot read a Laplacian from str"),
        (normalised_graph(), torch.ones(3), "edge_weight goes with an integer edge_index"),
        (normalised_graph().laplacian(), torch.ones(3), "edge_weight goes with an integer edge_index"),
        (edges_of(), torch.ones(3), "30 edges but the edge weights have the shape"),
        (edges_of(N + 1), None, f"edge_index .* {N}, but there are {N} nodes"),
        (normalised_graph(N + 1), None, f"u has {N} rows .* but the graph has {N + 1} nodes"),
    ],
)
def test_unusable_graph_is_refused(graph: Any, weight: Tensor | None, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        network()(features(), graph, weight)


def test_operator_of_an_edge_list_is_sparse() -> None:
    assert isinstance(network()._operator(edges_of(), None, features()), SparseLaplacian)
