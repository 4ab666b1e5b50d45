from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.diffusion.problems import (
    complete,
    dense_laplacian,
    kinds,
    operator_of,
    path,
    random_simplex,
    random_u,
    random_weights,
)

from condiff.diffusion import SOLVERS, Chebyshev, Diffusion, Euler, Exact, Implicit, Power, stability
from condiff.errors import InvalidInputError, StepSizeError, StepSizeWarning
from condiff.graph import DenseLaplacian, Graph

GRAPH = path(7)  # limits: positivity 1/2, stability 2/3.80 = 0.526


@pytest.mark.parametrize("name", SOLVERS)
def test_each_name_is_its_solver_with_default_settings(name: str) -> None:
    layer = Diffusion(3, 0.2, solver=name)
    assert type(layer.solver) is SOLVERS[name]
    u = random_u(7)
    expected = SOLVERS[name]()(GRAPH.operator(), u, 0.2, 3)
    torch.testing.assert_close(layer(u, GRAPH.operator()), expected, rtol=0, atol=0)


def test_the_registry_holds_every_solver() -> None:
    expected = {"euler": Euler, "exact": Exact, "chebyshev": Chebyshev, "implicit": Implicit, "power": Power}
    assert expected == SOLVERS


def test_a_solver_with_settings_of_its_own() -> None:
    solver = Chebyshev(1e-2)
    assert Diffusion(solver=solver).solver is solver


