from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from condiff.bases import Bottleneck, Residual
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError, StepSizeError, StepSizeWarning
from condiff.graph import DenseLaplacian, Graph
from condiff.graph.batch import directed_laplacians
from condiff.model import COIN
from condiff.reproduce.datasets import covid
from condiff.training import COVID, Training
from condiff.training.panel import fit_panel
from condiff.training.panel_reference import DropoutMasks, fit_panel_reference

SNAPSHOTS, NODES, LAGS, HIDDEN = 4, 9, 4, 6
NAN = float("nan")
Panel = tuple[Tensor, DenseLaplacian, Tensor]


def task(outputs: int = 1, dtype: torch.dtype = torch.float64, *, symmetric: bool = False) -> Panel:
    """Inputs with many equal windows, a directed graph a snapshot, and targets of which most are not known."""
    random = np.random.default_rng(0)
    x = random.normal(size=(SNAPSHOTS, NODES, LAGS)) * (random.random((SNAPSHOTS, NODES, 1)) < 0.5)
    weights = random.random((SNAPSHOTS, NODES, NODES)) * (random.random((SNAPSHOTS, NODES, NODES)) < 0.4)
    weights = weights + weights.transpose(0, 2, 1) if symmetric else weights
    target = random.normal(size=(SNAPSHOTS, NODES, outputs))
    target[random.random(target.shape) < 0.6] = NAN
    return torch.as_tensor(x, dtype=dtype), directed_laplacians(list(weights), dtype), torch.as_tensor(target)


def network(seed: int = 0, outputs: int = 1, dtype: torch.dtype = torch.float64, **changes: Any) -> COIN:
    torch.manual_seed(seed)
    arguments = {"layers": 3, "strength": "auto", "activation": "elu"} | changes
    return COIN.build(LAGS, outputs, hidden_features=HIDDEN, head="identity", **arguments).to(dtype)


def distance(one: COIN, two: COIN) -> float:
    pairs = zip(one.parameters(), two.parameters(), strict=True)
    return max(float((own - other).detach().abs().max()) for own, other in pairs)


def masked_error(u: Tensor, target: Tensor) -> Tensor:
    """The loss by its definition."""
    pairs = zip(u, target, strict=True)
    return torch.stack([((own - truth)[~truth.isnan()] ** 2).mean() for own, truth in pairs]).mean()


def fit_both(panel: Panel, models: list[COIN], settings: Training, seeds: list[int] | None = None) -> float:
    """The largest difference in weights and losses between the engine, all at once, and the reference, one by one."""
    plain = [copy.deepcopy(model) for model in models]
    start = copy.deepcopy(models[0])
    found = fit_panel(models, *panel, settings=settings, seeds=seeds)
    apart = 0.0
    for position, (fast, slow) in enumerate(zip(models, plain, strict=True)):
        seed = None if seeds is None else seeds[position]
        expected = fit_panel_reference(slow, *panel, settings=settings, seed=seed)
        losses = np.abs(np.array(found[position].losses) - expected.losses).max()
        apart = max(apart, distance(fast, slow), float(losses))
        assert found[position].best_epoch == expected.best_epoch == settings.epochs - 1
        assert not fast.training
    assert distance(start, models[0]) > 0.02  # they did learn
    return apart


@pytest.mark.parametrize(
    ("outputs", "dropout", "dtype", "tolerance"),
    [
        (1, 0.0, torch.float64, 1e-10),
        (1, 0.25, torch.float64, 1e-10),
        (2, 0.25, torch.float64, 1e-10),
        (2, 0.0, torch.float32, 1e-4),
        (1, 0.25, torch.float32, 1e-4),
    ],
)
def test_it_does_what_the_plain_fit_does(outputs: int, dropout: float, dtype: torch.dtype, tolerance: float) -> None:
    models = [network(seed, outputs, dtype, dropout=dropout) for seed in range(2)]
    assert fit_both(task(outputs, dtype), models, COVID, [5, 6]) < tolerance


