"""What is particular to batches of graphs; the numbers are compared in test_engines.py."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.kinds import NAN, panel
from torch import Tensor

from condiff.errors import StepSizeError, StepSizeWarning
from condiff.graph import DenseLaplacian
from condiff.graph.batch import directed_laplacians
from condiff.model import COIN
from condiff.reproduce.datasets import covid
from condiff.training import COVID, Problem, fit
from condiff.training.dropout import DropoutMasks

engines = pytest.mark.parametrize("engine", ["panel", "reference"])


def network(outputs: int = 1, **changes: Any) -> COIN:
    torch.manual_seed(0)
    arguments = {"layers": 3, "strength": "auto", "activation": "elu"} | changes
    return COIN.build(4, outputs, hidden_features=6, head="identity", **arguments).double()


def problem(outputs: int = 1, *, symmetric: bool = False, seed: int = 5, **changes: Any) -> Problem:
    [first, _] = panel(outputs)(torch.float64)
    weights = first.operator.weights
    operator = DenseLaplacian((weights + weights.mT) / 2) if symmetric else first.operator
    settings = changes.pop("settings", COVID)
    return first.replace(model=network(outputs, **changes), graph=operator, seed=seed, settings=settings)


def distance(one: COIN, two: COIN) -> float:
    pairs = zip(one.parameters(), two.parameters(), strict=True)
    return max(float((own - other).detach().abs().max()) for own, other in pairs)


def masked_error(u: Tensor, target: Tensor) -> Tensor:
    """The loss by its definition: the mean over graphs of their mean squared errors."""
    pairs = zip(u, target, strict=True)
    return torch.stack([((own - truth)[~truth.isnan()] ** 2).mean() for own, truth in pairs]).mean()


def given_target(task: Problem) -> Tensor:
    target = torch.full((task.n_graphs * task.n_nodes, task.n_outputs), NAN, dtype=torch.float64)
    target[task.items.nodes] = torch.where(task.items.weight > 0, task.items.target, NAN)
    return target.view(task.n_graphs, task.n_nodes, -1)


def test_on_the_real_data_it_does_what_the_plain_fit_does(data_root: Path) -> None:
    real = covid.load().standardised()
    windows = real.hidden(0.9, 1).windows(covid.LAGS)
    few = slice(0, 3)
    operator = directed_laplacians([real.weights[day] for day in windows.days[few]], torch.float64)
    build = {"hidden_features": 16, "activation": "elu", "head": "identity", "layers": 10, "strength": 0.5}

    def made(seed: int) -> Problem:
        torch.manual_seed(seed)
        model = COIN.build(covid.LAGS, 1, dropout=0.25, **build).double()
        settings = dataclasses.replace(COVID, epochs=40)
        return Problem(model, windows.inputs[few], operator, windows.targets[few], settings=settings, seed=seed)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        first = made(0)
        fast = fit([first, first.replace(model=made(1).model, seed=1)], "panel")
        for seed, each in enumerate(fast):
            assert distance(each.model, fit(made(seed), "reference").model) < 1e-10


@pytest.mark.parametrize("solver", ["euler", "exact", "implicit", "chebyshev"])
@engines
def test_every_solver_is_fitted_as_by_autograd_through_the_network(solver: str, engine: str) -> None:
    settings = dataclasses.replace(COVID, epochs=20)
    task = problem(2, symmetric=True, solver=solver, layers=4, settings=settings)
    slow, target = copy.deepcopy(task.model), given_target(task)
    optimiser = settings.make_optimiser(slow.parameters())
    for _ in range(settings.epochs):
        optimiser.zero_grad()
        masked_error(slow(task.dense_x, task.operator), target).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert distance(fit(task, engine).model, slow) < 1e-6


@engines
def test_entries_are_dropped_before_each_layer_and_the_others_scaled(engine: str) -> None:
    task = problem(dropout=0.25, strength=0.2, seed=8, settings=dataclasses.replace(COVID, epochs=1))
    kept = DropoutMasks(0.25, 3, (4, 9, 1), [8], task.dense_x).draw()[:, :, 0].mT.clone()
    with torch.no_grad():
        u = task.model.base(task.dense_x)
        for mask in kept:
            u = u * mask / 0.75
            u = u - 0.2 * task.operator(u)
        expected = float(masked_error(u, given_target(task)))
    assert fit(task, engine).losses == [pytest.approx(expected, rel=1e-12)]


@engines
def test_graphs_without_a_known_target_never_count(engine: str) -> None:
    task = problem(dropout=0.25, strength=0.2)
    x, operator, target = task.dense_x, task.operator, given_target(task)
    target[2] = NAN
    use = [0, 1, 3]
    found = []
    for part in ((x, operator, target), (x[use], DenseLaplacian(operator.weights[use]), target[use])):
        model = network(dropout=0.25, strength=0.2)
        found.append(fit(Problem(model, *part, settings=COVID, seed=0), engine).model)
    assert distance(*found) == 0


@engines
def test_targets_without_an_axis_will_do(engine: str) -> None:
    task = problem()
    flat = Problem(network(), task.dense_x, task.operator, given_target(task)[..., 0], settings=COVID)
    assert distance(fit(flat, engine).model, fit(task, engine).model) == 0


@engines
def test_the_same_seeds_give_the_same_bits_and_others_do_not(engine: str) -> None:
    one, two, other = (fit(problem(dropout=0.5, seed=seed), engine).model for seed in (3, 3, 4))
    assert distance(one, two) == 0
    assert distance(one, other) > 1e-4


def test_a_network_without_layers_is_its_base_alone() -> None:
    fast, plain = (fit(problem(layers=0, dropout=0.5), engine) for engine in ("panel", "reference"))
    assert distance(fast.model, plain.model) < 1e-10
    assert torch.equal(fast.diffused, fast.base_outputs)


@engines
def test_a_step_past_the_limit_is_warned_of_or_refused(engine: str) -> None:
    short = dataclasses.replace(COVID, epochs=1)
    with pytest.warns(StepSizeWarning, match="past the stability limit"):
        fit(problem(strength=5.0, settings=short), engine)
    with pytest.raises(StepSizeError):
        fit(problem(strength=5.0, strict=True, settings=short), engine)
