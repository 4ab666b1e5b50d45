from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from torch import Tensor
from torch.nn import functional as F

from condiff.graph import Graph, kernel_graph
from condiff.model import COIN
from condiff.training import FEW_SHOT, EarlyStopping, Fitted, Problem, Training
from condiff.training import fit as fit_problem

N, CLASSES = 40, 3
SHORT = Training("adam", 0.05, epochs=12, patience=None)
TRAIN, VALIDATION = torch.tensor([0, 1, 2, 3, 4, 5]), torch.tensor([6, 7, 8, 9, 10, 11])


def fit(*arguments: Any, on_epoch: Any = None, **settings: Any) -> Fitted:
    return fit_problem(Problem(*arguments, **settings), "reference", on_epoch=on_epoch)


def task(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Graph, Tensor]:
    """Three clouds of points, their graph, and the cloud of every point; classes alternate along the points."""
    random = np.random.default_rng(0)
    target = np.arange(N) % CLASSES
    points = random.normal(size=(N, 4)) + 2 * np.eye(CLASSES, 4)[target]
    return torch.as_tensor(points, dtype=dtype), kernel_graph(points, 8, 4), torch.as_tensor(target)


def network(dtype: torch.dtype = torch.float32, outputs: int = CLASSES, **changes: Any) -> COIN:
    torch.manual_seed(0)
    return COIN.build(4, outputs, **({"layers": 5} | changes)).to(dtype)


def same(a: COIN, b: COIN) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_same_seed_gives_bit_identical_weights() -> None:
    x, graph, target = task()
    first, second = network(dropout=0.3), network(dropout=0.3)
    histories = []
    for model in (first, second):
        torch.manual_seed(4)
        histories.append(
            fit(model, x, graph, target, TRAIN, validation=VALIDATION, settings=replace(SHORT, patience=5))
        )
    assert same(first, second) and histories[0].losses == histories[1].losses
    other = network(dropout=0.3)
    torch.manual_seed(5)
    fit(other, x, graph, target, TRAIN, validation=VALIDATION, settings=replace(SHORT, patience=5))
    assert not same(first, other)


def plain_loop(
    model: COIN, x: Tensor, matrix: Tensor, target: Tensor, optimiser: torch.optim.Optimizer, rates: list[float]
) -> list[float]:
    """Training written out: formula of the network, one learning rate an epoch, no help from the library."""
    parameters, losses = dict(model.convection.named_parameters()), []
    for rate in rates:
        optimiser.param_groups[0]["lr"] = rate
        hidden = x + torch.relu(F.linear(x, parameters["blocks.0.weight"], parameters["blocks.0.bias"]))
        u = torch.softmax(F.linear(hidden, parameters["readout.weight"], parameters["readout.bias"]), -1)
        for _ in range(5):
            u = u - 0.3 * (matrix @ u)
        loss = F.nll_loss(u[TRAIN].log(), target[TRAIN])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_three_epochs_equal_a_loop_written_by_hand(optimiser: Any) -> None:
    x, graph, target = task(torch.float64)
    weights = torch.as_tensor(graph.weights.toarray())
    matrix = torch.diag(weights.sum(1)) - weights
    momentum = 0.9 if optimiser == "sgd" else 0.0
    settings = Training(optimiser, 0.1, momentum, weight_decay=0.01, epochs=3, milestones=(1, 2), patience=None)
    fitted, by_hand = network(torch.float64, strength=0.3), network(torch.float64, strength=0.3)
    history = fit(fitted, x, graph, target, TRAIN, settings=settings)
    made = (
        torch.optim.Adam(by_hand.parameters(), weight_decay=0.01)
        if optimiser == "adam"
        else torch.optim.SGD(by_hand.parameters(), momentum=0.9, weight_decay=0.01)
    )
    losses = plain_loop(by_hand, x, matrix, target, made, [0.1, 0.01, 0.001])
    assert history.losses == pytest.approx(losses, rel=1e-12)
    assert history.best_epoch == 2
    for name, value in by_hand.named_parameters():
        torch.testing.assert_close(fitted.get_parameter(name), value, rtol=0, atol=1e-12)


def test_two_moons_are_learned_from_two_labels_a_class() -> None:
    points, classes = make_moons(120, noise=0.05, random_state=0)
    x, target = torch.as_tensor(points, dtype=torch.float32), torch.as_tensor(classes)
    train = torch.cat([torch.nonzero(target == c)[:2, 0] for c in (0, 1)])
    operator = kernel_graph(points, 12, 4).laplacian()
    accuracy = {}
    for layers in (0, 150):
        torch.manual_seed(0)
        model = COIN.build(2, 2, hidden_features=16, layers=layers)
        fit(model, x, operator, target, train, settings=Training("adam", 0.05, epochs=60, patience=None))
        accuracy[layers] = float((model(x, operator).argmax(1) == target).double().mean())
    assert accuracy[150] > 0.98
    assert accuracy[0] < 0.88


