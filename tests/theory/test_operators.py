from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.theory import DiffusionOperator, FunctionOperator, Headed, LinearOperator, Phases, Reversed
from condiff.theory.operators import Array, layers_between
from condiff.theory.zoo import ENTRIES

RING = np.roll(np.eye(6), 1, 0) + np.roll(np.eye(6), -1, 0)


def moving(speed: float) -> FunctionOperator:
    return FunctionOperator.of(lambda f, x, t, s: f(x + speed * (t - s)), 2)


def test_an_operator_of_a_function_is_applied_with_columns_and_without() -> None:
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert moving(2.0)(lambda y: y[:, 0], x, 0.5, 0.25) == pytest.approx([0.5, 2.5])
    assert moving(2.0)(lambda y: y * 3, x, 1.0) == pytest.approx(3 * (x + 2))


@given(st.floats(0, 3), st.floats(0, 3), st.sampled_from([0.1, 0.25, 1 / 3, 2.0]))
def test_layers_fill_the_time_between(s: float, length: float, step: float) -> None:
    layers = layers_between(s, s + length, step)
    assert sum(thickness for _, thickness in layers) == pytest.approx(length, abs=1e-8)
    assert all(0 < thickness <= step * (1 + 1e-9) for _, thickness in layers)
    assert [start for start, _ in layers] == pytest.approx([s + k * step for k in range(len(layers))])


def test_a_reversed_family_goes_through_its_layers_from_the_last() -> None:
    def scaled(f: object, x: Array, t: float, s: float) -> Array:
        # Layers that multiply by 2, then add 1: the order shows.
        for start, _ in layers_between(s, t, 0.5):
            x = 2 * x if start < 0.5 else x + 1
        return f(x)  # type: ignore[operator, no-any-return]

    operator = FunctionOperator.of(scaled, 1, step=0.5)
    backwards = Reversed(operator)
    x = np.array([[3.0]])
    assert operator(lambda y: y[:, 0], x, 1.0) == pytest.approx(7.0)
    assert backwards(lambda y: y[:, 0], x, 1.0) == pytest.approx(7.0)
    assert backwards(lambda y: y[:, 0], x, 0.5) == pytest.approx(4.0)
    assert backwards(lambda y: y[:, 0], x, 1.0, 0.5) == pytest.approx(6.0)


def test_phases_follow_each_other() -> None:
    double = FunctionOperator.of(lambda f, x, t, s: f(x) * 2 ** (t - s), 2)
    square = FunctionOperator.of(lambda f, x, t, s: f(x) ** 2 if t > s else f(x), 2, horizon=2.0)
    phases = Phases([double, square])
    x = np.array([[3.0, 0.0]])
    assert phases.horizon == 3.0
    assert phases(lambda y: y[:, 0], x, 1.0) == pytest.approx(6.0)
    assert phases(lambda y: y[:, 0], x, 2.0) == pytest.approx(36.0)
    assert phases(lambda y: y[:, 0], x, 3.0, 1.0) == pytest.approx(9.0)


def test_matrices_of_graph_operators_are_those_of_the_layers() -> None:
    graph = Graph.of(RING)
    laplacian = np.diag(RING.sum(1)) - RING
    operator = DiffusionOperator(graph)
    assert operator.strength == pytest.approx(0.5)
    one = np.eye(6) - 0.5 * laplacian
    assert operator.matrix(1.0) == pytest.approx(one @ one)
    # A time between layers ends within a thinner one.
    assert operator.matrix(0.7) == pytest.approx((np.eye(6) - 0.2 * laplacian) @ one)
    u = np.arange(6.0)
    assert operator(u, 0.5) == pytest.approx(one @ u)
    assert LinearOperator(-laplacian, step=0.5, horizon=4.0).matrix(0.7) == pytest.approx(operator.matrix(0.7))


def test_channels_are_part_of_the_matrix() -> None:
    swapped = Headed(DiffusionOperator(Graph.of(RING)), lambda u: u[:, ::-1], channels=2)
    u = np.random.default_rng(0).normal(size=(6, 2))
    assert (swapped.matrix(1.0) @ u.ravel()).reshape(6, 2) == pytest.approx(swapped(u, 1.0))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_example_says_its_size_and_time(entry: object) -> None:
    operator = entry.build()  # type: ignore[attr-defined]
    assert operator.horizon > 0
    assert getattr(operator, "dimension", None) in (2, 3) or operator.joined.shape == (operator.n_nodes,) * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: moving(1.0)(lambda y: y, [1.0, 2.0], 1.0), r"x must have the shape \(n, 2\)"),
        (lambda: moving(1.0)(lambda y: y, [[1.0, 2.0]], 0.2, 0.5), "times must obey"),
        (lambda: moving(1.0)(lambda y: y, [[1.0, 2.0]], 1.5), "times must obey"),
        (lambda: moving(1.0)(lambda y: y.sum(0), [[1.0, 2.0]], 1.0), "the first axis must be the points'"),
        (lambda: FunctionOperator.of(lambda f, x, t, s: x, 4), "dimension must be 1, 2 or 3"),
        (lambda: FunctionOperator.of(lambda f, x, t, s: x, 1, horizon=0), "horizon must be positive"),
        (lambda: FunctionOperator.of(lambda f, x, t, s: x, 1, step=2.0), "step at most that"),
        (lambda: Phases([]), "at least one operator"),
        (lambda: DiffusionOperator(Graph.of(RING))(np.ones(5), 1.0), "u must have 6 rows"),
        (lambda: DiffusionOperator(Graph.of(RING), points=np.ones((5, 2))), "6 nodes but there are 5 points"),
    ],
)
def test_errors_say_what_is_wrong(call: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()  # type: ignore[operator]
