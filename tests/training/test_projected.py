from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from condiff.bases import Bottleneck, Residual
from condiff.diffusion import SOLVERS, Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Graph, Laplacian
from condiff.model import COIN, Head
from condiff.training import Training, projected
from condiff.training.projected import fit_projected, projected_rows, projection
from condiff.training.reference import fit

N = 30
TRAIN = torch.tensor([0, 4, 5, 11, 17, 23, 29])
OPTIMISERS = {
    "adam": Training("adam", 0.02, weight_decay=1e-3, epochs=30, patience=None),
    "sgd": Training("sgd", 0.2, momentum=0.9, weight_decay=1e-3, epochs=30, milestones=(10, 20), patience=None),
}
heads = pytest.mark.parametrize("head", ["softmax", "sigmoid", "identity"])
optimisers = pytest.mark.parametrize("optimiser", sorted(OPTIMISERS))


def operator_of(seed: int = 0) -> Laplacian:
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((N, N)) * (rng.random((N, N)) < 0.2), 1)
    return Graph.of(weights + weights.T).normalised("symmetric", self_loops="add").laplacian(torch.float64)


def features() -> Tensor:
    return torch.as_tensor(np.random.default_rng(1).normal(size=(N, 5)))


def networks(head: Head, number: int, width: int | None = 8, **settings: Any) -> list[COIN]:
    outputs = 1 if head == "sigmoid" else 3
    found = []
    for seed in range(number):
        torch.manual_seed(seed)
        diffusion = Diffusion(6, 0.3, **settings)
        found.append(COIN(Residual(5, outputs, width=width), diffusion, head=head).double())
    return found


def targets(head: Head) -> Tensor:
    rng = np.random.default_rng(2)
    if head == "identity":
        return torch.as_tensor(rng.normal(size=(N, 3)))
    return torch.as_tensor(rng.integers(0, 3 if head == "softmax" else 2, N))


def same_weights(one: COIN, two: COIN, atol: float = 1e-9) -> None:
    for (name, a), b in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


@heads
@optimisers
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("penalised", [False, True], ids=["plain", "penalised"])
def test_it_is_the_reference_fit(head: Head, optimiser: str, weighted: bool, penalised: bool) -> None:
    x, operator, target, settings = features(), operator_of(), targets(head), OPTIMISERS[optimiser]
    [model] = networks(head, 1)
    start, reference = copy.deepcopy(model), copy.deepcopy(model)
    weight = torch.linspace(0.2, 3.0, len(TRAIN), dtype=torch.float64) if weighted else None
    # A mean over the nodes, which the diffusion keeps: so it is the same before and after.
    fit(
        reference,
        x,
        operator,
        target,
        TRAIN,
        sample_weight=weight,
        penalty=(lambda u: 0.7 * (u.mean(dim=0) ** 2).sum()) if penalised else None,
        settings=settings,
    )
    fit_projected(
        [model],
        x,
        projection(model.diffusion, operator, TRAIN),
        target[TRAIN],
        (torch.ones(len(TRAIN), dtype=torch.float64) if weight is None else weight)[None],
        penalty=(lambda u: 0.7 * (u.mean(dim=1) ** 2).sum(-1)) if penalised else None,
        settings=settings,
    )
    same_weights(model, reference)
    moved = [float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), start.parameters(), strict=True)]
    assert min(moved) > 1e-3


@heads
@pytest.mark.parametrize("width", [None, 8], ids=["input's width", "wider"])
def test_several_networks_at_once_are_each_alone(head: Head, width: int | None) -> None:
    x, operator, target, settings = features(), operator_of(), targets(head), OPTIMISERS["adam"]
    together = networks(head, 3, width)
    alone = copy.deepcopy(together)
    project = projection(together[0].diffusion, operator, TRAIN)
    weight = torch.as_tensor(np.random.default_rng(3).random((3, len(TRAIN))))
    weight[1, :3] = 0  # a network that may not see some labels
    fit_projected(together, x, project, target[TRAIN], weight, settings=settings)
    for position, model in enumerate(alone):
        fit_projected([model], x, project, target[TRAIN], weight[position : position + 1], settings=settings)
        same_weights(together[position], model)