@pytest.mark.parametrize(
    "form",
    [
        lambda w: Graph.of(w),
        lambda w: operator_of(w, "sparse"),
        lambda w: operator_of(w, "sparse", torch.float32),
        lambda w: operator_of(w, "dense"),
        lambda w: torch.from_numpy(dense_laplacian(w)),
        lambda w: torch.from_numpy(dense_laplacian(w)).to_sparse_coo(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_form_of_a_graph_and_either_precision(form: Any, dtype: torch.dtype) -> None:
    u = random_u(7, dtype=dtype)
    actual = Diffusion(5, 0.3)(u, form(GRAPH.weights))
    assert actual.dtype == dtype
    expected = torch.from_numpy(np.linalg.matrix_power(np.eye(7) - 0.3 * GRAPH.matrix, 5)) @ u.double()
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-12)


def test_batches_of_values_and_of_graphs() -> None:
    u = random_u(7, 6).reshape(7, 2, 3).movedim(0, 1)
    layer = Diffusion(5, 0.3)
    one_by_one = torch.stack([layer(part, GRAPH.operator()) for part in u])
    torch.testing.assert_close(layer(u, GRAPH.operator("sparse")), one_by_one)
    torch.testing.assert_close(layer(u, GRAPH.operator("dense")), one_by_one)
    batch = DenseLaplacian(torch.from_numpy(np.stack([GRAPH.weights, GRAPH.weights / 2])))
    halves = torch.stack([one_by_one[0], layer(u[1], operator_of(GRAPH.weights / 2))])
    torch.testing.assert_close(layer(u, batch), halves)


def test_auto_is_the_positivity_limit_of_the_graph_at_hand() -> None:
    layer = Diffusion(4)
    for problem in (path(7), complete(6)):
        limit = 1 / problem.matrix.diagonal().max()
        assert layer.strength_on(problem.operator()) == pytest.approx(limit)
        u = random_simplex(problem.n_nodes)
        after = layer(u, problem.operator())
        torch.testing.assert_close(after, Euler()(problem.operator(), u, limit, 4))
        assert after.min() >= -1e-15


def test_auto_on_a_graph_without_edges_changes_nothing() -> None:
    u = random_u(3)
    torch.testing.assert_close(Diffusion()(u, operator_of(np.zeros((3, 3)))), u, rtol=0, atol=0)


def test_no_layers_change_nothing() -> None:
    u = random_u(7)
    assert torch.equal(Diffusion(0, 100.0)(u, GRAPH.operator()), u)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_learnable_strength_trains_and_stays_positive(solver: str) -> None:
    torch.manual_seed(0)
    operator, u = operator_of(random_weights(7, 0)), random_u(7)
    target = Exact()(operator, u, 0.05, 2)
    layer = Diffusion(2, 0.15, solver=solver, learnable=True)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (layer(u, operator) - target).square().sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        assert strength_of(layer) > 0
    assert losses[-1] < 0.01 * losses[0]
    assert strength_of(layer) == pytest.approx(0.05, rel=0.15)


def strength_of(layer: Diffusion) -> float:
    strength = layer.strength_on(GRAPH.operator())
    assert isinstance(strength, torch.Tensor)
    return strength.item()


def test_a_learnable_strength_pushed_down_forever_stays_positive() -> None:
    layer = Diffusion(2, 0.1, learnable=True)
    optimiser = torch.optim.SGD(layer.parameters(), lr=5.0)
    for _ in range(5):
        optimiser.zero_grad()
        (10 * layer.strength_on(GRAPH.operator())).backward()  # type: ignore[union-attr]
        optimiser.step()
    assert 0 < strength_of(layer) < 0.05


@pytest.mark.parametrize("learnable", [False, True])
def test_state_dict_and_deepcopy_round_trips(learnable: bool) -> None:
    layer = Diffusion(3, 0.2, learnable=learnable)
    if layer.log_strength is not None:
        layer.log_strength.data.fill_(-2.5)
    fresh = Diffusion(3, 0.2, learnable=learnable)
    fresh.load_state_dict(layer.state_dict())
    u = random_u(7)
    for other in (fresh, copy.deepcopy(layer)):
        torch.testing.assert_close(other(u, GRAPH.operator()), layer(u, GRAPH.operator()), rtol=0, atol=0)
    assert len(layer.state_dict()) == learnable
    assert len(list(layer.parameters())) == learnable


def test_dropout_acts_before_every_layer_in_training_only() -> None:
    u = torch.ones(7, 2000, dtype=torch.float64)
    layer = Diffusion(3, 0.2, dropout=0.25)
    layer.eval()
    torch.testing.assert_close(layer(u, GRAPH.operator()), u)
    layer.train()
    torch.manual_seed(0)
    first = layer(u, GRAPH.operator())
    torch.manual_seed(0)
    expected = u
    for _ in range(3):
        expected = Euler()(GRAPH.operator(), torch.nn.functional.dropout(expected, 0.25), 0.2, 1)
    torch.testing.assert_close(first, expected)
    assert first.std() > 0.1
    assert float(first.mean()) == pytest.approx(1.0, abs=0.02)  # what remains is scaled up


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": -1}, "layers must be a whole number, 0 or more, not -1"),
        ({"layers": 2.5}, "layers must be a whole number, 0 or more, not 2.5"),
        ({"strength": 0.0}, "strength must be a positive number or 'auto', not 0.0"),
        ({"strength": -0.1}, "strength must be a positive number or 'auto', not -0.1"),
        ({"strength": float("nan")}, "strength must be a positive number or 'auto', not nan"),
        ({"strength": float("inf")}, "strength must be a positive number or 'auto', not inf"),
        ({"strength": "large"}, "strength must be a positive number or 'auto', not 'large'"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"dropout": -0.5}, "dropout must be at least 0 and below 1, not -0.5"),
        ({"solver": "rk4"}, "unknown solver 'rk4'; the solvers are euler, exact, chebyshev, implicit"),
        ({"solver": Euler}, "unknown solver .*Euler.*; the solvers are"),
        ({"learnable": True}, "a learnable strength needs a number to start from, not 'auto'"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Diffusion(**options)


def test_numbers_of_numpy_are_numbers() -> None:
    layer = Diffusion(np.int64(3), np.float32(0.25))  # type: ignore[arg-type]
    assert (layer.layers, layer.strength) == (3, 0.25)
    assert isinstance(layer.layers, int)
    assert isinstance(layer.strength, float)


def test_a_u_of_another_size_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"u has 6 rows .* but the graph has 7 nodes"):
        Diffusion(2, 0.1)(random_u(6), GRAPH.operator())


@kinds
@pytest.mark.parametrize(
    ("strength", "message"),
    [(0.499, None), (0.5, None), (0.51, "positivity limit 0.5 "), (0.53, "stability limit 0.5")],
)
def test_warns_exactly_past_the_limits(kind: str, strength: float, message: str | None) -> None:
    layer, operator = Diffusion(2, strength), GRAPH.operator(kind)
    if message is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            layer(random_u(7), operator)
        return
    with pytest.warns(StepSizeWarning, match=message) as caught:
        layer(random_u(7), operator)
    assert len(caught) == 1
    with pytest.raises(StepSizeError, match=message):
        Diffusion(2, strength, strict=True)(random_u(7), operator)


def test_a_learned_strength_warns_when_it_crosses_the_limit() -> None:
    layer = Diffusion(2, 0.4, learnable=True)
    layer(random_u(7), GRAPH.operator())
    assert layer.log_strength is not None
    layer.log_strength.data.fill_(np.log(0.6))
    with pytest.warns(StepSizeWarning, match="strength 0.6 is past the stability limit"):
        layer(random_u(7), GRAPH.operator())


@pytest.mark.parametrize("solver", ["exact", "chebyshev", "implicit"])
def test_solvers_without_a_limit_never_warn(solver: str) -> None:
    u = random_simplex(7)
    after = Diffusion(2, 30.0, solver=solver, strict=True)(u, GRAPH.operator())
    torch.testing.assert_close(after, u.mean(dim=0).expand(7, 3), rtol=0, atol=1e-2)
    assert after.min() > 0


@kinds
@pytest.mark.filterwarnings("ignore::condiff.errors.StepSizeWarning")
def test_the_certificate_is_measured_once_for_many_passes(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    measured = []
    measure = stability._measure
    monkeypatch.setattr(stability, "_measure", lambda operator: measured.append(1) or measure(operator))
    layer, operator = Diffusion(2, 0.51), GRAPH.operator(kind)
    for _ in range(3):
        layer(random_u(7), operator)
    assert len(measured) == 1
    Diffusion(2, 0.49)(random_u(7), GRAPH.operator(kind))  # within the limit no eigenvalue is needed
    assert len(measured) == 1


def test_the_settings_are_shown() -> None:
    shown = repr(Diffusion(7, 0.25, solver="exact"))
    assert "layers=7, strength=0.25, solver=exact" in shown