@pytest.mark.parametrize("garbage", [-(10**9), 10**9])
def test_targets_elsewhere_are_never_read(garbage: int) -> None:
    x, graph, target = task()
    clean, spoilt = network(), network()
    dirty = torch.full_like(target, garbage)
    known = torch.cat([TRAIN, VALIDATION])
    dirty[known] = target[known]
    settings = replace(SHORT, patience=5)
    expected = fit(clean, x, graph, target, TRAIN, validation=VALIDATION, settings=settings)
    found = fit(spoilt, x, graph, dirty, TRAIN, validation=VALIDATION, settings=settings)
    assert (found.losses, found.best_epoch) == (expected.losses, expected.best_epoch)
    assert same(clean, spoilt)


def test_values_elsewhere_may_be_missing() -> None:
    x, graph, _ = task()
    values = torch.full((N,), math.nan)
    values[TRAIN], values[VALIDATION] = 1.0, 2.0
    model = network(outputs=1, head="identity")
    history = fit(model, x, graph, values, TRAIN, validation=VALIDATION, settings=replace(SHORT, patience=5))
    assert all(map(math.isfinite, history.losses)) and torch.isfinite(model(x, graph)).all()


def test_validation_does_not_reach_the_weights() -> None:
    x, graph, target = task()
    watched, alone = network(), network()
    patient = replace(SHORT, patience=100)
    history = fit(watched, x, graph, target, TRAIN, validation=VALIDATION, settings=patient)
    fit(alone, x, graph, target, TRAIN, settings=replace(SHORT, epochs=history.best_epoch + 1))
    assert same(watched, alone)


def test_early_stopping_restores_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, graph, target = task()
    # Validation labels that contradict training: its loss soon only rises.
    wrong = target.clone()
    wrong[VALIDATION] = (target[VALIDATION] + 1) % CLASSES
    seen: list[tuple[float, float, dict[str, Tensor]]] = []
    asked = EarlyStopping.should_stop
    model = network()

    def recorded(self: EarlyStopping, epoch: int, loss: float, score: float) -> bool:
        assert epoch == len(seen) and not model.training
        u = model(x, graph)[VALIDATION]
        assert loss == pytest.approx(F.nll_loss(u.log(), wrong[VALIDATION]).item(), rel=1e-5)
        assert score == pytest.approx((u.argmax(1) == wrong[VALIDATION]).double().mean().item())
        seen.append((loss, score, copy.deepcopy(model.state_dict())))
        return asked(self, epoch, loss, score)

    monkeypatch.setattr(EarlyStopping, "should_stop", recorded)
    history = fit(
        model, x, graph, wrong, TRAIN, validation=VALIDATION, settings=Training("adam", 0.05, epochs=500, patience=7)
    )
    progress = [
        e
        for e, (loss, score, _) in enumerate(seen)
        if all(loss < s[0] for s in seen[:e]) or all(score > s[1] for s in seen[:e])
    ]
    assert history.best_epoch == progress[-1]
    assert len(history.losses) == len(seen) == history.best_epoch + 7 + 1 < 500
    kept = model.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in seen[history.best_epoch][2].items())
    assert not all(torch.equal(kept[name], value) for name, value in seen[-1][2].items())


def test_without_patience_or_validation_every_epoch_runs() -> None:
    x, graph, target = task()
    for validation, patience in ((None, 1), (VALIDATION, None)):
        settings = replace(SHORT, patience=patience)
        history = fit(network(), x, graph, target, TRAIN, validation=validation, settings=settings)
        assert len(history.losses) == SHORT.epochs and history.best_epoch == SHORT.epochs - 1


def test_sample_weight_of_zero_leaves_the_point_out() -> None:
    x, graph, target = task(torch.float64)
    weighted, without, plain = network(torch.float64), network(torch.float64), network(torch.float64)
    weight = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    fit(weighted, x, graph, target, TRAIN, sample_weight=weight, settings=SHORT)
    fit(without, x, graph, target, TRAIN[weight > 0], settings=SHORT)
    fit(plain, x, graph, target, TRAIN, settings=SHORT)
    for name, value in without.named_parameters():
        torch.testing.assert_close(weighted.get_parameter(name), value, rtol=0, atol=1e-10)
    assert not torch.allclose(plain.convection.readout.weight, weighted.convection.readout.weight, atol=1e-4)