@pytest.mark.parametrize(
    ("settings", "activation"),
    [
        (Training("sgd", 0.02, momentum=0.9, epochs=25, milestones=(10, 20), patience=None), "tanh"),
        (Training("rmsprop", 0.01, weight_decay=0.0, epochs=25, patience=None), "relu"),
        (Training("adamax", 0.02, epochs=25, patience=None), "gelu"),
    ],
    ids=["sgd", "rmsprop", "adamax"],
)
def test_it_takes_other_settings(settings: Training, activation: str) -> None:
    models = [network(seed, dropout=0.4, activation=activation) for seed in range(2)]
    assert fit_both(task(), models, settings, [1, 2]) < 1e-10


def test_on_the_real_data_it_does_what_the_plain_fit_does(data_root: Path) -> None:
    panel = covid.load().standardised()
    windows = panel.hidden(0.9, 1).windows(covid.LAGS)
    few = slice(0, 3)
    real = (
        torch.as_tensor(windows.inputs[few]),
        directed_laplacians([panel.weights[day] for day in windows.days[few]], torch.float64),
        torch.as_tensor(windows.targets[few]),
    )
    torch.manual_seed(0)
    build = {"hidden_features": 16, "activation": "elu", "head": "identity", "layers": 10, "strength": 0.5}
    models = [COIN.build(covid.LAGS, 1, dropout=0.25, **build).double() for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        assert fit_both(real, models, dataclasses.replace(COVID, epochs=40), [0, 1]) < 1e-10


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_network_is_fitted_alone_as_in_company(dropout: float) -> None:
    panel, seeds = task(2), [11, 12, 13, 14]
    together = [network(seed, 2, dropout=dropout) for seed in seeds]
    alone = copy.deepcopy(together)
    histories = fit_panel(together, *panel, settings=COVID, seeds=seeds)
    for position in (3, 0):
        (history,) = fit_panel([alone[position]], *panel, settings=COVID, seeds=[seeds[position]])
        assert distance(alone[position], together[position]) < 1e-12
        np.testing.assert_allclose(history.losses, histories[position].losses, rtol=1e-12)


def test_the_same_seeds_give_the_same_bits_and_others_do_not() -> None:
    panel, runs = task(), [[3, 4], [3, 4], [3, 5]]
    fitted = [[network(0, dropout=0.5), network(1, dropout=0.5)] for _ in runs]
    for models, seeds in zip(fitted, runs, strict=True):
        fit_panel(models, *panel, settings=COVID, seeds=seeds)
    assert distance(fitted[0][0], fitted[1][0]) == distance(fitted[0][1], fitted[1][1]) == 0
    assert distance(fitted[0][1], fitted[2][1]) > 1e-4


@pytest.mark.parametrize("solver", ["euler", "exact", "implicit", "chebyshev"])
def test_every_solver_is_fitted_as_by_autograd_through_the_network(solver: str) -> None:
    panel = x, operator, target = task(symmetric=True)
    fast = network(solver=solver, layers=4)
    slow = copy.deepcopy(fast)
    settings = dataclasses.replace(COVID, epochs=20)
    fit_panel([fast], *panel, settings=settings)
    optimiser = settings.make_optimiser(slow.parameters())
    for _ in range(settings.epochs):
        optimiser.zero_grad()
        masked_error(slow(x, operator), target).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert distance(fast, slow) < 1e-6


def test_the_reference_drops_before_each_layer_and_scales() -> None:
    x, operator, target = task()
    model = network(dropout=0.25, strength=0.2)
    kept = DropoutMasks(0.25, 3, target, [8]).draw()[:, :, 0].mT.clone()
    with torch.no_grad():
        u = model.base(x)
        for mask in kept:
            u = u * mask / 0.75
            u = u - 0.2 * operator(u)
        expected = masked_error(u, target)
    history = fit_panel_reference(model, x, operator, target, settings=dataclasses.replace(COVID, epochs=1), seed=8)
    assert history.losses == [pytest.approx(float(expected), rel=1e-12)]


@pytest.mark.parametrize("fit", ["engine", "reference"])
def test_what_is_not_known_never_counts(fit: str) -> None:
    x, operator, target = task()
    target[2] = NAN
    use = [0, 1, 3]
    fewer = (x[use], DenseLaplacian(operator.weights[use]), target[use])
    one, two = network(dropout=0.25, strength=0.2), network(dropout=0.25, strength=0.2)
    for model, panel in ((one, (x, operator, target)), (two, fewer)):
        if fit == "engine":
            (history,) = fit_panel([model], *panel, settings=COVID, seeds=[0])
        else:
            history = fit_panel_reference(model, *panel, settings=COVID, seed=0)
        assert np.isfinite(history.losses).all()
    assert distance(one, two) == 0


def test_targets_without_an_axis_and_one_graph_for_all_snapshots_will_do() -> None:
    x, operator, target = task()
    single = DenseLaplacian(operator.weights[0])
    repeated = DenseLaplacian(operator.weights[:1].repeat(SNAPSHOTS, 1, 1))
    one, two = network(dropout=0.25), network(dropout=0.25)
    fit_panel([one], x, single, target[..., 0], settings=COVID, seeds=[0])
    fit_panel([two], x, repeated, target, settings=COVID, seeds=[0])
    assert distance(one, two) == 0


def test_a_network_without_layers_is_its_base_alone() -> None:
    models = [network(layers=0, dropout=0.5)]
    assert fit_both(task(), models, COVID) < 1e-10


def test_every_epoch_is_told_with_the_mean_loss() -> None:
    told: list[tuple[int, float]] = []
    models = [network(seed) for seed in range(3)]
    histories = fit_panel(models, *task(), settings=COVID, on_epoch=lambda epoch, loss: told.append((epoch, loss)))
    assert [epoch for epoch, _ in told] == list(range(100))
    np.testing.assert_allclose([loss for _, loss in told], np.mean([own.losses for own in histories], axis=0))
    assert told[-1][1] < 0.8 * told[0][1]
    heard: list[tuple[int, float]] = []
    fit_panel_reference(network(0), *task(), settings=COVID, on_epoch=lambda epoch, loss: heard.append((epoch, loss)))
    np.testing.assert_allclose([loss for _, loss in heard], histories[0].losses)


class TestDropoutMasks:
    LIKE = torch.empty(8, 40, 2, dtype=torch.float64)

    @pytest.mark.parametrize("probability", [0.25, 0.5, 0.9])
    def test_entries_are_dropped_as_often_as_asked_for(self, probability: float) -> None:
        masks = DropoutMasks(probability, 5, self.LIKE, [0, 1, 2])
        kept = torch.stack([masks.draw().clone() for _ in range(20)])
        assert set(kept.unique().tolist()) == {0.0, 1.0}
        error = (probability * (1 - probability) / kept.numel()) ** 0.5
        assert float(kept.mean()) == pytest.approx(1 - probability, abs=5 * error + 2**-16)
        assert masks.scale == pytest.approx(1 / (1 - probability), rel=1e-3)

    def test_epochs_layers_snapshots_networks_outputs_and_nodes_are_independent(self) -> None:
        masks = DropoutMasks(0.5, 5, self.LIKE, [0, 1, 2])
        kept = torch.stack([masks.draw().clone() for _ in range(6)])
        assert kept.shape == (6, 5, 8, 3, 2, 40)
        for axis in range(kept.ndim):
            first, second = kept.select(axis, 0), kept.select(axis, 1)
            correlation = float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])
            assert abs(correlation) < 5 / first.numel() ** 0.5

    def test_a_networks_masks_depend_on_its_seed_alone(self) -> None:
        alone, together = DropoutMasks(0.3, 5, self.LIKE, [7]), DropoutMasks(0.3, 5, self.LIKE, [1, 7, 2])
        for _ in range(3):
            assert torch.equal(alone.draw()[:, :, 0], together.draw()[:, :, 1])

    def test_a_number_of_entries_that_is_no_multiple_of_four_will_do(self) -> None:
        assert DropoutMasks(0.5, 1, torch.empty(1, 3, 1), [0]).draw().shape == (1, 1, 1, 1, 3)


