"""The axioms on graphs, against what matrices say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from condiff.diffusion import Diffusion, certify
from condiff.graph import Graph
from condiff.theory import DiffusionOperator, Headed, LinearOperator, NodeNetwork, check_axioms
from condiff.theory.operators import Array
from condiff.theory.zoo import get_entry

RING = np.roll(np.eye(8), 1, 0) + np.roll(np.eye(8), -1, 0)


def laplacian(weights: Array) -> Array:
    return np.asarray(np.diag(weights.sum(1)) - weights)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n, seed = draw(st.integers(3, 10)), draw(st.integers(0, 1000))
    weights = np.random.default_rng(seed).random((n, n)) * (np.random.default_rng(seed + 1).random((n, n)) < 0.5)
    return Graph.of(weights + weights.T + np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0))


@settings(max_examples=20, deadline=None)
@given(graphs(), st.floats(0.3, 2.5))
def test_comparison_breaks_at_the_certified_limit_and_not_before(graph: Graph, factor: float) -> None:
    strength = factor * certify(graph).positivity_limit
    check = check_axioms(DiffusionOperator(graph, Diffusion(1, strength)))["comparison"]
    assert check.exact
    assert check.holds == (factor <= 1 + 1e-6)
    assert check.value == pytest.approx(max(0.0, factor - 1), abs=1e-9)  # the node of the largest degree itself
    f, g = check.evidence.functions
    operator = DiffusionOperator(graph, Diffusion(1, strength))
    node = int(check.evidence.point[0])
    drop = (operator(f, operator.horizon) - operator(g, operator.horizon))[node, 0]
    assert drop == pytest.approx(check.value, abs=1e-12)


def test_the_worst_pair_of_many_layers_is_the_worst_of_all() -> None:
    check = check_axioms(get_entry("euler-past-limit").build())["comparison"]
    operator = get_entry("euler-past-limit").build()
    s, t = check.evidence.times
    matrix = operator.matrix(t, s)  # type: ignore[union-attr]
    assert check.value == pytest.approx(np.clip(-matrix, 0, None).sum(1).max())
    # No pair can do worse: random ones stay below.
    generator = np.random.default_rng(0)
    gaps = generator.random((len(matrix), 500))
    assert (-matrix @ gaps).max() <= check.value


def test_constants_are_norms_of_the_generator() -> None:
    check = check_axioms(LinearOperator(-laplacian(RING)))
    assert check.holds
    # |L f| is at most 4 on a ring, and between neighbours L f differs by up to |(1, -3, 3, -1)| = 8.
    assert check["temporal"].value == pytest.approx(4, rel=0.02)
    assert check["spatial"].value == pytest.approx(8, rel=0.02)
    far_apart = LinearOperator(-laplacian(RING), points=5.0 * np.eye(8))
    assert check_axioms(far_apart)["spatial"].value == pytest.approx(8 / (5 * np.sqrt(2)), rel=0.02)


@pytest.mark.parametrize("solver", ["exact", "implicit"])
def test_the_packages_solvers_obey_all_six(solver: str) -> None:
    operator = DiffusionOperator(Graph.of(RING), Diffusion(4, 0.25, solver=solver))
    # The implicit solver's layers reach every node at once, but less with thinner layers.
    assert check_axioms(operator, tolerance=1e-4).holds


def test_the_square_root_of_a_laplacian_is_not_local() -> None:
    values, modes = np.linalg.eigh(laplacian(RING))
    root = modes * np.sqrt(np.clip(values, 0, None)) @ modes.T
    operator = LinearOperator(-root)
    operator.joined = (RING > 0) | np.eye(8, dtype=bool)
    check = check_axioms(operator)["locality"]
    far = np.abs(root) * ~operator.joined
    assert not check.holds
    assert check.value == pytest.approx(far.sum(1).max(), rel=1e-3)


def test_a_source_breaks_markov_and_constants() -> None:
    # u' = -L u + u(0): the answer remembers where it began.
    def layer(u: Array, time: float, thickness: float) -> Array:
        return np.asarray(u - thickness * laplacian(RING) @ u)

    class Fed(NodeNetwork):
        def apply(self, u: Array, t: float, s: float) -> Array:
            state = u
            for _ in range(round((t - s) / 0.125)):
                state = self.layer(state, 0.0, 0.125) + 0.125 * u
            return state

    table = check_axioms(Fed(layer, RING, step=0.125))
    assert {"markov", "linearity"} <= set(table.broken)
    assert table["linearity"].value == pytest.approx(1.0)  # T 1 = 2 at time 1
    matrix = Fed(layer, RING, step=0.125).matrix(0.5)
    truth = np.abs(Fed(layer, RING, step=0.125).matrix(1.0) - matrix @ matrix).sum(1).max()
    assert table["markov"].value >= truth * (1 - 1e-9)


def test_a_softmax_after_the_flow_is_found_not_to_be_linear() -> None:
    flow = LinearOperator(-laplacian(RING), step=0.25)
    operator = Headed(flow, lambda u: np.asarray(softmax(u, axis=1)), channels=3)
    table = check_axioms(operator)
    assert {"linearity", "comparison"} <= set(table.broken)
    assert not table["linearity"].exact
    worst = table["comparison"]
    f, g = worst.evidence.functions
    assert (g >= f).all()
    s, t = worst.evidence.times
    assert (operator(f, t, s) - operator(g, t, s)).max() >= worst.value - 1e-12
    sums = table["linearity"].evidence.functions
    assert len(sums) == 1  # the constant 1 becomes 1/3
    assert table["linearity"].value == pytest.approx(2 / 3)


def test_a_monotone_activation_keeps_the_order_without_being_linear() -> None:
    table = check_axioms(get_entry("pde-gcn-tanh").build())
    assert table.broken == ("linearity",)


def test_channels_that_act_on_each_other_are_compared_value_by_value() -> None:
    # A rotation of the two columns is linear, and takes a positive function to a negative one.
    angle = np.pi / 6
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    operator = Headed(LinearOperator(-laplacian(RING)), lambda u: u @ turn, channels=2)
    check = check_axioms(operator)["comparison"]
    assert check.exact
    assert check.value == pytest.approx(0.5)


def test_a_graph_without_edges_stands_still() -> None:
    table = check_axioms(LinearOperator(np.zeros((4, 4))))
    assert table.holds
    assert [row.value for row in table] == pytest.approx([0.0] * 6, abs=1e-15)
