"""The forecaster and its rolling back-test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from condiff.errors import InvalidInputError
from condiff.estimators.forecaster import Backtest, PanelForecaster, backtest, last_values, week_means
from condiff.graph import DenseLaplacian, Graph
from condiff.graph.batch import directed_laplacians
from condiff.model import COIN
from condiff.training import Problem, Training, fit

REGIONS = 10
QUICK: dict[str, Any] = {"epochs": 5, "n_inits": 1, "lags": 4}
Array = NDArray[np.float64]


def ring(n: int = REGIONS) -> Array:
    return np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)


def waves(days: int = 40, regions: int = REGIONS, missing: float = 0.0, seed: int = 0) -> Array:
    """A wave around the ring, every region at a height and with a swing of its own."""
    day, region = np.arange(days)[:, None], np.arange(regions)
    values = (100 + 10 * region) + (5 + region) * np.sin(2 * np.pi * (day / 10 - region / regions))
    hidden = np.random.default_rng(seed).random(values.shape) < missing
    return np.where(hidden, np.nan, values)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_it_foresees_a_wave_better_than_the_last_value_does(missing: float) -> None:
    truth = waves()
    past = waves(missing=missing)[:37]
    found = PanelForecaster(horizon=3, layers=1, dropout=0.0, epochs=300).fit(past, ring()).predict()
    assert found.shape == (3, REGIONS)
    last = np.array([column[~np.isnan(column)][-1] for column in past.T])
    own, naive = np.abs(found - truth[37:]).mean(), np.abs(last - truth[37:]).mean()
    assert own < (0.3 if missing == 0 else 0.7) * naive


def test_it_is_the_papers_network_on_standardised_values_of_all_days() -> None:
    values = waves(16, missing=0.3)
    model = PanelForecaster(
        level="mean", train_days=None, lags=4, n_inits=1, dropout=0.0, layers=3, strength=0.3, epochs=20, random_state=7
    ).fit(values, ring())
    mean, scale = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    np.testing.assert_allclose(model.mean_, mean)
    np.testing.assert_allclose(model.scale_, scale)
    scaled = (values - mean) / scale
    filled = np.nan_to_num(scaled)
    x = torch.from_numpy(np.stack([filled[day : day + 4].T for day in range(12)])).float()
    target = torch.from_numpy(scaled[4:]).float()
    torch.manual_seed(np.random.RandomState(7).randint(2**31 - 1))
    build: dict[str, Any] = {"hidden_features": 16, "activation": "elu", "head": "identity", "layers": 1}
    network = COIN.build(4, 1, strength=1.0, **build)
    # The exact solution of three layers is one matrix; as a layer of strength one it is I - L of these weights.
    weights = directed_laplacians([ring()], torch.float64).weights[0]
    matrix = torch.linalg.matrix_exp(-0.9 * (torch.diag(weights.sum(1)) - weights))
    step = DenseLaplacian(matrix.float(), symmetric=True)
    settings = Training("adam", 0.01, epochs=20, patience=None)
    fit(Problem(network, x, step, target, settings=settings), "reference")
    with torch.no_grad():
        u = matrix.float() @ network.base(torch.from_numpy(filled[-4:].T).float())
    expected = np.maximum(u[:, 0].numpy() * scale + mean, 0.0)
    np.testing.assert_allclose(model.predict()[0], expected, rtol=1e-4)


def test_the_recent_level_is_what_it_corrects() -> None:
    values = waves(30, missing=0.3)
    recent = PanelForecaster(**QUICK).fit(values, ring())
    for model in recent.models_:
        for parameter in model.parameters():
            parameter.data.zero_()
    scaled = (values - recent.mean_) / recent.scale_
    window = scaled[-4:]
    level = np.nansum(window, axis=0) / ((~np.isnan(window)).sum(axis=0) + 1)
    np.testing.assert_allclose(recent.predict()[0], level * recent.scale_ + recent.mean_)


def test_the_days_of_the_horizon_are_told_from_one_another() -> None:
    model = PanelForecaster(horizon=4, **QUICK).fit(waves(), ring())
    whole = model.predict()
    assert whole.shape == (4, REGIONS)
    np.testing.assert_array_equal(model.predict(2), whole[:2])
    assert np.abs(np.diff(whole, axis=0)).min() > 0
    for bad in (0, 5, 1.5):
        with pytest.raises(InvalidInputError, match=r"horizon of 1 \.\. 4 days"):
            model.predict(bad)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_bytes_and_leaves_the_global_one_alone() -> None:
    settings = {**QUICK, "n_inits": 2}
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, two, other = (
        PanelForecaster(random_state=seed, **settings).fit(waves(), ring()).predict() for seed in (1, 1, 2)
    )
    assert torch.equal(torch.rand(1), expected)
    assert one.tobytes() == two.tobytes() != other.tobytes()


def test_forecasts_of_several_networks_are_averaged() -> None:
    model = PanelForecaster(**{**QUICK, "n_inits": 3}).fit(waves(), ring())
    whole, models = model.predict(), model.models_
    single = []
    for one in models:
        model.models_ = [one]
        single.append(model.predict())
    np.testing.assert_allclose(whole, np.mean(single, axis=0), rtol=1e-6)
    assert model.losses_.shape == (3,)


def test_regions_in_another_order_have_the_same_forecasts() -> None:
    order = np.random.default_rng(1).permutation(REGIONS)
    settings = {**QUICK, "dropout": 0.0}
    one = PanelForecaster(**settings).fit(waves(missing=0.3), ring()).predict()
    moved = PanelForecaster(**settings).fit(waves(missing=0.3)[:, order], ring()[order][:, order]).predict()
    np.testing.assert_allclose(one[:, order], moved, rtol=1e-4)


GRAPHS = {
    "nested lists": lambda: ring().tolist(),
    "sparse": lambda: sp.csr_array(ring()),
    "Graph": lambda: Graph.of(ring()),
    "tensor": lambda: torch.from_numpy(ring()),
    "networkx": lambda: nx.cycle_graph(REGIONS),
    "edge list": lambda: np.array(np.nonzero(ring())),
    "one a day": lambda: [ring()] * 40,
    "one a day, sparse": lambda: tuple(sp.csr_array(ring()) for _ in range(40)),
    "one a day, Graphs": lambda: [Graph.of(ring())] * 40,
    "one a day, networkx": lambda: [nx.cycle_graph(REGIONS)] * 40,
    "one a day, nested lists": lambda: [ring().tolist()] * 40,
    "one a day, an array": lambda: np.stack([ring()] * 40),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_graphs_of_any_kind_and_one_for_all_days_or_one_a_day(kind: str) -> None:
    expected = PanelForecaster(**QUICK).fit(waves(), ring()).predict()
    found = PanelForecaster(**QUICK).fit(waves(), GRAPHS[kind]()).predict()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_day_is_diffused_over_the_graph_of_the_last_day_looked_back_on() -> None:
    # Days before 29 have no edges. Only the last snapshot to be forecast from has some, and none that is learned from.
    graphs = [0 * ring()] * 29 + [ring()]
    settings = {**QUICK, "dropout": 0.0}
    alone = PanelForecaster(**settings).fit(waves(30), 0 * ring())
    joined = PanelForecaster(**settings).fit(waves(30), graphs)
    for one, two in zip(alone.models_, joined.models_, strict=True):
        for mine, other in zip(one.parameters(), two.parameters(), strict=True):
            torch.testing.assert_close(mine, other)
    assert np.abs(alone.predict() - joined.predict()).max() > 1e-3
    np.testing.assert_allclose(alone.predict(graph=ring()), joined.predict(), rtol=1e-5)


def test_it_goes_on_from_other_days() -> None:
    model = PanelForecaster(**QUICK).fit(waves(30), ring())
    np.testing.assert_array_equal(model.predict(values=waves(30)), model.predict())
    np.testing.assert_array_equal(model.predict(values=waves(30)[-4:]), model.predict())
    assert np.abs(model.predict(values=waves(33)) - model.predict()).max() > 0.1
    # Days that are not there are missing.
    few = np.concatenate([np.full((2, REGIONS), np.nan), waves(30)[-2:]])
    np.testing.assert_array_equal(model.predict(values=waves(30)[-2:]), model.predict(values=few))
    with pytest.raises(InvalidInputError, match="fitted on 10 regions, but values have 4"):
        model.predict(values=np.ones((5, 4)))


def test_holes_of_every_kind() -> None:
    values = waves(30, missing=0.3)
    values[7] = np.nan  # a day without any value
    values[:, 2] = np.nan  # a region that is never seen
    values[:, 3] = np.nan
    values[12, 3] = 40.0  # one that is seen once
    values[:, 4] = 17.0  # one that never changes
    weights = ring()
    weights[6] = weights[:, 6] = 0.0  # one without an edge
    model = PanelForecaster(**QUICK).fit(values, weights)
    found = model.predict()[0]
    assert np.isfinite(found).all()
    assert found[4] == 17.0
    known = values[~np.isnan(values)]
    for region in (2, 3):
        assert (model.mean_[region], model.scale_[region]) == pytest.approx((known.mean(), known.std()))


def test_counts_are_never_forecast_below_zero() -> None:
    falling = np.maximum(40 - 2.0 * np.arange(22)[:, None] + np.arange(REGIONS), 0.0)
    settings = {**QUICK, "epochs": 60, "dropout": 0.0, "horizon": 6}
    assert PanelForecaster(**settings).fit(falling, ring()).predict().min() >= 0
    free = PanelForecaster(non_negative=False, **settings).fit(falling, ring()).predict()
    assert free.min() < 0
    below = PanelForecaster(**settings).fit(falling - 45, ring()).predict()
    assert below.min() < 0
    assert PanelForecaster(non_negative=True, **settings).fit(falling - 45, ring()).predict().min() == 0


@pytest.mark.parametrize(
    ("train_days", "known", "first"),
    [
        (None, [10] * 30, 0),
        (5, [10] * 30, 25),
        (50, [10] * 30, 0),
        ("auto", [10] * 30, 10),  # two hundred known values
        ("auto", [100] * 30, 16),  # at least fourteen days
        ("auto", [1] * 30, 0),
        (5, [10] * 10 + [0] * 20, 9),  # none of the last five tells anything
    ],
)
def test_how_far_back_it_learns(train_days: Any, known: list[int], first: int) -> None:
    targets = np.full((30, 100, 1), np.nan)
    for day, count in enumerate(known):
        targets[day, :count] = 1.0
    assert PanelForecaster(train_days=train_days)._first(targets) == first


def test_it_is_a_scikit_learn_estimator() -> None:
    model = PanelForecaster(horizon=3, lags=5)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(epochs=7).epochs == 7
    assert "horizon=3" in repr(model)
    with pytest.raises(NotFittedError):
        model.predict()


BAD: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "horizon": ({"horizon": 0}, waves(), ring(), "'horizon' parameter"),
    "dropout": ({"dropout": 1.0}, waves(), ring(), "'dropout' parameter"),
    "level": ({"level": "last"}, waves(), ring(), "'level' parameter"),
    "few days": ({"lags": 4}, waves(4), ring(), "need 5 days, but there are 4"),
    "one axis": ({}, np.ones(9), ring(), r"days x regions, at least one each, not of shape \(9,\)"),
    "text": ({}, [["a"] * REGIONS] * 20, ring(), "must be numbers"),
    "infinite": ({}, np.full((20, REGIONS), np.inf), ring(), "region 0 on day 0 is infinite"),
    "nothing known": ({}, np.full((20, REGIONS), np.nan), ring(), "no value is known at all"),
    "nothing to learn": (
        {"lags": 8},
        np.concatenate([waves(8), np.full((9, REGIONS), np.nan)]),
        ring(),
        "no value is known after the first 8 days",
    ),
    "graph": ({}, waves(), ring(9), "the graph joins 9 regions, but the values are of 10"),
    "a day's graph": ({}, waves(), [ring()] * 39 + [ring(9)], "graph 39 joins 9 regions"),
    "graphs": ({}, waves(), [ring()] * 7, "40 days but 7 graphs"),
    "no graph": ({}, waves(), "neighbours", "cannot read a graph|square matrix"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_it_cannot_use_is_refused_in_one_line(case: str) -> None:
    settings, values, graph, message = BAD[case]
    with pytest.raises(ValueError, match=message) as error:
        PanelForecaster(**settings).fit(values, graph)
    assert "\n" not in str(error.value)


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