@pytest.mark.parametrize("fit", ["engine", "reference"])
def test_a_step_past_the_limit_is_told_or_refused(fit: str) -> None:
    def run(model: COIN) -> None:
        if fit == "engine":
            fit_panel([model], *task(), settings=dataclasses.replace(COVID, epochs=1))
        else:
            fit_panel_reference(model, *task(), settings=dataclasses.replace(COVID, epochs=1))

    with pytest.warns(StepSizeWarning, match="past the stability limit"):
        run(network(strength=5.0))
    with pytest.raises(StepSizeError):
        run(network(strength=5.0, strict=True))


def changed(**parts: Tensor) -> tuple[Any, Any, Any]:
    x, operator, target = task()
    return parts.get("x", x), parts.get("operator", operator), parts.get("target", target)


def with_nan(tensor: Tensor, value: float = NAN) -> Tensor:
    tensor = tensor.clone()
    tensor[0, 0, 0] = value
    return tensor


UNFIT: dict[str, tuple[Callable[[], COIN], Callable[[], tuple[Any, Any, Any]], str]] = {
    "residual base": (lambda: COIN(Residual(LAGS, 1), Diffusion(2), head="identity"), task, "Bottleneck base"),
    "softmax": (lambda: COIN(Bottleneck(LAGS, 3, 1), Diffusion(2)), task, "head 'identity'"),
    "learned": (lambda: network(strength=0.1, learnable_strength=True), task, "not learned"),
    "precision": (lambda: network(dtype=torch.float32), task, "of the network's torch.float32"),
    "features": (network, lambda: changed(x=torch.zeros(SNAPSHOTS, NODES, 3).double()), r"\(snapshots, nodes, 4\)"),
    "no axis": (network, lambda: changed(x=task()[0][0]), r"\(snapshots, nodes, 4\)"),
    "holes": (network, lambda: changed(x=with_nan(task()[0])), "x has NaN"),
    "sparse": (
        network,
        lambda: changed(operator=Graph.of(np.ones((9, 9))).laplacian()),  # type: ignore[arg-type]
        "must be a DenseLaplacian .* not SparseLaplacian",
    ),
    "graphs": (network, lambda: changed(operator=DenseLaplacian(task()[1].weights[:3])), r"not \(3, 9, 9\)"),  # type: ignore[arg-type]
    "outputs": (network, lambda: changed(target=task(2)[2]), r"\(4, 9, 1\), not \(4, 9, 2\)"),
    "infinite": (network, lambda: changed(target=with_nan(task()[2], float("inf"))), "infinite"),
    "no target": (network, lambda: changed(target=torch.full((SNAPSHOTS, NODES), NAN)), "no snapshot has a known"),
    "no seed": (lambda: network(dropout=0.5), task, "give a seed for each network"),
}


