from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.theory.function_axioms import Box, Probes, climb
from condiff.theory.operators import Array


@settings(max_examples=25)
@given(st.integers(0, 1000), st.sampled_from([1, 2, 3]))
def test_functions_and_their_derivatives_keep_to_their_bounds(seed: int, d: int) -> None:
    probes = Box(d).functions(9, seed)
    x = Box(d, -3, 3).points(200, seed)
    assert probes(x).min() >= 0
    assert probes(x).max() <= 1
    assert np.abs(probes.signed(x)).max() <= 1
    h = 1e-3
    for axis in np.eye(d):
        up, here, down = (probes.scaled(x + shift * axis) for shift in (h, 0.0, -h))
        assert np.abs(up - down).max() / (2 * h) <= 1 + 1e-6
        assert np.abs(up - 2 * here + down).max() / h**2 <= 1 + 1e-4


def test_bumps_waves_and_ramps_are_what_they_are_called() -> None:
    values = np.array([[1.0, 2.0, np.log(0.8), 3.0, 4.0]] * 3)
    probes = Probes(np.arange(3), values)
    x = np.array([[1.0, 2.0], [1.6, 2.8]])  # the centre, and 1 away along the direction (0.6, 0.8)
    wave, bump = (1 + np.cos(1 / 0.8)) / 2, np.exp(-1 / (2 * 0.64))
    found = probes(x)
    assert found[0] == pytest.approx([1.0, 1.0, 0.5])
    assert found[1, :2] == pytest.approx([bump, wave])
    assert 0.85 < found[1, 2] < 0.95
    assert "bump at (1, 2), width 0.8" in probes.describe(0)
    assert "ramp at (1, 2) along (0.6, 0.8)" in probes.describe(2)


def test_the_climb_finds_a_peak_that_no_start_is_near() -> None:
    peak = np.array([0.913, -1.274])

    def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
        # Largest at the peak, for functions of width 1 centred at (0.5, 0.5).
        (f,) = stacks
        of_point = np.exp(-40 * ((x - peak) ** 2).sum(1))
        of_function = -((f.centre - 0.5) ** 2).sum(1) - np.log(f.width) ** 2
        return of_point[:, None] + of_function

    found = climb(objective, Box(2), 1, rounds=60)
    assert found.x == pytest.approx(peak, abs=0.01)
    assert found.functions[0].width[0] == pytest.approx(1.0, abs=0.05)
    assert found.value == pytest.approx(1.0, abs=1e-3)
    assert climb(objective, Box(2), 1, rounds=60).value == found.value
