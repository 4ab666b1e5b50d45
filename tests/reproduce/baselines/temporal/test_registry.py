"""What holds for every method of the registry, whatever it does."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.reproduce.baselines.temporal.conftest import REGIONS, make_problem

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.temporal import METHODS, method
from condiff.reproduce.baselines.temporal.method import TemporalMethod
from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs, TemporalProblem
from condiff.reproduce.published import methods as published_methods


def short(name: str, epochs: int = 4, **changes: Any) -> TemporalMethod:
    """The method with few epochs, if it has any, and with those of the changes that it knows."""
    made = method(name)()
    fields = {field.name for field in dataclasses.fields(made)}
    if "training" in fields:
        changes["training"] = replace(made.training, epochs=epochs)
    if "leaf" in fields:
        changes["leaf"] = 2
    return replace(made, **{key: value for key, value in changes.items() if key in fields})


def test_the_papers_methods_are_all_there() -> None:
    assert list(METHODS)[:10] == [each.name for each in published_methods("covid")]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_a_frozen_dataclass_of_plain_settings(name: str) -> None:
    kind = method(name)
    assert issubclass(kind, TemporalMethod)
    made = kind.recommended("england")
    assert made == kind() == kind.recommended("another")
    assert json.loads(json.dumps(made.settings())) == json.loads(json.dumps(dataclasses.asdict(made)))
    hash(made)
    for field in dataclasses.fields(kind)[:1]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field.name, None)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_finite_forecasts_again(name: str, loops: bool) -> None:
    # Region 5 has no edges, day 6 no values.
    problem = make_problem(loops=loops)
    first, second = short(name).solve(problem, 5), short(name).solve(problem, 5)
    assert first.predictions.shape == (8, REGIONS)
    assert first.predictions.dtype == torch.float32
    assert not first.predictions.requires_grad
    assert torch.isfinite(first.predictions).all()
    assert torch.equal(first.predictions, second.predictions)
    assert first.epochs == second.epochs in (0, 4)
    assert first.seconds >= 0


@pytest.mark.parametrize("name", METHODS)
def test_a_forecast_depends_on_the_days_before_it_alone(name: str, waves: TemporalProblem) -> None:
    # Day 15 is looked back on by snapshots from 12 on; training ends on day 8.
    history = waves.history.copy()
    history[15] = np.where(np.isnan(history[15]), 3.0, np.nan)
    changed = replace(waves, history=history)
    before, after = (short(name, period=2).solve(problem, 1).predictions for problem in (waves, changed))
    assert torch.equal(before[: 12 - 8], after[: 12 - 8])
    assert name == "All-Zero" or not torch.equal(before, after)


@pytest.mark.parametrize("name", METHODS)
def test_validation_targets_take_no_part(name: str, waves: TemporalProblem) -> None:
    targets = waves.targets.copy()
    targets[waves.validation] = 7.0
    one, two = (short(name).solve(problem, 1).predictions for problem in (waves, replace(waves, targets=targets)))
    assert torch.equal(one, two)


@pytest.mark.parametrize("name", METHODS)
def test_regions_in_another_order_have_the_same_forecasts(name: str, waves: TemporalProblem) -> None:
    order = np.random.default_rng(3).permutation(REGIONS)
    graphs = SnapshotGraphs(tuple(sp.csr_array(graph[order][:, order]) for graph in waves.graphs.weights))
    moved = replace(waves, history=waves.history[:, order], targets=waves.targets[:, order], graphs=graphs)
    # Dropout would fall on other regions.
    one, two = (short(name, 10, dropout=0.0).solve(problem, 2).predictions for problem in (waves, moved))
    torch.testing.assert_close(one[:, order], two, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "changes", "sees"),
    [
        ("MLP", {}, False),
        ("DCRNN", {}, False),
        ("DCRNN", {"filter_size": 2}, True),
        ("GConvGRU", {}, False),
        ("GConvGRU", {"filter_size": 2}, True),
        ("GCN", {}, False),
        ("GCN", {"graph": "own"}, True),
        ("MPNN-LSTM", {}, True),
        ("A3TGCN", {}, True),
        ("EvolveGCN", {}, True),
        ("COIN", {}, True),
    ],
)
def test_who_sees_the_graph_of_the_day(name: str, changes: dict[str, Any], sees: bool, waves: TemporalProblem) -> None:
    # Another graph for all tests, with which training is as before.
    other = tuple(graph if day < 8 else sp.csr_array(graph.T * 2) for day, graph in enumerate(waves.graphs.weights))
    changed = replace(waves, graphs=SnapshotGraphs(other))
    one, two = (short(name, **changes).solve(problem, 0).predictions for problem in (waves, changed))
    assert torch.equal(one, two) is not sees


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("All-Zero", "LastValue", "SeasonalNaive")])
def test_learning_helps(name: str) -> None:
    """A wave over a ring, of which nothing is hidden: better than the mean after some training."""
    days, regions = 40, 16
    values = np.sin(2 * np.pi * (np.arange(days)[:, None] - np.arange(regions)) / 16)
    if name == "RegionMean":
        values = np.tile(np.linspace(-1, 1, regions), (days, 1))
    ring = np.roll(np.eye(regions), 1, axis=1) + np.roll(np.eye(regions), -1, axis=1) + 4 * np.eye(regions)
    targets = np.where(np.arange(days - 4)[:, None] < 20, values[4:], np.nan)
    graphs = SnapshotGraphs((sp.csr_array(ring),) * (days - 4))
    parts = slice(0, 16), slice(16, 20), slice(20, 36)
    problem = TemporalProblem("ring", values[:-1], targets, graphs, 4, *parts)
    found = short(name, 150, dropout=0.0).solve(problem, 0).predictions.numpy()
    assert ((found - values[24:]) ** 2).mean() < 0.6 * (values[24:] ** 2).mean()


def test_names_are_read_in_any_case_and_unknown_ones_suggest_a_near_one() -> None:
    assert method("mpnn-lstm") is method("MPNN-LSTM")
    with pytest.raises(InvalidInputError, match=r"unknown method 'EvolveGCNH' \(did you mean 'EvolveGCN'\?\)"):
        method("EvolveGCNH")


def test_a_method_is_loaded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "Broken", ("no_such_module", "Broken"))
    assert method("GCN").__name__ == "GCN"
    with pytest.raises(ModuleNotFoundError):
        method("Broken")


BAD = [
    ("MLP", {"hidden": 0}),
    ("MLP", {"dropout": 1.0}),
    ("GCN", {"hidden": 0}),
    ("GCN", {"graph": "last"}),
    ("DCRNN", {"filter_size": 0}),
    ("GConvGRU", {"filter_size": 0}),
    ("A3TGCN", {"hidden": 0}),
    ("MPNN-LSTM", {"dropout": -0.1}),
    ("EvolveGCN", {"dropout": 1.0}),
    ("COIN", {"hidden": 0}),
    ("COIN", {"dropout": 1.0}),
    ("SeasonalNaive", {"period": 0}),
    ("GradientBoosting", {"trees": 0}),
]


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_bad_settings_are_refused(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        method(name)(**bad)
