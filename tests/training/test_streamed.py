from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from condiff.bases import Bottleneck, Residual
from condiff.diffusion import SOLVERS, Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Graph, Laplacian, steps
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN, Head
from condiff.training import Request, Training, bases, choose, engines, fit, streamed
from condiff.training import reference as plain
from condiff.training.streamed import HeldRows, Products, fit_streamed

N = 40
NODES = torch.tensor([0, 4, 5, 11, 17, 17, 23, 29])
SETTINGS = {
    "adam": Training("adam", 0.02, weight_decay=1e-3, epochs=25, patience=None),
    "sgd": Training("sgd", 0.2, momentum=0.9, weight_decay=1e-3, epochs=25, milestones=(10, 20), patience=None),
}
heads = pytest.mark.parametrize("head", ["softmax", "sigmoid", "identity"])


@pytest.fixture(autouse=True, params=["held rows", "products", "compiled products"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small batches, and each way to read the diffusion; the compiled one reorders the nodes too."""
    monkeypatch.setattr(bases, "BATCH", 7)
    if request.param != "held rows":
        monkeypatch.setattr(streamed, "HELD_SHARE", 0.0)
    if request.param == "compiled products":
        pytest.importorskip("numba", reason="numba is not installed")
        monkeypatch.setattr(steps, "COMPILED_FROM", 1)
    return str(request.param)


def operator_of(seed: int = 0) -> Laplacian:
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((N, N)) * (rng.random((N, N)) < 0.2), 1)
    return Graph.of(weights + weights.T).normalised("symmetric", self_loops="add").laplacian(torch.float64)


def features() -> Tensor:
    return torch.as_tensor(np.random.default_rng(1).normal(size=(N, 5)))


def networks(head: Head, number: int, diffusion: Diffusion | None = None, blocks: int = 1) -> list[COIN]:
    outputs = 1 if head == "sigmoid" else 3
    found = []
    for seed in range(number):
        torch.manual_seed(seed)
        base = Residual(5, outputs, width=8, blocks=blocks)
        found.append(COIN(base, diffusion or Diffusion(6, 0.3), head=head).double())
    return found


def targets(head: Head) -> Tensor:
    rng = np.random.default_rng(2)
    if head == "identity":
        return torch.as_tensor(rng.normal(size=(len(NODES), 3)))
    return torch.as_tensor(rng.integers(0, 3 if head == "softmax" else 2, len(NODES)))


def weights(number: int) -> Tensor:
    return torch.rand(number, len(NODES), generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.1


def same(one: COIN, two: COIN, atol: float = 1e-10) -> None:
    for (name, a), b in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


@heads
@pytest.mark.parametrize("optimiser", sorted(SETTINGS))
@pytest.mark.parametrize("penalised", [False, True], ids=["plain", "penalised"])
def test_several_networks_are_each_the_reference_fit(head: Head, optimiser: str, penalised: bool) -> None:
    x, operator, target, weight = features(), operator_of(), targets(head), weights(3)
    together = networks(head, 3)
    start, alone = copy.deepcopy(together), copy.deepcopy(together)
    histories, answers = fit_streamed(
        together,
        x,
        operator,
        NODES,
        target,
        weight,
        # A mean over the nodes, which the diffusion keeps: so it is the same before and after.
        penalty=(lambda u: 0.7 * (u.mean(dim=1) ** 2).sum(-1)) if penalised else None,
        settings=SETTINGS[optimiser],
    )
    for i, model in enumerate(alone):
        history = plain.fit_items(
            model,
            x,
            operator,
            NODES,
            target,
            weight[i],
            penalty=(lambda u: 0.7 * (u.mean(dim=0) ** 2).sum()) if penalised else None,
            settings=SETTINGS[optimiser],
        )
        same(together[i], model)
        np.testing.assert_allclose(histories[i].losses, history.losses, rtol=1e-9)
        assert histories[i].best_epoch == history.best_epoch
        assert not together[i].training
        with torch.no_grad():
            torch.testing.assert_close(answers[i], model(x, operator)[NODES], rtol=0, atol=1e-10)
        for after, before in zip(model.parameters(), start[i].parameters(), strict=True):
            assert float((after - before).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_every_solver_is_its_own_adjoint(solver: str) -> None:
    operator, nodes = operator_of(), NODES
    products = Products(Diffusion(4, 0.3, solver=solver), operator, nodes)
    for reading in (products, HeldRows(products)):
        u = torch.randn(N, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        g = torch.randn(len(nodes), 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        leaf = u.clone().requires_grad_()
        read = Diffusion(4, 0.3, solver=solver)(leaf, operator)[nodes]
        (expected,) = torch.autograd.grad(read, leaf, g)
        torch.testing.assert_close(reading.read(u), read.detach(), rtol=0, atol=1e-9)
        torch.testing.assert_close(reading.spread(g), expected, rtol=0, atol=1e-9)


def test_rows_are_made_once_for_an_operator_and_anew_for_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "HELD_SHARE", 1.0)
    x, operator, target, settings = features(), operator_of(), targets("softmax"), SETTINGS["adam"]
    made: list[HeldRows] = []

    class Counted(HeldRows):
        def __init__(self, products: Products) -> None:
            super().__init__(products)
            made.append(self)

    monkeypatch.setattr(streamed, "HeldRows", Counted)
    diffusion = Diffusion(6, 0.3)
    for _ in range(2):
        fit_streamed(networks("softmax", 1, diffusion), x, operator, NODES, target, weights(1), settings=settings)
    assert len(made) == 1
    fit_streamed(networks("softmax", 1, diffusion), x, operator, NODES.flip(0), target, weights(1), settings=settings)
    assert len(made) == 2
    fit_streamed(networks("softmax", 1), x, operator, NODES.flip(0), target, weights(1), settings=settings)
    assert len(made) == 3
    gone = [weakref.ref(rows) for rows in made]
    made.clear()
    del operator
    gc.collect()
    assert all(reference() is None for reference in gone)


def test_the_gradient_is_that_of_differences() -> None:
    """One step of gradient descent of rate 1 is the gradient; compared with differences of the reference's loss."""
    x, operator, target, weight = features(), operator_of(), targets("softmax"), weights(1)
    [model] = networks("softmax", 1)
    start = copy.deepcopy(model)
    settings = Training("sgd", 1.0, weight_decay=0.0, epochs=1, patience=None)
    fit_streamed([model], x, operator, NODES, target, weight, settings=settings)

    def loss(moved: COIN) -> float:
        with torch.no_grad():
            u = moved(x, operator)[NODES]
        return float(-(weight[0] / weight.sum() * u.gather(1, target[:, None])[:, 0].log()).sum())

    for name, before in start.named_parameters():
        gradient = (before - dict(model.named_parameters())[name]).detach().flatten()
        for place in (0, gradient.numel() // 2, gradient.numel() - 1):
            sides = []
            for step in (1e-5, -1e-5):
                moved = copy.deepcopy(start)
                dict(moved.named_parameters())[name].data.view(-1)[place] += step
                sides.append(loss(moved))
            assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(float(gradient[place]), abs=1e-8)


@pytest.mark.parametrize("base", ["two blocks", "bottleneck"])
def test_any_base_that_treats_nodes_by_themselves(base: str) -> None:
    x, operator, target, weight = features(), operator_of(), targets("softmax"), weights(1)
    torch.manual_seed(0)
    convection = Residual(5, 3, width=8, blocks=2) if base == "two blocks" else Bottleneck(5, 4, 3)
    model = COIN(convection, Diffusion(3, 0.3)).double()
    other = copy.deepcopy(model)
    fit_streamed([model], x, operator, NODES, target, weight, settings=SETTINGS["adam"])
    plain.fit_items(other, x, operator, NODES, target, weight[0], settings=SETTINGS["adam"])
    same(model, other)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_early_stopping_is_the_references(sparse: bool) -> None:
    x, operator = features(), operator_of()
    x = x * (x.abs() > 0.5) if sparse else x
    labels = torch.as_tensor(np.random.default_rng(5).integers(0, 3, N))
    train, validation = torch.arange(0, 12), torch.arange(12, 30)
    [model] = networks("softmax", 1)
    other = copy.deepcopy(model)
    settings = Training("adam", 0.05, weight_decay=0.0, epochs=200, patience=5)
    history = fit(
        model,
        SparseMatrix.of(x.numpy(), torch.float64) if sparse else x,
        operator,
        labels,
        train,
        validation=validation,
        settings=settings,
        engine="streamed",
    )
    expected = plain.fit(other, x, operator, labels, train, validation=validation, settings=settings)
    assert len(history.losses) == len(expected.losses) < 200
    assert history.best_epoch == expected.best_epoch
    same(model, other)


def test_it_is_chosen_where_compiled_loops_over_many_points_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    [model], [deep] = networks("softmax", 1), networks("softmax", 1, blocks=2)
    many, settings = engines.STREAMED_FROM, SETTINGS["adam"]
    monkeypatch.setattr(bases, "is_available", lambda: True)
    assert choose(model, Request(many - 1, weighs=True), settings).engine == "projected"
    assert choose(model, Request(many, weighs=True), settings).engine == "streamed"
    assert choose(model, Request(many, validates=True), settings).engine == "streamed"
    assert choose(deep, Request(many, weighs=True), settings).engine == "reference"
    monkeypatch.setattr(bases, "is_available", lambda: False)
    assert choose(model, Request(many, weighs=True), settings).engine == "projected"


def test_it_is_chosen_where_the_rows_have_no_room(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    [model] = networks("softmax", 1)
    settings = SETTINGS["adam"]
    large = engines.LARGEST_PROJECTION + 1
    assert choose(model, Request(N, row_bytes=large - 1, weighs=True), settings).engine == "projected"
    assert choose(model, Request(N, row_bytes=large, weighs=True), settings).engine == "streamed"
    assert choose(model, Request(N, row_bytes=large, validates=True), settings).engine == "streamed"
    assert choose(model, Request(N, row_bytes=large, symmetric=False), settings).engine == "reference"
    noisy = COIN(nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5)), Diffusion(2, 0.1))
    assert choose(noisy, Request(N, row_bytes=large), settings).engine == "reference"
    monkeypatch.setattr(engines, "LARGEST_PROJECTION", 1000)
    labels = torch.as_tensor(np.random.default_rng(5).integers(0, 3, N))
    fit(model, features(), operator_of(), labels, NODES[:5], settings=settings, verbose=True)
    assert "[condiff] engine streamed: the diffusion's rows at the labels would take 0.0 GB" in capsys.readouterr().out


def test_what_it_cannot_do_is_said() -> None:
    x, target, weight, settings = features(), targets("softmax"), weights(1), SETTINGS["adam"]
    directed = Graph.of(np.triu(np.ones((N, N)), 1)).laplacian(torch.float64)
    with pytest.raises(InvalidInputError, match="symmetric graph"):
        fit_streamed(networks("softmax", 1), x, directed, NODES, target, weight, settings=settings)
    dropping = networks("softmax", 1, Diffusion(2, 0.1, dropout=0.5))
    with pytest.raises(InvalidInputError, match="fixed diffusion"):
        fit_streamed(dropping, x, operator_of(), NODES, target, weight, settings=settings)
    noisy = [COIN(nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)), Diffusion(2, 0.1)).double()]
    with pytest.raises(InvalidInputError, match="every node by itself"):
        fit_streamed(noisy, x, operator_of(), NODES, target, weight, settings=settings)
    stopping = Training("adam", 0.02, epochs=3, patience=2)
    with pytest.raises(InvalidInputError, match="one network at a time"):
        fit_streamed(
            networks("softmax", 2),
            x,
            operator_of(),
            NODES,
            target,
            weights(2),
            validation=(NODES, target),
            settings=stopping,
        )
