from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.bases import Bottleneck
from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Graph, kernel_graph
from condiff.graph.weights import distance_graph
from condiff.model import COIN, Head
from condiff.training import PROSTATE, History, Training
from condiff.training.genewise import fit_genewise
from condiff.training.reference import fit

N, GENES, KINDS = 40, 30, 3
TRAIN = torch.tensor([1, 4, 9, 16, 25, 36, 2, 30])
OPTIMISERS = {
    "adam": Training("adam", 0.02, weight_decay=1e-3, epochs=25, patience=None),
    "momentum": Training("sgd", 0.3, momentum=0.9, weight_decay=1e-2, epochs=25, milestones=(10, 20), patience=None),
}


def table(seed: int = 0) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(seed).random((N, GENES * KINDS)) < 0.06, dtype=np.float64)


def graph(seed: int = 0) -> Graph:
    return kernel_graph(np.random.default_rng(seed).normal(size=(N, 3)), 6, 3)


def networks(
    number: int, layers: int, dtype: torch.dtype = torch.float64, head: Head = "sigmoid", **base: Any
) -> list[COIN]:
    found = []
    for seed in range(number):
        torch.manual_seed(seed)
        outputs = 1 if head == "sigmoid" else 3
        convection = GeneWise(GENES, KINDS, **({"out_features": outputs} | base))
        found.append(COIN(convection, Diffusion(layers, 0.1), head=head).to(dtype))
    return found


def targets(head: Head = "sigmoid") -> Tensor:
    rng = np.random.default_rng(2)
    if head == "identity":
        return torch.as_tensor(rng.normal(size=(N, 3)))
    return torch.as_tensor(rng.integers(0, 2 if head == "sigmoid" else 3, N))


def plain(model: COIN, settings: Training, train: Tensor = TRAIN, seed: int = 0) -> tuple[COIN, History]:
    """A copy of the network, fitted on dense features by the readable engine."""
    reference = copy.deepcopy(model)
    x = torch.as_tensor(table().toarray(), dtype=next(model.parameters()).dtype)
    return reference, fit(reference, x, graph(seed), targets(model.head), train, settings=settings)


def same(one: COIN, two: COIN, atol: float = 1e-10) -> None:
    for (name, a), b in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("optimiser", sorted(OPTIMISERS))
@pytest.mark.parametrize("layers", [0, 5], ids=["base", "diffused"])
@pytest.mark.parametrize("shortcut", [True, False], ids=["residual", "perceptron"])
def test_it_is_the_reference_fit(layers: int, shortcut: bool, optimiser: str) -> None:
    settings = OPTIMISERS[optimiser]
    [model] = networks(1, layers, shortcut=shortcut, hidden_features=4)
    start = copy.deepcopy(model)
    reference, expected = plain(model, settings)
    [found] = fit_genewise([model], table(), graph() if layers else None, targets(), TRAIN, settings=settings)
    same(model, reference)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-10)
    assert found.best_epoch == expected.best_epoch
    assert not model.training
    moved = [float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), start.parameters(), strict=True)]
    assert min(moved) > 1e-4


@pytest.mark.parametrize("head", ["softmax", "identity"])
def test_other_heads(head: Head) -> None:
    [model] = networks(1, 5, head=head)
    reference, _ = plain(model, OPTIMISERS["adam"])
    fit_genewise([model], table(), graph(), targets(head), TRAIN, settings=OPTIMISERS["adam"])
    same(model, reference)


@pytest.mark.parametrize(
    ("layers", "dtype", "atol"), [(0, torch.float32, 1e-4), (8, torch.float64, 1e-8), (8, torch.float32, 1e-4)]
)
def test_the_paper_s_schedule_to_its_end(layers: int, dtype: torch.dtype, atol: float) -> None:
    [model] = networks(1, layers, dtype)
    reference, _ = plain(model, PROSTATE)
    [history] = fit_genewise([model], table(), graph() if layers else None, targets(), TRAIN)
    assert len(history.losses) == 300
    assert history.losses[-1] < 0.3 * history.losses[0]
    x, operator = torch.as_tensor(table().toarray(), dtype=dtype), graph().laplacian(dtype)
    torch.testing.assert_close(model(x, operator), reference(x, operator), rtol=0, atol=atol)


