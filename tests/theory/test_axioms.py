"""The axioms over R^d, on families whose constants are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.errors import InvalidInputError
from condiff.theory import AXIOMS, FunctionOperator, check_axioms, ornstein_uhlenbeck, residual, time_dependent
from condiff.theory import function_axioms as axioms
from condiff.theory.function_axioms import Box
from condiff.theory.operators import Array, Function
from condiff.theory.zoo import get_entry

BOX = Box(1)
# The steepest of the test functions, whose value and derivatives are at most 1, has this slope.
SLOPE = 0.8


def family(action: Callable[[Function, Array, float, float], Array], **more: float) -> FunctionOperator:
    return FunctionOperator.of(action, 1, **more)


def test_a_translation_has_all_six_and_its_constants() -> None:
    table = check_axioms(family(lambda f, x, t, s: f(x + 3 * (t - s))), name="shift")
    assert table.holds
    assert [row.axiom for row in table] == list(AXIOMS)
    assert table["spatial"].value < 1e-6
    # |f(x + 3 t) - f(x)| / t is at most 3 times the slope.
    assert table["temporal"].value == pytest.approx(3 * SLOPE, rel=0.02)


def test_the_constants_of_an_ornstein_uhlenbeck_process_are_those_of_its_velocity() -> None:
    operator = ornstein_uhlenbeck(0.7, 0.05, nodes=12)
    spatial, temporal = axioms.spatial(operator, BOX, seed=0), axioms.temporal(operator, BOX, seed=0)
    assert spatial.holds
    assert temporal.holds
    # v = -0.7 x: its Lipschitz constant, and its size at the border of the box.
    assert spatial.value == pytest.approx(0.7 * SLOPE, rel=0.05)
    assert temporal.value == pytest.approx(0.7 * 2 * SLOPE, rel=0.1)


def test_a_velocity_that_depends_on_time_has_the_second_temporal_constant() -> None:
    # v = 4 t: T_{t+s,s} differs from T_t by a shift of 4 s t, and T_t itself moves by at most 4 t.
    check = axioms.temporal(time_dependent(lambda t: [2 * t * t], lambda t: 0.0, 1), BOX, seed=0)
    assert check.holds
    assert check.value == pytest.approx(4 * SLOPE, rel=0.02)


def test_comparison_finds_the_negative_part_of_a_kernel() -> None:
    # 1.3 f - 0.3 f(. - 1): constants stay, but a bump behind x lowers the value at x by up to 0.3.
    operator = family(lambda f, x, t, s: 1.3 * f(x) - 0.3 * f(x - 1))
    check = axioms.comparison(operator, BOX, 1e-6, seed=0)
    assert not check.holds
    assert 0.15 < check.value <= 0.3
    f, g = check.evidence.functions
    x = np.array([check.evidence.point])
    grid = np.linspace(-5, 5, 400)[:, None]
    assert (g(grid) - f(grid)).min() >= 0
    drop = operator(f, x, *check.evidence.times[::-1]) - operator(g, x, *check.evidence.times[::-1])
    assert drop[0, 0] == pytest.approx(check.value)


def test_markov_takes_either_order_and_says_which() -> None:
    # x -> x + t doubles behind t = 1/2: layers that do not commute, the network's order.
    layers = residual(lambda x, t: x if t >= 0.5 else np.ones_like(x), 1, step=0.25)
    first = axioms.markov(layers, BOX, 1e-6, seed=0)
    assert first.holds
    assert "later times first" in first.evidence.detail
    assert "the other order is off by" in first.evidence.detail
    from condiff.theory import Reversed

    second = axioms.markov(Reversed(layers), BOX, 1e-6, seed=0)
    assert second.holds
    assert "earlier times first" in second.evidence.detail


def test_markov_fails_without_an_identity_at_the_start() -> None:
    check = axioms.markov(family(lambda f, x, t, s: (f(x) + f(-x)) / 2), BOX, 1e-6, seed=0)
    assert not check.holds  # a projection composes well, but T_{s,s} is not the identity
    assert check.value > 0.3
    assert check.evidence.times == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("action", "value", "worst"),
    [
        (lambda f, x, t, s: np.tanh(f(x)), 0.2, "2 x"),
        (lambda f, x, t, s: f(x) + 0.25 * t, 0.25, "the constant 1"),
        (lambda f, x, t, s: 0.5 * f(x), 0.5, "the constant 1"),
    ],
    ids=["tanh", "source", "decay"],
)
def test_linearity_finds_what_is_not(
    action: Callable[[Function, Array, float, float], Array], value: float, worst: str
) -> None:
    check = axioms.linearity(family(action), BOX, 1e-6, seed=0)
    assert not check.holds
    assert check.value >= value
    assert check.evidence.f.startswith(worst)


@settings(max_examples=5, deadline=None)
@given(st.floats(0.2, 3.0), st.floats(0.8, 1.6))
def test_locality_measures_the_intensity_of_jumps(intensity: float, length: float) -> None:
    def jump(f: Function, x: Array, t: float, s: float) -> Array:
        leave = 1 - np.exp(-intensity * (t - s))
        return (1 - leave) * f(x) + leave * f(x + length)

    check = axioms.locality(family(jump), BOX, 1e-6, seed=0)
    assert not check.holds
    # The difference of f and g where the jump ends is at most exp(-0.1 / (length / radius - 1)).
    assert check.value == pytest.approx(intensity * np.exp(-0.1 / (length / 0.5 - 1)), rel=0.05)


def test_diffusion_is_local_although_its_kernel_is_not() -> None:
    check = axioms.locality(ornstein_uhlenbeck(0.0, 0.5), BOX, 1e-6, seed=0)
    assert check.holds
    assert check.value < 1e-10


@pytest.mark.parametrize(("power", "holds"), [(1.0, True), (0.5, False)])
def test_spatial_regularity_needs_a_lipschitz_velocity(power: float, holds: bool) -> None:
    check = axioms.spatial(residual(lambda x, t: np.abs(x) ** power, 1), BOX, seed=0)
    assert check.holds is holds
    if not holds:
        assert check.growth == pytest.approx(0.5, abs=0.2)  # C grows as h^(power - 1)


@pytest.mark.parametrize(("power", "holds"), [(1.0, True), (0.5, False)])
def test_temporal_regularity_needs_a_first_derivative(power: float, holds: bool) -> None:
    check = axioms.temporal(family(lambda f, x, t, s: f(x + t**power - s**power)), BOX, seed=0)
    assert check.holds is holds
    if not holds:
        assert check.growth is not None
        assert check.growth > 0.45  # the first inequality's constant grows as t^-1/2, the second's faster


def test_the_table_prints_and_becomes_json_and_markdown() -> None:
    table = check_axioms(family(lambda f, x, t, s: 0.5 * f(x) if t > s else f(x)), name="half")
    assert "linearity" in table.broken
    assert str(table).startswith("half\ncomparison: holds")
    assert "linearity: FAILS, violation 0.5" in str(table)
    heading, rule, row = table.markdown().splitlines()
    assert heading.count("|") == rule.count("|") == row.count("|") == 8
    assert "**fails**: 0.5" in row
    import json

    plain = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert [entry["axiom"] for entry in plain["axioms"]] == list(AXIOMS)
    assert plain["holds"] is False


def test_the_same_seed_gives_the_same_table() -> None:
    operator = get_entry("dropout").build()
    assert isinstance(operator, FunctionOperator)
    first, second = (axioms.spatial(operator, Box(2), seed=4) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"tolerance": 0.0}, "tolerance must lie between"), ({"box": (1.0, 1.0)}, "box must be a smaller")],
)
def test_errors_say_what_is_wrong(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_axioms(family(lambda f, x, t, s: f(x)), **changes)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"FunctionOperator\.of"):
        check_axioms(np.tanh)  # type: ignore[arg-type]
