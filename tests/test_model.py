"""What the model computes, its gradients, its settings and its copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.networks import CLASSES, FEATURES, GRAPHS, N, edges_of, features, matrix_of, network, normalised_graph
from torch import Tensor, nn

from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError, StepSizeError, StepSizeWarning
from condiff.graph import DenseLaplacian, Graph
from condiff.model import COIN, apply_head


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


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_step_of_training_stays_on_the_device_of_its_inputs(dropout: float) -> None:
    # Whatever were made on another device would not go together with tensors of this one.
    operator = DenseLaplacian(torch.as_tensor(normalised_graph().weights.toarray())).to("meta")
    model = network(strength=0.3, dropout=dropout).to("meta").train()
    u = model(torch.empty(N, FEATURES, dtype=torch.float64, device="meta"), operator)
    torch.nn.functional.nll_loss(u.log(), torch.zeros(N, dtype=torch.long, device="meta")).backward()
    assert u.shape == (N, CLASSES)
    assert {each.grad.device.type for each in model.parameters() if each.grad is not None} == {"meta"}


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


def test_batch_of_features_on_one_graph() -> None:
    model, x = network(), torch.stack([features(), 2 * features()])
    found = model(x, edges_of())
    torch.testing.assert_close(found[1], model(2 * features(), edges_of()))


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


def test_unknown_head_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="head must be 'softmax', 'sigmoid' or 'identity', not 'relu'"):
        network(head="relu")
