from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from condiff import model as module
from condiff.diffusion import Diffusion, certify, stability
from condiff.errors import InvalidInputError, StepSizeError, StepSizeWarning
from condiff.graph import DenseLaplacian, Graph, SparseLaplacian
from condiff.model import COIN, apply_head

N, FEATURES, CLASSES = 12, 5, 3


def edges_of(n: int = N) -> Tensor:
    """A ring with a few chords, both directions of every edge."""
    pairs = [(i, (i + 1) % n) for i in range(n)] + [(0, n // 2), (1, n // 2), (2, n - 3)]
    return torch.tensor(pairs + [(j, i) for i, j in pairs]).T.contiguous()


def edge_weights(edges: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Positive, and the same in both directions."""
    half = torch.rand(edges.shape[1] // 2, generator=torch.Generator().manual_seed(7), dtype=dtype) + 0.5
    return torch.cat([half, half])


def normalised_graph(n: int = N) -> Graph:
    edges = edges_of(n)
    return Graph.of(edges, edge_weights(edges), n_nodes=n).normalised(self_loops="add")


def matrix_of(graph: Graph, dtype: torch.dtype = torch.float64) -> Tensor:
    weights = torch.as_tensor(graph.weights.toarray(), dtype=dtype)
    return torch.diag(weights.sum(1)) - weights


def features(n: int = N, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, FEATURES, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def network(dtype: torch.dtype = torch.float64, **changes: Any) -> COIN:
    torch.manual_seed(0)
    arguments = {"layers": 6, "strength": "auto"} | changes
    return COIN.build(FEATURES, CLASSES, **arguments).to(dtype)


GRAPHS: dict[str, Callable[[Graph], Any]] = {
    "sparse operator": lambda g: g.laplacian(torch.float64),
    "single precision operator": lambda g: Graph.of(g.weights.astype("float32")).laplacian(torch.float32),
    "dense operator": lambda g: DenseLaplacian(torch.as_tensor(g.weights.toarray())),
    "graph": lambda g: g,
    "matrix": matrix_of,
    "coo matrix": lambda g: matrix_of(g).to_sparse_coo(),
    "csr matrix": lambda g: matrix_of(g).to_sparse_csr(),
}


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


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_features_give_the_same(layout: torch.layout) -> None:
    x = features().clamp_min(0)
    model = network()
    torch.testing.assert_close(model(x.to_sparse(layout=layout), edges_of()), model(x, edges_of()))


def test_gradient_reaches_edge_weights_and_parameters() -> None:
    edges = edges_of(5)[:, :4]
    x, weights = features(5), torch.tensor([0.7, 1.3, 0.4, 2.0], dtype=torch.float64, requires_grad=True)
    model = network(strength=0.3, layers=3)
    assert torch.autograd.gradcheck(lambda w: model(x, edges, w), weights)
    model(x, edges, weights)[:, 0].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("form", ["sparse operator", "matrix"])
def test_gradient_reaches_a_learnable_strength(form: str) -> None:
    graph = GRAPHS[form](normalised_graph())
    x, model = features(), network(strength=0.3, layers=3, learnable_strength=True)
    log_strength = model.diffusion.log_strength
    assert log_strength is not None and "diffusion.log_strength" in model.state_dict()

    def at(value: Tensor) -> Tensor:
        return torch.func.functional_call(model, {"diffusion.log_strength": value}, (x, graph))

    assert torch.autograd.gradcheck(at, log_strength.detach().clone().requires_grad_())
    fixed = network(strength=0.3, layers=3)
    torch.testing.assert_close(model(x, graph), fixed(x, graph), rtol=0, atol=1e-7)
    model(x, graph)[:, 0].square().sum().backward()
    assert log_strength.grad is not None and log_strength.grad.abs() > 0


def test_gradient_reaches_the_features() -> None:
    x, model = features(6)[:, :FEATURES].requires_grad_(), network(layers=2, activation="tanh")
    assert torch.autograd.gradcheck(lambda value: model(value, edges_of(6)), x)


@pytest.mark.parametrize("solver", ["euler", "exact", "implicit", "chebyshev"])
def test_softmax_rows_stay_probabilities_within_the_positivity_limit(solver: str) -> None:
    graph, x = normalised_graph(), 30 * features()  # nearly one-hot: the hardest to keep in range
    u = network(solver=solver, layers=9)(x, graph)
    torch.testing.assert_close(u.sum(1), torch.ones(N, dtype=torch.float64))
    slack = 0 if solver in ("euler", "exact") else 1e-9
    assert u.min() >= -slack and u.max() <= 1 + slack


def test_past_the_positivity_limit_rows_still_sum_to_one_but_leave_the_range() -> None:
    triangle = Graph.of(torch.ones(3, 3) - torch.eye(3))  # limits 1/2 and 2/3
    model = network(strength=0.6, layers=1)
    with torch.no_grad():
        model.convection.blocks[0].weight.zero_()
        model.convection.readout.weight[:, :3] = 200 * torch.eye(3)
    x = torch.eye(3, FEATURES, dtype=torch.float64)
    with pytest.warns(StepSizeWarning, match=r"past the positivity limit 0\.5"):
        u = model(x, triangle)
    torch.testing.assert_close(u, 0.6 - 0.8 * torch.eye(3, dtype=torch.float64))
    model.diffusion.strict = True
    with pytest.raises(StepSizeError, match=r"past the positivity limit 0\.5"):
        model(x, triangle)


def test_heads() -> None:
    z = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(apply_head(z, "softmax"), z.exp() / z.exp().sum(1, keepdim=True))
    torch.testing.assert_close(apply_head(z, "sigmoid"), 1 / (1 + (-z).exp()))
    assert apply_head(z, "identity") is z


@pytest.mark.parametrize("head", ["softmax", "sigmoid", "identity"])
def test_head_comes_before_the_diffusion(head: Any) -> None:
    graph, x, model = normalised_graph(), features(), network(head=head)
    expected = model.diffusion(apply_head(model.convection(x), head), graph)
    torch.testing.assert_close(model(x, graph), expected, rtol=0, atol=0)
    torch.testing.assert_close(model.base(x), apply_head(model.convection(x), head), rtol=0, atol=0)
    assert model.head == head and f"head={head}" in repr(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("form", GRAPHS)
def test_output_has_the_precision_of_the_network(dtype: torch.dtype, form: str) -> None:
    graph = GRAPHS[form](normalised_graph())
    u = network(dtype)(features(dtype=dtype), graph)
    assert u.dtype == dtype
    torch.testing.assert_close(u.double(), network()(features(), graph), rtol=0, atol=1e-5)


def test_bfloat16_on_a_dense_operator() -> None:
    operator = DenseLaplacian(torch.as_tensor(normalised_graph().weights.toarray()))
    u = network(torch.bfloat16)(features(dtype=torch.bfloat16), operator)
    assert u.dtype == torch.bfloat16
    torch.testing.assert_close(u.double(), network()(features(), operator), rtol=0, atol=0.03)


def test_meta_device_gives_shapes_and_to_empty_brings_it_back() -> None:
    model = network(torch.float32)
    state, x = model.state_dict(), features(dtype=torch.float32)
    expected = model(x, edges_of())
    elsewhere = copy.deepcopy(model).to("meta")
    assert elsewhere.base(torch.empty(N, FEATURES, device="meta")).shape == (N, CLASSES)
    back = elsewhere.to_empty(device="cpu")
    back.load_state_dict(state)
    torch.testing.assert_close(back(x, edges_of()), expected, rtol=0, atol=0)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("form", [*GRAPHS, "edge list"])
def test_copies_are_equal_and_independent(copied: Callable[[COIN], COIN], form: str) -> None:
    graph = edges_of() if form == "edge list" else GRAPHS[form](normalised_graph())
    model, x = network(), features()
    before = model(x, graph).detach()  # with a graph in memory
    other = copied(model)
    torch.testing.assert_close(other(x, graph), before, rtol=0, atol=0)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    torch.testing.assert_close(model(x, graph), before, rtol=0, atol=0)
    assert (other(x, graph) - before).abs().max() > 1e-3


@pytest.mark.parametrize("learnable", [False, True])
def test_weights_go_through_a_safetensors_file(tmp_path: Path, learnable: bool) -> None:
    changes: dict[str, Any] = {"strength": 0.3, "learnable_strength": learnable, "hidden_features": 4}
    model, x, graph = network(**changes), features(), normalised_graph()
    expected = model(x, edges_of())
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = COIN.build(FEATURES, CLASSES, layers=6, **(changes | {"strength": 0.2 if learnable else 0.3})).double()
    assert (other(x, graph) - model(x, graph)).abs().max() > 1e-3
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(x, edges_of()), expected)


def test_dropout_is_for_training_only() -> None:
    model, plain, x, graph = network(dropout=0.5), network(), features(), normalised_graph()
    torch.testing.assert_close(model.eval()(x, graph), plain(x, graph), rtol=0, atol=0)
    model.train()
    assert not torch.equal(model(x, graph), model(x, graph))


def test_dropout_comes_before_each_diffusion_layer() -> None:
    model, x, graph = network(dropout=0.5, strength=0.3, layers=3).train(), features(), normalised_graph()
    torch.manual_seed(5)
    found = model(x, graph)
    torch.manual_seed(5)
    u, matrix = model.base(x), matrix_of(graph)
    for _ in range(3):
        u = nn.functional.dropout(u, 0.5)
        u = u - 0.3 * matrix @ u
    torch.testing.assert_close(found, u)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_no_layers_is_the_base_network(dropout: float) -> None:
    model, x = network(layers=0, dropout=dropout).train(), features()
    torch.testing.assert_close(model(x, edges_of()), model.base(x), rtol=0, atol=0)
    torch.testing.assert_close(model.base(x), torch.softmax(model.convection(x), -1), rtol=0, atol=0)


def test_very_long_diffusion_gives_every_node_the_mean() -> None:
    model, x = network(layers=4000), features()
    mean = model.base(x).mean(0, keepdim=True).expand(N, CLASSES)
    torch.testing.assert_close(model(x, normalised_graph()), mean)
    implicit = network(layers=4, strength=1e8, solver="implicit")
    torch.testing.assert_close(implicit(x, normalised_graph()), mean, rtol=0, atol=1e-6)


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


def test_batch_of_features_on_one_graph() -> None:
    model, x = network(), torch.stack([features(), 2 * features()])
    found = model(x, edges_of())
    torch.testing.assert_close(found[1], model(2 * features(), edges_of()))


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


def test_any_module_can_be_the_convection() -> None:
    torch.manual_seed(0)
    model = COIN(nn.Linear(FEATURES, 2).double(), Diffusion(3), head="identity")
    x = features()
    mean = model.convection(x).mean(0)
    torch.testing.assert_close(model(x, normalised_graph()).mean(0), mean)


def test_build_passes_every_setting_on() -> None:
    model = network(
        hidden_features=4, activation="tanh", head="sigmoid", layers=7, strength=0.2, solver="exact", dropout=0.1
    )
    assert isinstance(model.convection.activation, nn.Tanh) and model.convection.inner.out_features == 4
    diffusion = model.diffusion
    assert (diffusion.layers, diffusion.strength, diffusion.dropout.p) == (7, 0.2, 0.1)
    assert type(diffusion.solver).__name__ == "Exact" and not diffusion.strict
    assert network(strict=True).diffusion.strict


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


def test_unknown_head_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="head must be 'softmax', 'sigmoid' or 'identity', not 'relu'"):
        network(head="relu")


def test_operator_of_an_edge_list_is_sparse() -> None:
    assert isinstance(network()._operator(edges_of(), None, features()), SparseLaplacian)
