"""Which engine is chosen, and that each of them gives the reference's answer."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN
from condiff.training import FEW_SHOT, NODE, PROSTATE, Request, Training, choose, fit

N, FEATURES, CLASSES = 40, 60, 3
LABELS = torch.arange(N) % CLASSES
TRAIN, VALIDATION = torch.arange(9), torch.arange(9, 18)


@pytest.fixture(scope="module")
def graph() -> Graph:
    near = sp.diags_array([1.0, 1.0], offsets=[3, -3], shape=(N, N))
    return Graph.of(sp.csr_array(near)).normalised(self_loops="add")


def features() -> torch.Tensor:
    rng = np.random.default_rng(0)
    x = (rng.random((N, FEATURES)) < 0.2) * 1.0
    x[np.arange(N), LABELS.numpy()] = 2.0
    return torch.from_numpy(x)


def network(**settings: object) -> COIN:
    torch.manual_seed(2)
    return COIN.build(FEATURES, CLASSES, layers=4, strength=0.2, **settings).double()  # type: ignore[arg-type]


def genewise() -> COIN:
    torch.manual_seed(2)
    return COIN(GeneWise(FEATURES // 3, 3), Diffusion(4, 0.2), head="sigmoid").double()


SGD = replace(FEW_SHOT, epochs=20)
ADAM = Training("adam", 0.01, epochs=20, patience=None)
CHOICES = [
    ("blocked", network(), Request(N, sparse=True, validates=True), NODE),
    ("reference", network(), Request(N, validates=True), NODE),
    ("reference", network(), Request(N, sparse=True, validates=True, weighs=True), NODE),
    ("reference", network(activation="elu"), Request(N, sparse=True, validates=True), NODE),
    ("projected", network(), Request(N), ADAM),
    ("projected", network(), Request(N, sparse=True), ADAM),
    ("gram", network(), Request(N), SGD),
    ("projected", network(), Request(N, weighs=True), SGD),
    ("projected", network(), Request(FEATURES), SGD),
    ("projected", network(head="sigmoid"), Request(N), SGD),
    ("reference", network(), Request(N, symmetric=False), SGD),
    ("reference", network(dropout=0.1), Request(N), SGD),
    ("reference", network(learnable_strength=True), Request(N), SGD),
    ("reference", network(hidden_features=8), Request(N), SGD),
    ("genewise", genewise(), Request(N, sparse=True), PROSTATE),
    ("reference", genewise(), Request(N, sparse=True, validates=True), PROSTATE),
]


@pytest.mark.parametrize(("engine", "model", "request_", "settings"), CHOICES)
def test_the_choice(engine: str, model: COIN, request_: Request, settings: Training) -> None:
    choice = choose(model, request_, settings)
    assert choice.engine == engine and choice.why and str(choice).startswith(f"engine {engine}: ")


@pytest.mark.parametrize("form", ["dense", "scipy", "SparseMatrix"])
@pytest.mark.parametrize(
    ("settings", "validation", "engine"),
    [
        (replace(NODE, epochs=25), VALIDATION, None),
        (ADAM, None, "projected"),
        (SGD, None, "gram"),
        (replace(NODE, patience=None, epochs=5), VALIDATION, "projected"),
    ],
)
def test_every_engine_gives_the_references_answer(
    form: str,
    settings: Training,
    validation: torch.Tensor | None,
    engine: str | None,
    graph: Graph,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dense = features()
    forms = {"dense": dense, "scipy": sp.csr_array(dense), "SparseMatrix": SparseMatrix.of(dense, torch.float64)}
    plain = network()
    fast = copy.deepcopy(plain)
    arguments = (graph, LABELS, TRAIN)
    expected = fit(plain, dense, *arguments, validation=validation, settings=settings, engine="reference")
    found = fit(fast, forms[form], *arguments, validation=validation, settings=settings, verbose=True)
    said = engine or ("reference" if form == "dense" else "blocked")
    assert f"[condiff] engine {said}: " in capsys.readouterr().out
    assert found.best_epoch == expected.best_epoch
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-8)
    torch.testing.assert_close(fast(dense, graph), plain(dense, graph), rtol=0, atol=1e-8)
    assert not fast.training


def test_weighted_labels(graph: Graph) -> None:
    plain, weight = network(), torch.linspace(0.1, 2, len(TRAIN), dtype=torch.float64)
    fast = copy.deepcopy(plain)
    for model, engine in ((plain, "reference"), (fast, "auto")):
        fit(model, features(), graph, LABELS, TRAIN, sample_weight=weight, settings=ADAM, engine=engine)  # type: ignore[arg-type]
    torch.testing.assert_close(fast(features(), graph), plain(features(), graph), rtol=0, atol=1e-8)


def test_gene_wise_networks(graph: Graph) -> None:
    plain, target = genewise(), (LABELS > 0).double()
    fast, settings = copy.deepcopy(plain), replace(PROSTATE, epochs=30, milestones=(10, 20))
    fit(plain, features(), graph, target, TRAIN, settings=settings, engine="reference")
    fit(fast, features(), graph, target, TRAIN, settings=settings)
    torch.testing.assert_close(fast(features(), graph), plain(features(), graph), rtol=0, atol=1e-8)


def test_large_dense_features_of_mostly_zeros_count_as_sparse(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("condiff.training.engines._WORTH_A_LOOK", 1)
    monkeypatch.setattr("condiff.training.engines._SPARSE", 0.5)
    arguments = {"validation": VALIDATION, "settings": replace(NODE, epochs=2), "verbose": True}
    fit(network(), features(), graph, LABELS, TRAIN, **arguments)  # type: ignore[arg-type]
    assert "engine blocked" in capsys.readouterr().out


def test_progress_is_told_by_every_engine(graph: Graph) -> None:
    for engine, settings in (("projected", ADAM), ("gram", SGD), ("reference", SGD)):
        told: list[int] = []
        fit(
            network(), features(), graph, LABELS, TRAIN, settings=settings, engine=engine,  # type: ignore[arg-type]
            on_epoch=lambda epoch, loss, told=told: told.append(epoch),  # type: ignore[misc]
        )  # fmt: skip
        assert told == list(range(20))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "quantum"}, "unknown engine 'quantum'"),
        ({"engine": "gram", "validation": VALIDATION, "settings": NODE}, "no early stopping"),
        ({"engine": "gram", "settings": SGD, "sample_weight": torch.ones(9)}, "no sample weights"),
        ({"engine": "blocked", "settings": NODE}, "needs validation nodes"),
        ({"settings": ADAM, "sample_weight": torch.ones(3)}, "9 training nodes"),
    ],
)
def test_bad_requests(arguments: dict[str, object], message: str, graph: Graph) -> None:
    with pytest.raises(InvalidInputError, match=message):
        fit(network(), features(), graph, LABELS, TRAIN, **arguments)  # type: ignore[arg-type]
