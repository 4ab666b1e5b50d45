from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.uncertainty.calibration import apply_temperature, fit_temperature, shrink


def loss(u: np.ndarray, codes: np.ndarray) -> float:
    return float(-np.log(np.clip(u[np.arange(len(codes)), codes], 1e-300, None)).mean())


def drawn(n: int = 4000, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are true: each label is drawn from its own row."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(classes, 0.7), n)
    return p, (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), min_size=1, max_size=5),
    st.floats(0.05, 20.0),
)
def test_rows_are_probabilities_in_the_same_order(rows: list[list[float]], temperature: float) -> None:
    u = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    p = apply_temperature(u, temperature)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p >= 0).all()
    for before, after in zip(u, p, strict=True):
        order = np.argsort(before, kind="stable")
        assert (np.diff(after[order]) >= -1e-12).all()


def test_a_temperature_of_one_changes_nothing() -> None:
    u = np.array([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]])
    np.testing.assert_allclose(apply_temperature(u, 1.0), u)


def test_small_temperatures_sharpen_and_large_ones_flatten() -> None:
    u = np.array([[0.3, 0.34, 0.36]])
    assert apply_temperature(u, 0.01)[0, 2] > 0.99
    assert apply_temperature(u, 20.0)[0].max() < 0.335


def test_outputs_that_left_the_simplex_still_give_probabilities() -> None:
    p = apply_temperature(np.array([[-0.1, 1.1, 0.0]]), 0.5)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p.argmax() == 1


@pytest.mark.parametrize("temperature", [0.02, 0.3, 1.0, 4.0])
def test_the_temperature_that_garbled_true_probabilities_is_recovered(temperature: float) -> None:
    p, codes = drawn()
    garbled = apply_temperature(np.clip(p, 1e-3, None), 1 / temperature)
    found = fit_temperature(garbled, codes, np.ones(len(codes)))
    assert found == pytest.approx(temperature, rel=0.1)


def test_nearly_uniform_outputs_become_sharp() -> None:
    p, codes = drawn()
    flat = apply_temperature(np.clip(p, 1e-3, None), 200.0)
    assert np.abs(flat - 0.25).max() < 0.02
    calibrated = apply_temperature(flat, fit_temperature(flat, codes, np.ones(len(codes))))
    assert loss(calibrated, codes) < loss(flat, codes) - 0.2


def test_a_few_right_answers_do_not_ask_for_certainty() -> None:
    u = np.tile([0.6, 0.4], (10, 1))
    codes = np.zeros(10, dtype=np.int64)
    p = apply_temperature(u, fit_temperature(u, codes, np.ones(10)))
    np.testing.assert_allclose(p[:, 0], 11 / 12, atol=1e-3)


def test_a_weight_of_two_is_an_answer_given_twice() -> None:
    rng = np.random.default_rng(3)
    u = rng.dirichlet(np.ones(3), 30)
    codes = rng.integers(0, 3, 30)
    twice = np.concatenate([np.arange(30), np.arange(10)])
    weights = np.ones(30)
    weights[:10] = 2
    assert fit_temperature(u, codes, weights) == pytest.approx(
        fit_temperature(u[twice], codes[twice], np.ones(40)), rel=1e-3
    )


def test_doubt_changes_no_answer_and_no_given_label() -> None:
    p = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(shrink(p, 0.25), [[0.375 + 1 / 12, 0.225 + 1 / 12, 0.15 + 1 / 12], [0, 1, 0]])
    np.testing.assert_array_equal(shrink(p, 0.0), p)