def test_only_the_ratio_of_sample_weights_counts_and_two_is_twice_the_point() -> None:
    x, graph, target = task(torch.float64)
    weight = torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    models = [network(torch.float64) for _ in range(3)]
    fit(models[0], x, graph, target, TRAIN, sample_weight=weight, settings=SHORT)
    fit(models[1], x, graph, target, TRAIN, sample_weight=10 * weight, settings=SHORT)
    fit(models[2], x, graph, target, torch.cat([TRAIN[:1], TRAIN]), settings=SHORT)
    for other in models[1:]:
        for name, value in models[0].named_parameters():
            torch.testing.assert_close(other.get_parameter(name), value, rtol=0, atol=1e-10)


def test_penalty_of_the_output_of_all_nodes_is_added() -> None:
    x, graph, target = task(torch.float64)
    seen: list[Tensor] = []

    def penalty(u: Tensor) -> Tensor:
        seen.append(u.detach())
        return 3.0 * u[20:, 0].mean()  # nodes without labels

    start = network(torch.float64)
    free, held = copy.deepcopy(start), copy.deepcopy(start)
    losses = fit(free, x, graph, target, TRAIN, settings=SHORT).losses
    penalised = fit(held, x, graph, target, TRAIN, penalty=penalty, settings=SHORT).losses
    assert len(seen) == SHORT.epochs and seen[0].shape == (N, CLASSES)
    assert penalised[0] == pytest.approx(losses[0] + 3 * start(x, graph)[20:, 0].mean().item(), rel=1e-9)
    assert held(x, graph)[20:, 0].mean() < free(x, graph)[20:, 0].mean() - 0.01


def test_every_epoch_is_announced_with_its_loss() -> None:
    x, graph, target = task()
    told: list[tuple[int, float]] = []
    settings = replace(SHORT, epochs=4)
    history = fit(
        network(), x, graph, target, TRAIN, settings=settings, on_epoch=lambda epoch, loss: told.append((epoch, loss))
    )
    assert told == list(enumerate(history.losses)) and len(told) == 4
    assert history.losses[-1] < history.losses[0]


@pytest.mark.parametrize("shape", [(N,), (N, 1)], ids=["flat", "column"])
def test_regression_fits_a_smooth_function(shape: tuple[int, ...]) -> None:
    x, graph, _ = task()
    values = (x[:, 0] - 0.5 * x[:, 1] + 2).reshape(shape)
    model = network(outputs=1, head="identity", layers=1, strength=0.05)
    train = torch.arange(0, N, 2)
    history = fit(model, x, graph, values, train, settings=Training("adam", 0.05, 0, 0, epochs=200, patience=None))
    hidden = torch.arange(1, N, 2)
    error = (model(x, graph)[hidden, 0] - values.reshape(N)[hidden]).square().mean()
    assert history.losses[-1] < 0.05 * history.losses[0]
    assert error < 0.2 * values[hidden].var()


def test_binary_head_fits() -> None:
    x, graph, target = task()
    binary = (target == 0).float()
    model = network(outputs=1, head="sigmoid", hidden_features=6)
    fit(model, x, graph, binary, torch.arange(12), settings=replace(SHORT, epochs=60))
    assert ((model(x, graph)[:, 0] > 0.5) == (binary > 0.5)).double().mean() > 0.85


@pytest.mark.parametrize("mask", [False, True])
def test_few_shot_settings_run_with_indices_or_a_mask(mask: bool) -> None:
    x, graph, target = task()
    train: Tensor = torch.isin(torch.arange(N), TRAIN) if mask else TRAIN
    model = network()
    history = fit(model, x, graph, target, train, settings=FEW_SHOT)
    assert len(history.losses) == 100
    assert (model(x, graph).argmax(1) == target).double().mean() > 0.8


def test_model_is_left_ready_to_predict() -> None:
    x, graph, target = task()
    model = network(dropout=0.5)
    fit(model, x, graph, target, TRAIN, settings=replace(SHORT, epochs=2))
    assert not model.training
    assert torch.equal(model(x, graph), model(x, graph))


def test_learnable_strength_is_trained_along() -> None:
    x, graph, target = task()
    model = network(strength=0.1, learnable_strength=True)
    before = model.diffusion.log_strength.detach().clone()
    fit(model, x, graph, target, TRAIN, settings=replace(SHORT, epochs=3))
    assert (model.diffusion.log_strength - before).abs() > 1e-3
