"""The back-test sees nothing of what it forecasts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.estimators.test_forecaster import QUICK, REGIONS, ring, waves

from condiff.errors import InvalidInputError
from condiff.estimators.backtest import Backtest, backtest, last_values, week_means
from condiff.estimators.forecaster import PanelForecaster

NAN = float("nan")


def test_forecasts_are_made_of_the_days_before_alone() -> None:
    values = waves(30, missing=0.3)
    forecaster = PanelForecaster(horizon=2, **QUICK)
    found = backtest(forecaster, values, ring(), 3)
    assert found.origins == [26, 27, 28]
    assert list(found.forecasts) == ["COIN", "last value", "mean of the last week"]
    for position, origin in enumerate(found.origins):
        np.testing.assert_array_equal(found.truth[position], values[origin : origin + 2])
        alone = PanelForecaster(horizon=2, **QUICK).fit(values[:origin], ring()).predict()
        np.testing.assert_array_equal(found.forecasts["COIN"][position], alone)
        for name, flat in (("last value", last_values), ("mean of the last week", week_means)):
            np.testing.assert_array_equal(found.forecasts[name][position], [flat(values[:origin])] * 2)
    assert not hasattr(forecaster, "models_")


def test_daily_graphs_end_with_the_days() -> None:
    values = waves(20)
    one = backtest(PanelForecaster(**QUICK), values, ring(), 2)
    two = backtest(PanelForecaster(**QUICK), values, [ring()] * 20, 2)
    np.testing.assert_allclose(one.forecasts["COIN"], two.forecasts["COIN"], rtol=1e-5)


def test_days_are_followed_and_fewer_where_there_are_not_enough() -> None:
    told: list[int] = []

    def follow(days: Iterator[int], total: int) -> Iterator[int]:
        for day in days:
            told.append(total)
            yield day

    found = backtest(PanelForecaster(**QUICK), waves(8), ring(), 100, follow=follow)
    assert found.origins == [5, 6, 7]
    assert told == [3, 3, 3]
    with pytest.raises(InvalidInputError, match=r"needs at least 6 days and one fold, but there are 5 days"):
        backtest(PanelForecaster(**QUICK), waves(5), ring())
    with pytest.raises(InvalidInputError, match="0 folds"):
        backtest(PanelForecaster(**QUICK), waves(20), ring(), 0)


def test_a_region_that_was_never_seen_is_taken_for_its_mean() -> None:
    values = waves(12)
    values[:, 0] = NAN
    found = backtest(PanelForecaster(**QUICK), values, ring(), 1)
    fitted = PanelForecaster(**QUICK).fit(values[:11], ring())
    assert found.forecasts["last value"][0, 0, 0] == fitted.mean_[0]
    assert np.isfinite(found.mean_absolute_error("last value"))


def test_last_values_and_week_means() -> None:
    values = np.array([[1.0, NAN, 3.0, NAN]] * 9)
    values[1, 3] = 8.0
    values[-1, 0] = 4.0
    values[-2:, 2] = NAN
    np.testing.assert_array_equal(last_values(values), [4, NAN, 3, 8])
    np.testing.assert_array_equal(week_means(values), [10 / 7, NAN, 3, 8])


def made_up() -> Backtest:
    truth = np.zeros((10, 2, 3))
    forecasts = np.ones((10, 2, 3)) * np.array([1.0, 2.0, 4.0])
    forecasts[:, 1] *= np.arange(1, 11)[:, None]  # the second day is worse, the more the later
    truth[0, 0, 0] = NAN
    return Backtest(list(range(10)), truth, {"COIN": forecasts})


def test_errors_are_over_what_is_known() -> None:
    found = made_up()
    first = [1.0] * 9 + [2.0] * 10 + [4.0] * 10
    second = [size * day for day in range(1, 11) for size in (1.0, 2.0, 4.0)]
    assert found.mean_absolute_error("COIN") == pytest.approx(np.mean(first + second))
    assert found.root_mean_square_error("COIN") == pytest.approx(np.sqrt(np.mean(np.square(first + second))))
    empty = Backtest([0], np.full((1, 1, 3), NAN), {"COIN": np.ones((1, 1, 3))})
    assert np.isnan(empty.mean_absolute_error("COIN")) and np.isnan(empty.root_mean_square_error("COIN"))
    assert np.isnan(empty.margin("COIN", np.ones(3), 0.5)).all()


def test_margins_hold_their_part_of_the_truth() -> None:
    scale = np.array([1.0, 2.0, 4.0])
    margin = made_up().margin("COIN", scale, 0.8)
    np.testing.assert_allclose(margin[0], scale)  # every error is one scale
    errors = np.repeat(np.arange(1, 11), 3)
    np.testing.assert_allclose(margin[1], np.quantile(errors, 0.8) * scale)
    still = made_up().margin("COIN", np.array([1.0, 2.0, 0.0]), 0.8)
    assert (still[:, 2] == 0).all() and np.isfinite(still).all()
    with pytest.raises(InvalidInputError, match="coverage"):
        made_up().margin("COIN", scale, 1.0)


def test_margins_hold_on_noise() -> None:
    random = np.random.default_rng(0)
    values = random.normal(100, 10, (60, REGIONS))
    forecaster = PanelForecaster(**QUICK).fit(values[:59], ring())
    tested = backtest(PanelForecaster(**QUICK), values[:59], ring(), 20)
    margin = tested.margin("COIN", forecaster.scale_, 0.8)[0]
    within = np.abs(tested.forecasts["COIN"][:, 0] - tested.truth[:, 0]) <= margin
    assert 0.75 <= within.mean() <= 0.85
