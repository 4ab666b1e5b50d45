"""Class shares of unlabelled points against made-up classifiers whose mistakes are known."""

from __future__ import annotations

import numpy as np
import pytest

from condiff.uncertainty.shares import class_shares, with_shares

CONFUSION = np.array([[0.8, 0.1, 0.2], [0.1, 0.9, 0.1], [0.1, 0.0, 0.7]])


def draw(truth: np.ndarray, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.array([generator.choice(3, p=CONFUSION[:, label]) for label in truth])


def test_shares_are_found_from_even_held_out_labels() -> None:
    shares = np.array([0.1, 0.1, 0.8])
    truth = np.concatenate([np.repeat([0, 1, 2], 400), np.repeat([0, 1, 2], (6000 * shares).astype(int))])
    predicted = draw(truth, 0)
    held_out = np.arange(1200)
    found = class_shares(predicted, held_out, truth[held_out], 3)
    everywhere = np.bincount(truth) / len(truth)
    assert np.abs(found - everywhere).max() < 0.03
    # Counting predictions alone is further off: that is what the confusion matrix is for.
    counted = np.bincount(predicted, minlength=3) / len(predicted)
    assert np.abs(found - everywhere).sum() < np.abs(counted - everywhere).sum()


def test_a_perfect_classifier_has_its_own_shares() -> None:
    truth = np.repeat([0, 1, 2], [700, 200, 100])
    held_out = np.array([0, 1, 2, 700, 701, 702, 900, 901, 902] * 100)
    np.testing.assert_allclose(class_shares(truth, held_out, truth[held_out], 3), [0.7, 0.2, 0.1], atol=0.01)


def test_no_class_is_excluded_even_if_never_predicted() -> None:
    shares = class_shares(np.zeros(50, np.int64), np.array([0, 1]), np.array([0, 1]), 3)
    assert (shares > 0.005).all()
    assert shares.sum() == pytest.approx(1)


def test_probabilities_follow_bayes_rule() -> None:
    """Two Gaussian classes: what is right under even shares becomes right under others."""
    x = np.linspace(-2, 2, 9)
    density = np.exp(-((x[:, None] - np.array([-1.0, 1.0])) ** 2) / 2)
    even, shares = density / density.sum(1, keepdims=True), np.array([0.9, 0.1])
    expected = density * shares / (density * shares).sum(1, keepdims=True)
    np.testing.assert_allclose(with_shares(even, shares), expected)
    np.testing.assert_allclose(with_shares(expected, np.array([0.5, 0.5]), shares), even)
