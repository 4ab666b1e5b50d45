"""Methods that forecast panels with holes, and those that fill the holes, on series that can be followed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from condiff.reproduce.baselines.forecast import METHODS, REGISTRY
from condiff.reproduce.baselines.forecast.methods import QUANTILES, SeriesProblem

NAN = float("nan")


def problem() -> SeriesProblem:
    random = np.random.default_rng(0)
    values = 20 + np.arange(2) + random.normal(size=(30, 2)).cumsum(axis=0)
    joined = np.array([[0.0, 1.0], [1.0, 0.0]])
    return SeriesProblem(np.where(random.random(values.shape) < 0.3, NAN, values), [joined], (), 3)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_for_every_series_and_again_the_same(name: str) -> None:
    kind = REGISTRY.get(name)
    if kind.missing():
        pytest.skip(f"{name} needs {kind.missing()}")
    given = problem()
    before = given.values.copy()
    one, two = (kind().solve(given, 0) for _ in range(2))
    assert one.middle.shape == ((3, 2) if kind.task == "forecast" else (30, 2))
    assert np.isfinite(one.middle).all()
    np.testing.assert_array_equal(one.middle, two.middle)
    np.testing.assert_array_equal(given.values, before)
    if one.quantiles is not None:
        assert one.quantiles.shape == (len(QUANTILES), *one.middle.shape)
        assert (np.diff(one.quantiles, axis=0) >= -1e-9).all()
    if kind.task == "impute":
        known = ~np.isnan(before)
        np.testing.assert_allclose(one.middle[known], before[known])


def test_simple_forecasts() -> None:
    values = np.array([[1.0], [2.0], [3.0], [NAN], [5.0], [NAN]])
    given = SeriesProblem(values, None, (2,), 2)
    found = {
        name: REGISTRY.get(name)().solve(given, 0).middle[:, 0] for name in ("last value", "seasonal naive", "drift")
    }
    np.testing.assert_allclose(found["last value"], [5, 5])
    np.testing.assert_allclose(found["seasonal naive"], [5, 2])
    np.testing.assert_allclose(found["drift"], [7, 8])


def test_simple_fillings() -> None:
    given = SeriesProblem(np.array([[NAN], [2.0], [NAN], [6.0]]), None, (), 1)
    found = {name: REGISTRY.get(name)().solve(given, 0).middle[:, 0] for name in ("mean", "last", "linear")}
    np.testing.assert_allclose(found["mean"], [4, 2, 4, 6])
    np.testing.assert_allclose(found["last"], [2, 2, 2, 6])
    np.testing.assert_allclose(found["linear"], [2, 2, 4, 6])
