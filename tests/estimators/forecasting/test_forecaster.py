"""The forecaster: its network alone, and the mixture of all parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from condiff import load
from condiff.errors import InvalidInputError
from condiff.estimators.forecasting import PanelForecaster
from condiff.estimators.forecasting.forecaster import fold_origins
from condiff.estimators.forecasting.network import first_snapshot
from condiff.estimators.forecasting.panel import usual_season
from condiff.graph import DenseLaplacian, Graph
from condiff.graph.batch import directed_laplacians
from condiff.model import COIN
from condiff.training import Problem, Training, fit

REGIONS = 10
#: The network alone.
QUICK: dict[str, Any] = {"epochs": 5, "n_inits": 1, "lags": 4, "parts": ["network"], "level": "recent", "folds": 2}
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
    found = (
        PanelForecaster(horizon=3, layers=1, dropout=0.0, epochs=300, parts=["network"], level="recent", folds=1)
        .fit(past, ring())
        .predict()
    )
    assert found.shape == (3, REGIONS)
    last = np.array([column[~np.isnan(column)][-1] for column in past.T])
    own, naive = np.abs(found - truth[37:]).mean(), np.abs(last - truth[37:]).mean()
    assert own < (0.3 if missing == 0 else 0.7) * naive


def test_it_is_the_papers_network_on_standardised_values_of_all_days() -> None:
    values = waves(16, missing=0.3)
    model = PanelForecaster(
        **{**QUICK, "level": "mean", "dropout": 0.0, "epochs": 20},
        train_days=None,
        layers=3,
        strength=0.3,
        random_state=7,
    ).fit(values, ring())
    mean, scale = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
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
    network = recent.parts_.network
    assert network is not None
    for model in network.models:
        for parameter in model.parameters():
            parameter.data.zero_()
    scaled = (values - network.mean) / network.scale
    window = scaled[-4:]
    level = np.nansum(window, axis=0) / ((~np.isnan(window)).sum(axis=0) + 1)
    np.testing.assert_allclose(recent.predict(values=values)[0], level * network.scale + network.mean)


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
    whole, network = model.predict(), model.parts_.network
    assert network is not None
    models, single = network.models, []
    for one in models:
        network.models = [one]
        single.append(model.predict(values=waves()))
    np.testing.assert_allclose(whole, np.mean(single, axis=0), rtol=1e-6)
    assert network.losses.shape == (3,)


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
    assert alone.parts_.network is not None and joined.parts_.network is not None
    for one, two in zip(alone.parts_.network.models, joined.parts_.network.models, strict=True):
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
    whole = PanelForecaster(horizon=2, epochs=5, n_inits=1).fit(values, weights)
    assert np.isfinite(whole.predict()).all() and (whole.predict()[:, 4] == 17.0).all()
    assert np.isfinite(whole.predict_quantiles([0.1, 0.9])).all()
    assert np.isfinite(whole.impute().values).all()


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
    assert first_snapshot(targets, train_days) == first


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
    "few days": (QUICK, waves(4), ring(), "need 5 days, but there are 4"),
    "one axis": ({}, np.ones(9), ring(), r"days x regions, at least one each, not of shape \(9,\)"),
    "text": ({}, [["a"] * REGIONS] * 20, ring(), "must be numbers"),
    "infinite": ({}, np.full((20, REGIONS), np.inf), ring(), "region 0 on day 0 is infinite"),
    "huge": ({}, np.full((20, REGIONS), 1e200), ring(), r"region 0 on day 0 is above 1e\+100: use larger units"),
    "nothing known": ({}, np.full((20, REGIONS), np.nan), ring(), "no value is known at all"),
    "nothing to learn": (
        {**QUICK, "lags": 8},
        np.concatenate([waves(8), np.full((9, REGIONS), np.nan)]),
        ring(),
        "no value is known after the first 8 days",
    ),
    "graph": ({}, waves(), ring(9), "the graph joins 9 regions, but the values are of 10"),
    "a day's graph": ({}, waves(), [ring()] * 39 + [ring(9)], "graph 39 joins 9 regions"),
    "graphs": ({}, waves(), [ring()] * 7, "40 days but 7 graphs"),
    "no graph": ({}, waves(), "neighbours", "cannot read a graph|square matrix"),
    "part": ({"parts": ["netwrok"]}, waves(), ring(), r"unknown part 'netwrok' \(did you mean 'network'"),
    "no part": ({"parts": []}, waves(), ring(), "name at least one part"),
    "season": ({"season": (7, 1)}, waves(), ring(), "a season has at least 2 steps, not 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_it_cannot_use_is_refused_in_one_line(case: str) -> None:
    settings, values, graph, message = BAD[case]
    with pytest.raises(ValueError, match=message) as error:
        PanelForecaster(**settings).fit(values, graph)
    assert "\n" not in str(error.value)


def trending(days: int = 72, series: int = 8, seed: int = 0) -> Array:
    """Months of series that grow, with a season of twelve and little noise."""
    random = np.random.default_rng(seed)
    month = np.arange(days)[:, None]
    season = 1 + 0.2 * np.sin(2 * np.pi * (month / 12 + random.uniform(0, 0.1, series)))
    return 100 * np.exp(0.01 * month * random.uniform(0.5, 1.5, series)) * season + random.normal(0, 1, (days, series))


FAST: dict[str, Any] = {"epochs": 20, "n_inits": 1}


def test_a_panel_with_trend_and_season_is_not_forecast_by_an_average() -> None:
    truth = trending()
    past = np.where(np.random.default_rng(1).random(truth.shape) < 0.15, np.nan, truth)[:-6]
    model = PanelForecaster(horizon=6, season=12, **FAST).fit(past)
    errors = {"own": np.abs(model.predict() - truth[-6:]).mean()}
    errors["last"] = np.abs(np.tile(truth[-7], (6, 1)) - truth[-6:]).mean()
    errors["season"] = np.abs(truth[-18:-12] - truth[-6:]).mean()
    assert errors["own"] < 0.3 * min(errors["last"], errors["season"])
    assert sum(model.shares_.values()) == pytest.approx(1)
    assert model.shares_in_words().startswith("the forecast is ")


def test_where_the_last_value_is_best_it_is_the_forecast_and_said_so() -> None:
    walk = np.random.default_rng(3).normal(size=(90, 6)).cumsum(axis=0)
    model = PanelForecaster(horizon=3, **FAST).fit(walk)
    assert model.shares_ == {"last value": 1.0}
    np.testing.assert_array_equal(model.predict(), np.tile(walk[-1], (3, 1)))
    assert model.shares_in_words() == "the forecast is the last value (nothing was better in the back-test)"


def test_logarithms_have_no_share_where_a_late_value_is_negative() -> None:
    values = np.exp(0.05 * np.arange(60) + np.random.default_rng(0).normal(0, 0.05, (5, 60))).T
    parts = ["last value", "smoothing"]
    assert "smoothing of logs" in PanelForecaster(horizon=2, season=None, parts=parts).fit(values).shares_
    values[-2, 0] = -1.0
    assert "smoothing of logs" not in PanelForecaster(horizon=2, season=None, parts=parts).fit(values).shares_


def test_an_error_does_not_make_its_own_expected_size_larger() -> None:
    values = np.random.default_rng(0).normal(size=(80, 5)).cumsum(axis=0)
    model = PanelForecaster(horizon=1, season=None, parts=["last value"], folds=4)
    before = model.fit(values).spread_.scores[-1, 0]
    # Five times as far at the end of one series: its last score beside those of the others is five times as large.
    values[-1, 0] = values[-2, 0] + 5 * (values[-1, 0] - values[-2, 0])
    after = model.fit(values).spread_.scores[-1, 0]
    np.testing.assert_allclose(after[0] / after[1:], 5 * before[0] / before[1:])


def test_the_past_alone_makes_the_back_test() -> None:
    values = trending()
    model = PanelForecaster(horizon=3, season=12, folds=5, parts=["last value", "smoothing"]).fit(values)
    first, last = model.backtest_.origins[0], model.backtest_.origins[-1]
    assert last == 72 - 3 and len(model.backtest_.origins) == 5
    changed = values.copy()
    changed[first + 3 :] += 1000
    again = PanelForecaster(horizon=3, season=12, folds=5, parts=["last value", "smoothing"]).fit(changed)
    for name in ("last value", "smoothing"):
        np.testing.assert_allclose(again.backtest_.forecasts[name][0], model.backtest_.forecasts[name][0])
    np.testing.assert_array_equal(model.backtest_.truth[0], values[first : first + 3])


def test_quantiles_hold_their_part_of_what_comes() -> None:
    random, held, wider = np.random.default_rng(0), [], []
    for _ in range(6):
        values = 50 + random.normal(size=(124, 12)).cumsum(axis=0) + random.normal(size=(124, 12))
        model = PanelForecaster(horizon=4, season=None, parts=["last value", "smoothing"], non_negative=False)
        low, lower, upper, high = model.fit(values[:-4]).predict_quantiles([0.025, 0.1, 0.9, 0.975])
        assert (low <= lower).all() and (lower <= upper).all() and (upper <= high).all()
        held.append((lower <= values[-4:]) & (values[-4:] <= upper))
        wider.append((upper - lower).mean(axis=1))
    assert 0.72 < np.mean(held) < 0.88
    assert (np.diff(np.mean(wider, axis=0)) > 0).all()  # the further, the wider
    futures = model.sample(50)
    assert futures.shape == (50, 4, 12)
    assert 0.6 < ((futures >= lower) & (futures <= upper)).mean() < 0.95
    np.testing.assert_array_equal(model.sample(3, random_state=1), model.sample(3, random_state=1))


def test_neighbours_tell_what_a_series_with_holes_did() -> None:
    random = np.random.default_rng(0)
    shared = random.normal(size=(80, 1)).cumsum(axis=0)
    truth = 20 + 3 * shared + random.normal(0, 0.3, (80, 10))
    known = truth[:-1].copy()
    known[-8:, 0] = np.nan  # one series is blind for the last eight days
    parts = ["last value", "diffusion"]
    alone = PanelForecaster(parts=["smoothing"], season=None).fit(known, ring(10)).predict()[0, 0]
    joint = PanelForecaster(parts=parts, season=None).fit(known, ring(10)).predict()[0, 0]
    found = PanelForecaster(parts=parts, season=None).fit(known).predict()[0, 0]  # neighbours by correlation
    near = np.abs(truth[-2, 0] - np.array([alone, joint, found]))
    assert near[1] < 0.3 * near[0] and near[2] < 0.3 * near[0]


def test_covariates_of_the_days_to_come() -> None:
    random = np.random.default_rng(0)
    holiday = (random.random(83) < 0.2).astype(float)
    values = 100 + 30 * holiday[:, None] + random.normal(size=(83, 5))
    parts = ["last value", "smoothing"]
    model = PanelForecaster(horizon=3, parts=parts, season=None).fit(values[:80], covariates=holiday)
    assert np.abs(model.predict() - 100 - 30 * holiday[80:, None]).max() < 3
    each = np.repeat(holiday[:, None, None], 5, axis=1)
    same = PanelForecaster(horizon=3, parts=parts, season=None).fit(values[:80], covariates=each)
    np.testing.assert_allclose(same.predict(), model.predict())
    for bad, message in ((holiday[:81], "for 80 days and the 3 to come"), (holiday * np.nan, "known and finite")):
        with pytest.raises(InvalidInputError, match=message):
            PanelForecaster(horizon=3).fit(values[:80], covariates=bad)
    # Another future, and other days to continue from.
    other = 1 - holiday[80:]
    assert np.abs(model.predict(covariates=other) - 100 - 30 * other[:, None]).max() < 3
    assert model.predict_quantiles([0.1], covariates=other).shape == (1, 3, 5)
    assert (
        np.abs(model.predict(values=values[:70], covariates=holiday[:73]) - 100 - 30 * holiday[70:73, None]).max() < 3
    )
    with pytest.raises(InvalidInputError, match="give covariates of the 70 days and of the 3 to come"):
        model.predict(values=values[:70])
    with pytest.raises(InvalidInputError, match="fitted with 1 covariates"):
        model.predict(covariates=np.ones((3, 2)))
    with pytest.raises(InvalidInputError, match="fitted without covariates"):
        PanelForecaster(parts=["drift"]).fit(values[:80]).predict(covariates=other)


def test_positions_find_the_nearest() -> None:
    # Ten along a line, far from ten others: by position nobody has a neighbour among the others.
    places = np.stack([np.arange(20.0) + 1000 * (np.arange(20) >= 10), np.zeros(20)], axis=1)
    values = np.random.default_rng(0).normal(size=(40, 20)).cumsum(axis=0)
    model = PanelForecaster(parts=["last value"]).fit(values, positions=places)
    assert model.graph_.weights[:10, 10:].nnz == 0 and model.graph_.weights[:10, :10].nnz > 0
    with pytest.raises(InvalidInputError, match="positions must be 20 regions x columns"):
        PanelForecaster().fit(values, positions=places[:3])


def test_warping_finds_series_that_follow_each_other() -> None:
    rising = np.random.default_rng(0).normal(size=(2, 140)).cumsum(axis=1)
    late = [np.stack([course[20 - lag : 120 - lag] for lag in (0, 3, 6)]) for course in rising]
    values = np.concatenate(late).T.copy()
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    weights = PanelForecaster(parts=["last value"], neighbours="warping").fit(values).graph_.weights.toarray()
    together = np.kron(np.eye(2), np.ones((3, 3))).astype(bool) & ~np.eye(6, dtype=bool)
    apart = ~np.kron(np.eye(2), np.ones((3, 3))).astype(bool)
    assert weights[together].min() > 2 * weights[apart].max()


def test_cross_validation_of_a_long_frame() -> None:
    days = pd.date_range("2024-01-01", periods=40, freq="D")
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)).cumsum(axis=0), days, ["a", "b", "c"])
    frame = wide.rename_axis("ds").reset_index().melt("ds", var_name="unique_id", value_name="y")
    found = PanelForecaster(horizon=2, parts=["last value"]).cross_validation(frame, n_windows=2, quantiles=(0.1, 0.9))
    table = found.frame()
    assert list(table) == ["unique_id", "ds", "cutoff", "y", "forecast", "q-0.1", "q-0.9"] and len(table) == 12
    assert (table["ds"][0], table["cutoff"][0], table["forecast"][0]) == (
        "2024-02-06",
        "2024-02-05",
        wide["a"].iloc[35],
    )


def test_static_features_find_neighbours() -> None:
    places = np.random.default_rng(0).uniform(size=(REGIONS, 2))
    model = PanelForecaster(parts=["diffusion"]).fit(waves(missing=0.3), static=places)
    assert np.isfinite(model.predict()).all()
    for bad, message in ((places[:4], "10 regions x columns"), (places * np.nan, "known and finite"), ("a", "numbers")):
        with pytest.raises(InvalidInputError, match=message):
            PanelForecaster().fit(waves(), static=bad)


def test_cross_validation_knows_nothing_of_its_windows() -> None:
    values = waves(40)
    settings: dict[str, Any] = {"horizon": 2, "parts": ["last value", "smoothing"], "folds": 4}
    found = PanelForecaster(**settings).cross_validation(values, ring(), n_windows=2, step=5)
    assert found.origins == [33, 38]
    for origin, forecast in zip(found.origins, found.forecasts, strict=True):
        np.testing.assert_array_equal(forecast, PanelForecaster(**settings).fit(values[:origin], ring()).predict())
    assert found.bands.shape == (2, 4, 2, REGIONS)
    assert 0 <= found.coverage(0.1, 0.9) <= found.coverage(0.025, 0.975) <= 1
    with pytest.raises(InvalidInputError, match="30 windows of 2 days"):
        PanelForecaster(**settings).cross_validation(values, n_windows=30)


def test_few_days_are_the_last_value_without_quantiles() -> None:
    model = PanelForecaster(horizon=2).fit(waves(3), ring())
    np.testing.assert_array_equal(model.predict(), np.tile(waves(3)[-1], (2, 1)))
    assert np.isnan(model.predict_quantiles([0.1])).all()
    assert "too few days to back-test a horizon of 2" in model.shares_in_words()
    with pytest.raises(InvalidInputError, match="too few days"):
        model.sample()


def test_horizons_too_long_to_test_are_the_last_value_with_quantiles_of_shorter_ones(tmp_path: Path) -> None:
    values = waves(14)
    model = PanelForecaster(horizon=12).fit(values, ring())
    np.testing.assert_array_equal(model.predict(), np.tile(values[-1], (12, 1)))
    assert "too few days to back-test a horizon of 12" in model.shares_in_words()
    low, high = model.predict_quantiles([0.1, 0.9])
    assert (low < values[-1]).all() and (high > values[-1]).all() and ((high - low)[-1] > (high - low)[0]).all()
    assert model.sample(3).shape == (3, 12, REGIONS)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_quantiles([0.1]), low[None])


def test_origins_are_spread_over_the_last_half() -> None:
    values = np.ones((100, 1))
    np.testing.assert_array_equal(fold_origins(values, 10, 4), [45, 60, 75, 90])
    assert fold_origins(values[:12], 2, 24).tolist() == [6, 7, 8, 9, 10]
    # No whole horizon has room after six days: parts of it, after three.
    assert fold_origins(values[:7], 2, 24).tolist() == [3, 4, 5, 6]
    assert not len(fold_origins(values[:3], 2, 24))
    late = values.copy()
    late[:80] = np.nan
    assert fold_origins(late, 10, 3).tolist() == [82, 86, 90]
    # With three quarters of the values missing, about four times as many, and never more than there is room for.
    holes = np.where(np.arange(100)[:, None] % 4 == 0, values, np.nan)
    assert len(fold_origins(holes, 10, 4)) == 17 and len(fold_origins(holes, 10, 24)) == 46
    # Of many series there are values enough.
    assert len(fold_origins(np.repeat(holes, 400, axis=1), 10, 4)) == round(1000 / 400 * 55 / 13)
    assert len(fold_origins(np.repeat(holes, 4000, axis=1), 10, 4)) == 4


def test_data_frames_long_and_wide() -> None:
    pd = pytest.importorskip("pandas")
    months = pd.date_range("2015-01-01", periods=36, freq="MS")
    wide = pd.DataFrame(trending(36, 3), index=months, columns=["a", "b", "c"])
    long = (
        wide.reset_index(names="ds").melt("ds", var_name="unique_id", value_name="y").sample(frac=0.9, random_state=0)
    )
    settings: dict[str, Any] = {"horizon": 2, "parts": ["last value", "seasonal naive", "smoothing"]}
    model = PanelForecaster(**settings).fit(wide)
    assert model.season_ == (12,)
    np.testing.assert_allclose(model.predict(), PanelForecaster(season=12, **settings).fit(wide.to_numpy()).predict())
    found = model.predict_frame([80])
    assert found.columns.tolist() == ["unique_id", "ds", "forecast", "lo-80", "hi-80"]
    assert found["ds"].tolist() == ["2018-01-01", "2018-02-01"] * 3
    np.testing.assert_allclose(found["forecast"].to_numpy().reshape(3, 2).T, model.predict())
    holed = PanelForecaster(**settings).fit(long)
    assert sorted(holed.predict_frame()["unique_id"].unique()) == ["a", "b", "c"]
    assert np.isnan(holed.backtest_.truth).any()
    with pytest.raises(ValueError, match="the data frame, line 1"):
        PanelForecaster().fit(wide.astype(str).replace(r".*", "x", regex=True))


def travelling(days: int = 120, regions: int = 8) -> Any:
    """Waves of different pace in each region, which a level and a damped trend cannot follow."""
    random = np.random.default_rng(1)
    day, region = np.arange(days)[:, None], np.arange(regions)
    return 10 * np.sin(day / (3 + region / 4)) + 5 * np.sin(day / 7 + region) + random.normal(0, 0.5, (days, regions))


def test_the_autoregression_follows_what_a_damped_trend_cannot() -> None:
    values = travelling()
    errors = {}
    for part in ("smoothing", "autoregression"):
        model = PanelForecaster(horizon=5, season=None, parts=[part]).fit(values[:-5], ring(8))
        errors[part] = np.abs(model.predict() - values[-5:]).mean()
    assert errors["autoregression"] < 0.5 * errors["smoothing"]
    mixture = PanelForecaster(horizon=5, season=None, parts=["last value", "autoregression"]).fit(values[:-5], ring(8))
    assert mixture.shares_["autoregression"] > 0.8


def test_the_autoregression_knows_only_what_was_before_and_the_neighbours_of_the_day() -> None:
    values, day_graphs = travelling(60), [ring(8)] * 60
    values[np.random.default_rng(0).random(values.shape) < 0.3] = np.nan
    settings: dict[str, Any] = {"horizon": 2, "season": None, "parts": ["autoregression"]}
    model = PanelForecaster(**settings).fit(values, ring(8))
    np.testing.assert_allclose(PanelForecaster(**settings).fit(values, day_graphs).predict(), model.predict())
    parts, origins = model.parts_, np.array([40])
    changed = np.where(np.arange(60)[:, None] >= 40, 1e3, values)
    before, after = (
        parts.forecasts(each, [Graph.of(ring(8))], origins, 2)[0]["autoregression"] for each in (values, changed)
    )
    np.testing.assert_array_equal(before, after)
    alone = PanelForecaster(**settings).fit(values, np.zeros((8, 8))).predict()
    assert np.abs(alone - model.predict()).max() > 1e-3


def test_the_autoregression_is_left_out_where_there_are_too_few_days() -> None:
    values = travelling(20, 2)
    model = PanelForecaster(horizon=2, season=None, parts=["last value", "autoregression"]).fit(values)
    assert set(model.shares_) == {"last value"} and model.parts_.regression is None
    with pytest.raises(InvalidInputError, match="needs more values"):
        PanelForecaster(horizon=2, season=None, parts=["autoregression"]).fit(values)


def test_seasons_are_found_where_they_are_more_than_chance() -> None:
    random = np.random.default_rng(0)
    assert sum(usual_season(random.normal(size=(20, 2))) > 0 for _ in range(50)) <= 5
    week = np.sin(2 * np.pi * np.arange(60) / 7)[:, None] + random.normal(0, 0.3, (60, 4))
    assert usual_season(week) == 7


def test_long_seasons_have_two_cycles_before_the_first_origin() -> None:
    values = np.ones((100, 1))
    assert fold_origins(values, 10, 3, season=(30,)).tolist() == [60, 75, 90]
    assert fold_origins(values, 10, 3, season=(60,)).tolist() == [84, 87, 90]
    model = PanelForecaster(season=(7, 28), parts=["last value"]).fit(trending(70))
    assert model.season_ == (7,)