@pytest.mark.parametrize("fit", ["engine", "reference"])
@pytest.mark.parametrize("case", UNFIT)
def test_what_it_would_fit_wrongly_is_refused(case: str, fit: str) -> None:
    make, panel, message = UNFIT[case]
    model = make()
    before = copy.deepcopy(model)
    with pytest.raises(InvalidInputError, match=message) as error:
        if fit == "engine":
            fit_panel([model], *panel(), settings=COVID)
        else:
            fit_panel_reference(model, *panel(), settings=COVID)
    assert "\n" not in str(error.value)
    assert distance(model, before) == 0


def test_networks_that_differ_are_refused() -> None:
    others = [network(layers=4), network(strength=0.1), network(activation="relu"), network(dropout=0.1)]
    others += [network(dtype=torch.float32), network(2, outputs=2), network(solver="exact")]
    for other in others:
        with pytest.raises(InvalidInputError, match="alike but for their weights"):
            fit_panel([network(), other], *task(), settings=COVID)
    with pytest.raises(InvalidInputError, match="no network"):
        fit_panel([], *task(), settings=COVID)
    with pytest.raises(InvalidInputError, match="2 networks but 1 seeds"):
        fit_panel([network(), network()], *task(), settings=COVID, seeds=[0])
    with pytest.raises(InvalidInputError, match="solver='euler'"):
        fit_panel_reference(network(solver="exact"), *task(), settings=COVID)
