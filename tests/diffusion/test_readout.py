"""Read-outs give classes their shares and answers their certainty, and keep the order of what they read."""

from __future__ import annotations

import numpy as np
import pytest

from condiff.diffusion.readout import ReadOut

SHARES = np.array([0.6, 0.3, 0.1])


@pytest.mark.parametrize("levelled", [1.0, 0.2, 0.01])
def test_shares_and_purity_are_those_asked_for(levelled: float) -> None:
    u = np.random.default_rng(0).dirichlet([2.0, 1.0, 0.5], 800)
    u = levelled * u + (1 - levelled) * u.mean(axis=0)
    found = ReadOut.fit(u, SHARES, 0.75)(u)
    np.testing.assert_allclose(found.mean(axis=0), SHARES, atol=0.01)
    assert abs((found**2).sum(axis=1).mean() - 0.75) < 0.02


def test_a_class_that_is_outvoted_everywhere_gets_its_points_back() -> None:
    u = np.full((100, 2), [0.8, 0.2])
    u[:10] = [0.7, 0.3]
    assert u.argmax(axis=1).max() == 0
    found = ReadOut.fit(u, np.array([0.9, 0.1]), 0.95)(u)
    np.testing.assert_array_equal(found.argmax(axis=1), np.arange(100) < 10)


def test_the_plain_one_changes_nothing() -> None:
    u = np.random.default_rng(0).dirichlet([1.0, 1.0], 5)
    np.testing.assert_allclose(ReadOut.plain(2)(u), u)
