from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from condiff.errors import InvalidInputError
from condiff.reproduce.datasets.panel import Panel, split_in_time

NAN = np.nan


def panel_of(values: Any, names: tuple[str, ...] | None = None) -> Panel:
    values = np.asarray(values, dtype=np.float64)
    ring = sp.csr_array(np.roll(np.eye(values.shape[1]), 1, axis=1))
    return Panel(values, tuple((day + 1) * ring for day in range(len(values))), names)


def random_panel(days: int = 30, regions: int = 7, levels: int = 9, seed: int = 0) -> Panel:
    return panel_of(np.random.default_rng(seed).integers(0, levels, (days, regions)))


holed = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 8), st.integers(1, 4)),
    elements=st.one_of(st.just(NAN), st.sampled_from([0.0, 0.1, 0.1, 3.0, -7.5, 1e6])),
)


def test_windows_hold_the_lags_the_next_day_and_the_first_day() -> None:
    found = panel_of([[0, 10], [1, 11], [2, 12], [3, 13], [4, 14]]).windows(2)
    np.testing.assert_array_equal(found.inputs, [[[0, 1], [10, 11]], [[1, 2], [11, 12]], [[2, 3], [12, 13]]])
    np.testing.assert_array_equal(found.targets, [[2, 12], [3, 13], [4, 14]])
    np.testing.assert_array_equal(found.days, [0, 1, 2])


def test_a_longer_horizon_has_an_axis_of_its_own() -> None:
    found = panel_of([[0, 10], [1, 11], [2, 12], [3, 13]]).windows(1, horizon=2)
    np.testing.assert_array_equal(found.inputs, [[[0], [10]], [[1], [11]]])
    np.testing.assert_array_equal(found.targets, [[[1, 2], [11, 12]], [[2, 3], [12, 13]]])


def test_a_hole_is_zero_as_an_input_and_unknown_as_a_target() -> None:
    panel = panel_of([[1], [NAN], [3], [NAN]])
    found = panel.windows(2)
    np.testing.assert_array_equal(found.inputs, [[[1, 0]], [[0, 3]]])
    np.testing.assert_array_equal(found.targets, [[3], [NAN]])
    found.targets[0, 0] = found.inputs[0, 0, 0] = 9
    np.testing.assert_array_equal(panel.values, [[1], [NAN], [3], [NAN]])


@settings(deadline=None, max_examples=40)
@given(holed)
def test_standardised_regions_have_mean_zero_and_variance_one_or_are_zero(values: np.ndarray) -> None:
    found = panel_of(values).standardised().values
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
    assert not np.isinf(found).any()
    for before, after in zip(values.T, found.T, strict=True):
        known = ~np.isnan(before)
        if len(np.unique(before[known])) > 1:
            assert after[known].mean() == pytest.approx(0, abs=1e-9)
            assert after[known].std() == pytest.approx(1)
        else:
            np.testing.assert_array_equal(after[known], 0)


def test_the_causal_variant_knows_the_first_days_alone() -> None:
    panel = random_panel()
    changed = panel_of(np.concatenate([panel.values[:10], panel.values[10:] ** 3]))
    one, two = panel.standardised(10).values, changed.standardised(10).values
    np.testing.assert_array_equal(one[:10], two[:10])
    np.testing.assert_allclose(one[:10].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(one[:10].std(0), 1)
    first = panel.values[:10]
    np.testing.assert_allclose(one, (panel.values - first.mean(0)) / first.std(0))


def test_a_region_that_begins_to_change_later_is_shifted_only() -> None:
    found = panel_of([[0.1], [0.1], [0.1], [5.1]]).standardised(3).values
    np.testing.assert_array_equal(found, [[0], [0], [0], [5.1 - 0.1]])


def test_a_region_that_is_known_only_later_is_refused_by_name() -> None:
    panel = panel_of([[1, NAN, NAN], [2, NAN, NAN], [3, NAN, 4]], ("Kent", "Rutland", "Devon"))
    with pytest.raises(InvalidInputError, match=r"region 2 \(Devon\) has no known value in the first 2 days"):
        panel.standardised(2)
    np.testing.assert_array_equal(np.isnan(panel.standardised().values), np.isnan(panel.values))


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.7, 0.85, 0.93])
def test_hiding_leaves_the_rest_and_two_different_values_a_region(rate: float) -> None:
    panel = random_panel()
    for seed in range(5):
        found = panel.hidden(rate, seed)
        hole = np.isnan(found.values)
        assert hole.sum() == int(rate * panel.values.size)
        np.testing.assert_array_equal(found.values[~hole], panel.values[~hole])
        assert all(len(np.unique(column[~np.isnan(column)])) >= 2 for column in found.values.T)
        assert not np.isnan(panel.values).any()


def test_the_tightest_mask_that_exists_is_found() -> None:
    # Two of thirty values may stay in each of seven regions, and in each there is one value unlike the others.
    values = np.zeros((30, 7))
    values[np.arange(7), np.arange(7)] = 1.0
    found = panel_of(values).hidden(1 - 14 / 210 + 1e-9, 3).values
    assert (~np.isnan(found)).sum(0).tolist() == [2] * 7
    assert np.nansum(found, axis=0).tolist() == [1] * 7


