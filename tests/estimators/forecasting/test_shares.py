"""What the back-test decides: shares, quantiles, coverage."""

from __future__ import annotations

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.estimators.forecasting.shares import (
    Backtest,
    Spread,
    as_before,
    best_shares,
    blind_shares,
    likeliest_deviation,
    representative,
    spread_of,
    steps_between,
)

NAN = float("nan")


def errors_of(**errors: np.ndarray) -> Backtest:
    truth = np.zeros((20, 3, 5))
    return Backtest(list(range(20)), truth, dict(errors), np.ones(5))


def noise(seed: int, size: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, size, (20, 3, 5))


def test_errors_that_cancel_share_alike() -> None:
    found = best_shares(errors_of(**{"last value": noise(0), "drift": noise(1)}))
    assert found == {"last value": pytest.approx(0.5, abs=0.1), "drift": pytest.approx(0.5, abs=0.1)}


def test_what_is_much_better_takes_all() -> None:
    found = best_shares(errors_of(**{"last value": noise(0), "drift": noise(1, 10.0), "network": noise(2, 0.05)}))
    assert found == {"network": pytest.approx(1)}


def test_a_mixture_that_is_not_clearly_better_is_mostly_the_simple_forecast() -> None:
    same = noise(0)
    found = best_shares(errors_of(**{"last value": same, "diffusion": 0.99 * same}))
    assert found["last value"] > 0.8
    assert best_shares(errors_of(**{"last value": same, "diffusion": 1.01 * same})) == {"last value": 1.0}
    assert best_shares(errors_of(**{"seasonal naive": same, "last value": 1.5 * same})) == {"seasonal naive": 1.0}
    # Of two errors little can be learned.
    few = Backtest(
        [0], np.array([[[0.0, 0.0]]]), {"last value": np.ones((1, 1, 2)), "drift": 0.8 * np.ones((1, 1, 2))}, np.ones(2)
    )
    assert best_shares(few)["last value"] > 0.5


def test_simple_forecasts_that_are_as_good_are_both_in_it() -> None:
    same = noise(0)
    found = best_shares(errors_of(**{"last value": same, "seasonal naive": -same, "drift": noise(1, 9.0)}))
    assert found == {"last value": pytest.approx(0.5, abs=0.1), "seasonal naive": pytest.approx(0.5, abs=0.1)}


def test_series_of_which_nothing_was_known_do_not_count() -> None:
    values = np.array([[1.0, NAN, NAN], [2.0, NAN, 5.0], [3.0, 1.0, NAN], [4.0, 2.0, NAN]])
    found = representative(np.zeros((1, 2, 3)), values, 2)
    # The last series has one value at all, and it was known.
    assert np.isnan(found[0, 0]).tolist() == [False, True, False]
    # Where none is left, all count.
    assert np.isfinite(representative(np.zeros((1, 2, 1)), values[:, 1:2], 2)).all()


def test_errors_count_relative_to_the_series_and_constant_ones_not_at_all() -> None:
    truth = np.zeros((10, 1, 3))
    large_is_bad = np.tile([100.0, 1.0, 0.0], (10, 1, 1))
    small_is_bad = np.tile([50.0, 9.0, 99.0], (10, 1, 1))
    found = Backtest(
        list(range(10)), truth, {"last value": large_is_bad, "drift": small_is_bad}, np.array([100.0, 1, 0])
    )
    assert best_shares(found) == {"last value": 1.0}
    assert found.mean_absolute_scaled_error("last value") == pytest.approx(1.0)


def test_nothing_known_is_the_simple_forecast() -> None:
    unknown = Backtest(
        [0], np.full((1, 1, 2), NAN), {"drift": np.ones((1, 1, 2)), "last value": np.ones((1, 1, 2))}, np.ones(2)
    )
    assert best_shares(unknown) == {"last value": 1.0}
    assert np.isnan(unknown.mean_absolute_error("drift")) and np.isnan(unknown.root_mean_square_error("drift"))


def test_errors_are_over_what_is_known() -> None:
    truth = np.zeros((1, 2, 2))
    truth[0, 0, 0] = NAN
    found = Backtest([0], truth, {"drift": np.array([[[9.0, 1.0], [2.0, 3.0]]])}, np.ones(2))
    assert found.mean_absolute_error("drift") == pytest.approx(2)
    assert found.root_mean_square_error("drift") == pytest.approx(np.sqrt(14 / 3))


def test_steps_from_one_known_value_to_the_next() -> None:
    values = np.array([[1.0, NAN, 5.0, 1.0], [NAN, NAN, 5.0, NAN], [4.0, NAN, 5.0, NAN], [2.0, 7.0, 5.0, 3.0]])
    np.testing.assert_allclose(steps_between(values), [2.5, 2.25, 0.0, 2.0])