def test_networks_of_different_starts_patients_and_graphs_are_each_alone() -> None:
    settings = OPTIMISERS["momentum"]
    models = networks(4, 5)
    trains = torch.stack([torch.from_numpy(np.random.default_rng(seed).permutation(N)[:6]) for seed in range(4)])
    references = [plain(model, settings, trains[seed], seed) for seed, model in enumerate(models)]
    graphs = [graph(seed) for seed in range(4)]
    histories = fit_genewise(models, table(), graphs, targets(), trains, settings=settings)
    for model, history, (reference, expected) in zip(models, histories, references, strict=True):
        same(model, reference)
        np.testing.assert_allclose(history.losses, expected.losses, rtol=1e-10)


def test_networks_may_share_patients_and_graph_and_differ_in_strength() -> None:
    settings = OPTIMISERS["adam"]
    models = networks(3, 5)
    models[1].diffusion = Diffusion(5, 0.02)
    references = [plain(model, settings)[0] for model in models]
    fit_genewise(models, table(), graph(), targets(), TRAIN, settings=settings)
    for model, reference in zip(models, references, strict=True):
        same(model, reference)


def test_patients_that_the_diffusion_does_not_reach_are_not_read() -> None:
    half = np.arange(0, N, 2)  # even patients are joined, odd ones are not
    joined = distance_graph(np.abs(np.subtract.outer(np.arange(N), np.arange(N))), 6, 3, among=half)
    train = torch.tensor([0, 8, 20, 34])
    other = table().tolil()
    other[1::2] = 1.0
    one, two = networks(1, 3), networks(1, 3)
    fit_genewise(one, table(), joined, targets(), train, settings=OPTIMISERS["adam"])
    fit_genewise(two, sp.csr_array(other), joined, targets(), train, settings=OPTIMISERS["adam"])
    same(one[0], two[0], atol=0)


def test_an_input_that_no_training_patient_has_only_decays() -> None:
    [model] = networks(1, 0)
    before = model.convection.weight.detach().clone().flatten()
    absent = np.flatnonzero(table()[TRAIN.numpy()].sum(axis=0) == 0)
    assert 0 < absent.size < GENES * KINDS
    fit_genewise([model], table(), None, targets(), TRAIN)
    rates = [PROSTATE.learning_rate * 0.1 ** sum(epoch >= m for m in PROSTATE.milestones) for epoch in range(300)]
    factor = float(np.prod([1 - rate * PROSTATE.weight_decay for rate in rates]))
    after = model.convection.weight.detach().flatten()
    torch.testing.assert_close(after[absent], factor * before[absent], rtol=1e-12, atol=0)
    present = np.setdiff1d(np.arange(GENES * KINDS), absent)
    assert float((after[present] - factor * before[present]).abs().min()) > 1e-6


def test_every_epoch_is_told() -> None:
    told: list[tuple[int, float]] = []
    histories = fit_genewise(
        networks(2, 0),
        table(),
        None,
        targets(),
        TRAIN,
        settings=OPTIMISERS["adam"],
        on_epoch=lambda epoch, loss: told.append((epoch, loss)),
    )
    assert [epoch for epoch, _ in told] == list(range(25))
    np.testing.assert_allclose([loss for _, loss in told], np.mean([h.losses for h in histories], axis=0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": []}, "at least one network"),
        ({"train": TRAIN[:0]}, "one training patient"),
        ({"train": TRAIN.expand(3, -1)}, "2 networks but training patients for 3"),
        ({"models": [COIN(Bottleneck(GENES * KINDS, 3, 1), Diffusion(0), head="sigmoid")]}, "base is GeneWise"),
        ({"models": [COIN(GeneWise(GENES), Diffusion(2, 0.1, dropout=0.5))]}, "fixed diffusion without dropout"),
        ({"models": [COIN(GeneWise(GENES), Diffusion(2, 0.1, learnable=True))]}, "fixed diffusion without dropout"),
        ({"models": [*networks(1, 5), *networks(1, 5, shortcut=False)]}, "one shape"),
        ({"models": [*networks(1, 5), *networks(1, 5, torch.float32)]}, "one precision"),
        ({"x": table()[:, 1:]}, "89 columns, but the network has 30 genes"),
        ({"graph": None}, "need a graph"),
        ({"graph": [graph()]}, "a list of one for each network"),
        ({"graph": kernel_graph(np.arange(9.0)[:, None])}, "one graph of all 40 patients"),
        ({"graph": Graph.of(np.triu(np.ones((N, N))))}, "symmetric"),
    ],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], message: str) -> None:
    models = networks(2, 5)
    given = {"models": models, "x": table(), "graph": graph(), "target": targets(), "train": TRAIN} | changes
    before = copy.deepcopy(models[0].state_dict())
    with pytest.raises(InvalidInputError, match=message):
        fit_genewise(**given)
    assert all(torch.equal(before[name], value) for name, value in models[0].state_dict().items())