def test_a_seed_gives_one_mask_and_seeds_differ() -> None:
    panel = random_panel()
    np.testing.assert_array_equal(panel.hidden(0.6, 4).values, panel.hidden(0.6, 4).values)
    assert (np.isnan(panel.hidden(0.6, 4).values) != np.isnan(panel.hidden(0.6, 5).values)).any()


def test_all_entries_are_hidden_equally_often() -> None:
    panel = random_panel(days=10, regions=4, levels=100)
    hidden = sum(np.isnan(panel.hidden(0.5, seed).values).astype(int) for seed in range(400))
    # Binomial: 200 +- 10 each; forty entries stay within four standard deviations.
    assert abs(hidden - 200).max() < 40


def test_of_a_panel_with_holes_only_what_is_known_is_hidden() -> None:
    values = random_panel().values
    values[::3] = NAN
    values[:, 2] = NAN
    values[1, 2] = 8.0  # a single value, which may go
    values[:, 4] = np.where(np.isnan(values[:, 4]), NAN, 5.0)  # a constant region, which may vanish
    found = panel_of(values).hidden(0.8, 1).values
    known = (~np.isnan(values)).sum()
    assert np.isnan(found[np.isnan(values)]).all()
    assert (~np.isnan(found)).sum() == known - int(0.8 * known)


@pytest.mark.parametrize("rate", [0.95, 0.999])
def test_more_than_can_be_hidden_is_refused(rate: float) -> None:
    with pytest.raises(InvalidInputError, match="too few for two in each of 7 regions: hide less"):
        random_panel().hidden(rate, 0)


def test_snapshots_are_cut_in_time() -> None:
    assert [part.indices(53) for part in split_in_time(53)] == [(0, 10, 1), (10, 20, 1), (20, 53, 1)]
    assert [part.indices(10) for part in split_in_time(10, (1, 1))] == [(0, 5, 1), (5, 10, 1)]


@settings(deadline=None, max_examples=40)
@given(st.integers(5, 500), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_the_parts_cover_every_snapshot_once(number: int, parts: list[int]) -> None:
    if any(number * part < sum(parts) for part in parts[:-1]):
        with pytest.raises(InvalidInputError, match="too few"):
            split_in_time(number, parts)
        return
    covered = np.concatenate([np.arange(number)[part] for part in split_in_time(number, parts)])
    np.testing.assert_array_equal(covered, np.arange(number))


def test_weights_are_kept_in_canonical_form_and_values_are_the_panels_own() -> None:
    source = np.array([[1.0, 2.0]])
    panel = Panel(source, ([[0, 1], [0, 0]],), ("a", "b"))  # type: ignore[arg-type]
    source[0, 0] = 99
    assert panel.values[0, 0] == 1
    assert isinstance(panel.weights[0], sp.csr_array)
    assert panel.weights[0].dtype == np.float64
    assert (panel.n_days, panel.n_regions) == (1, 2)


RING = sp.csr_array(np.roll(np.eye(2), 1, axis=1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Panel(np.zeros(3), (RING,) * 3), r"days x regions, at least one each, not \(3,\)"),
        (lambda: Panel(np.zeros((0, 2)), ()), "at least one each"),
        (lambda: Panel([["a", "b"]], (RING,)), "must be numbers"),
        (lambda: Panel(np.array([[0.0, np.inf]]), (RING,)), "region 1 on day 0 is infinite"),
        (lambda: Panel(np.zeros((3, 2)), (RING,) * 2), "3 days but 2 graphs"),
        (lambda: Panel(np.zeros((1, 3)), (RING,)), "day 0 joins 2 regions, but there are 3"),
        (lambda: Panel(np.zeros((2, 2)), (RING, -RING)), "the graph of day 1: weights must be finite and not neg"),
        (lambda: Panel(np.zeros((1, 2)), ("no graph",)), "the graph of day 0"),
        (lambda: Panel(np.zeros((1, 2)), (RING,), ("a",)), "2 regions but 1 names"),
        (lambda: random_panel().windows(0), "lags must be a whole number"),
        (lambda: random_panel().windows(2, horizon=1.5), "horizon must be a whole number"),
        (lambda: random_panel().windows(30), "need 31 days, but the panel has 30"),
        (lambda: random_panel().standardised(0), "days must be a whole number in 1 .. 30"),
        (lambda: random_panel().standardised(31), "days must be a whole number in 1 .. 30"),
        (lambda: random_panel().hidden(1.0, 0), "at least 0 and below 1"),
        (lambda: random_panel().hidden(NAN, 0), "at least 0 and below 1"),
        (lambda: random_panel().hidden(0.5, -1), "the seed must be a whole number"),
        (lambda: split_in_time(53, (2, 0, 6)), "positive whole numbers"),
        (lambda: split_in_time(0, (1,)), "0 snapshots are too few"),
    ],
)
def test_bad_input_is_refused_in_one_line(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