def test_quantiles_are_conformal() -> None:
    scores = np.arange(0.0, 1001.0).reshape(-1, 1, 1)  # all too low, and yet the middle is the forecast
    low, middle, high = Spread(scores, 1e9).quantiles([0.1, 0.5, 0.9])[:, 0]
    assert (low, middle, high) == pytest.approx((-800, 0, 800), abs=2)
    # Of ten independent scores, an interval that holds eight tenths of what comes holds eleven tenths of that.
    low, middle, high = Spread(scores, 10).quantiles([0.1, 0.5, 0.9])[:, 0]
    assert (low, middle, high) == pytest.approx((-880, 0, 880), abs=2)
    # No more are independent than there are: of nine, eight tenths of what comes are within the eighth.
    few = np.arange(1.0, 10.0).reshape(-1, 1, 1)
    assert Spread(few, 1e9).quantiles([0.1, 0.9])[:, 0] == pytest.approx([-8, 8])
    # Beyond the outermost score there is nothing to say.
    assert Spread(scores, 10).quantiles([0.999])[0, 0] == 1000
    for bad in (0.0, 1.0, 1.5):
        with pytest.raises(InvalidInputError, match="above 0 and below 1"):
            Spread(scores, 10).quantiles([bad])


def test_windows_that_overlap_are_not_independent() -> None:
    scores = np.zeros((5, 4, 9))
    assert spread_of(scores, [10, 11, 12, 13, 14]).independent == pytest.approx(2 * 72**0.5)
    assert spread_of(scores, [0, 4, 8, 12, 16]).independent == pytest.approx(5 * 72**0.5)
    assert spread_of(scores, [0, 40, 80, 120, 160]).independent == pytest.approx(5 * 72**0.5)  # one for each origin
    scores[:, :, 1:] = NAN  # series of which nothing is known do not count
    assert spread_of(scores, [0, 4, 8, 12, 16]).independent == pytest.approx(5 * 8**0.5)
    assert spread_of(np.empty((0, 4, 9)), []).independent == 0


def test_steps_with_few_errors_take_those_of_all() -> None:
    scores = np.full((40, 2, 5), NAN)
    scores[:, 0] = 1.0
    scores[:3, 1] = 2.0
    spread = Spread(scores, 40)
    assert spread.quantiles([0.8])[0].tolist() == [1.0, 1.0]
    assert len(spread.pooled(1)) == 215
    assert np.isnan(Spread(np.full((3, 1, 1), NAN), 3).quantiles([0.5])).all()


def test_paths_keep_together_what_occurred_together() -> None:
    scores = np.repeat(np.arange(10.0)[:, None, None], 3, axis=1) * np.ones(4)
    scores[:, 2, 1] = NAN
    found = Spread(scores, 10).paths(50, np.random.RandomState(0))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:, 0, 0], found[:, 1, 3])


def test_coverage_is_that_of_origins_that_were_held_out() -> None:
    scores = np.random.default_rng(0).normal(size=(60, 2, 20))
    assert Spread(scores, 2400).held_out_coverage(0.8) == pytest.approx(0.8, abs=0.03)
    assert Spread(scores, 2400).held_out_coverage(0.95) == pytest.approx(0.95, abs=0.02)
    assert np.isnan(Spread(np.empty((0, 1, 2)), 0).held_out_coverage(0.8))


def test_deviations_beside_each_other_are_as_before_and_grow_as_in_the_end() -> None:
    final = np.array([1.0, 2.0, 4.0]) * np.array([[1.0], [3.0]]) * np.ones((2, 1, 1))
    before = np.array([5.0, 20.0, 20.0]) * np.array([[1.0], [9.0]]) * np.ones((2, 1, 1))
    found = as_before(final, before)
    np.testing.assert_allclose(found[:, 0], [[1, 4, 4]] * 2)
    # Two steps ahead, the fit has seen less of an error: less of the ratio is kept.
    np.testing.assert_allclose(found[:, 1], [3 * np.array([1, 2 * 2**0.5**0.5, 4])] * 2)
    np.testing.assert_allclose(as_before(final[..., :1], before[..., :1]), final[..., :1])  # of one series alone
    # A series that had been constant is as the final fit has it, and so are all if all had been.
    np.testing.assert_allclose(as_before(final, before * [1, 0, 1])[:, 0], [[1, 2, 4]] * 2)
    np.testing.assert_allclose(as_before(final, 0 * before), final)


def test_the_deviation_that_tells_large_errors_from_small_ones() -> None:
    random = np.random.default_rng(0)
    size = np.exp(random.normal(size=(30, 2, 4)))
    errors = size * random.normal(size=size.shape)
    flat, wrong = np.ones_like(size), 1 / size
    assert likeliest_deviation(errors, {"flat": flat, "right": 7 * size, "wrong": wrong}) == "right"
    assert likeliest_deviation(errors * NAN, {"flat": flat}) == "flat"


def test_series_that_end_with_a_hole_when_the_back_test_had_none_are_diffused() -> None:
    few, often = np.zeros((2, 20, 5), bool)
    few[3, :2] = often[:, :2] = True
    seen, equal = {"last value": 1.0}, errors_of(**{"last value": noise(0), "diffusion": noise(1)})
    assert blind_shares(equal, few, seen) == {"diffusion": 1.0}
    assert blind_shares(equal, often, seen) == seen
    assert blind_shares(errors_of(**{"last value": noise(0), "diffusion": noise(1, 3.0)}), few, seen) == seen