def test_labels_of_weight_zero_are_not_seen() -> None:
    x, operator, settings = features(), operator_of(), OPTIMISERS["adam"]
    one, two = networks("softmax", 1), networks("softmax", 1)
    project = projection(one[0].diffusion, operator, TRAIN)
    weight = torch.tensor([[0.0, 1, 1, 1, 1, 1, 1]], dtype=torch.float64)
    target = targets("softmax")[TRAIN]
    changed = target.clone()
    changed[0] = (target[0] + 1) % 3
    fit_projected(one, x, project, target, weight, settings=settings)
    fit_projected(two, x, project, changed, weight, settings=settings)
    same_weights(one[0], two[0], atol=0)


@pytest.mark.parametrize("head", ["softmax", "identity"])
def test_both_ways_of_projecting_agree(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    x, operator, target = features(), operator_of(), targets(head)
    rows, layers = networks(head, 2), networks(head, 2)
    weight = torch.ones(2, len(TRAIN), dtype=torch.float64)
    by_rows = projection(rows[0].diffusion, operator, TRAIN)
    monkeypatch.setattr(projected, "LARGEST_PROJECTION", 0)
    monkeypatch.setattr(projected, "projected_rows", None)  # would fail if it were called
    by_layers = projection(layers[0].diffusion, operator, TRAIN)
    u = torch.randn(2, N, 3, dtype=torch.float64)
    torch.testing.assert_close(by_rows(u), by_layers(u), rtol=0, atol=1e-12)
    fit_projected(rows, x, by_rows, target[TRAIN], weight, settings=OPTIMISERS["adam"])
    fit_projected(layers, x, by_layers, target[TRAIN], weight, settings=OPTIMISERS["adam"])
    for one, two in zip(rows, layers, strict=True):
        same_weights(one, two)


def test_projected_rows_are_rows_of_the_matrix_power() -> None:
    operator = operator_of()
    matrix = operator(torch.eye(N, dtype=torch.float64))
    power = torch.linalg.matrix_power(torch.eye(N, dtype=torch.float64) - 0.3 * matrix, 6)
    torch.testing.assert_close(projected_rows(Diffusion(6, 0.3), operator, TRAIN), power[TRAIN], rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_projected_rows_are_those_of_any_solver(solver: str) -> None:
    operator, diffusion = operator_of(), Diffusion(4, 0.3, solver=solver)
    full = diffusion(torch.eye(N, dtype=torch.float64), operator)
    rows = projected_rows(diffusion, operator, TRAIN)
    torch.testing.assert_close(rows, full[TRAIN].detach(), rtol=0, atol=1e-5)
    assert not rows.requires_grad


def test_a_directed_graph_has_no_projected_rows() -> None:
    weights = np.triu(np.random.default_rng(0).random((N, N)), 1)
    operator = Graph.of(weights).laplacian(torch.float64)
    with pytest.raises(InvalidInputError, match="symmetric"):
        projected_rows(Diffusion(2, 0.1), operator, TRAIN)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (COIN(Residual(5, 3, blocks=2), Diffusion(2, 0.3)), "one residual block without dropout"),
        (COIN(Residual(5, 3), Diffusion(2, 0.3, dropout=0.5)), "one residual block without dropout"),
        (COIN(Bottleneck(5, 4, 3), Diffusion(2, 0.3)), "one residual block without dropout"),
        (COIN(Residual(5, 3), Diffusion(2, 0.3, learnable=True)), "strength is learned"),
    ],
    ids=["two blocks", "dropout", "bottleneck", "learnable"],
)
def test_networks_that_it_would_fit_wrongly_are_refused(model: COIN, message: str) -> None:
    before = copy.deepcopy(model.state_dict())
    weight = torch.ones(1, len(TRAIN))
    with pytest.raises(InvalidInputError, match=message):
        fit_projected(
            [model],
            features().float(),
            lambda u: u[..., TRAIN, :],
            targets("softmax")[TRAIN],
            weight,
            settings=OPTIMISERS["adam"],
        )
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_every_epoch_is_told_with_a_falling_loss() -> None:
    told: list[tuple[int, float]] = []
    models = networks("softmax", 2)
    fit_projected(
        models,
        features(),
        projection(models[0].diffusion, operator_of(), TRAIN),
        targets("softmax")[TRAIN],
        torch.ones(2, len(TRAIN), dtype=torch.float64),
        settings=OPTIMISERS["adam"],
        on_epoch=lambda epoch, loss: told.append((epoch, loss)),
    )
    assert [epoch for epoch, _ in told] == list(range(30))
    assert told[-1][1] < told[0][1]
    assert not any(model.training for model in models)
