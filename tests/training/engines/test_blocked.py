import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN
from condiff.training import NODE, Problem, fit
from condiff.training.engines import blocked
from condiff.training.engines.blocked import CompiledBlocks, TorchBlocks

# More nodes and hidden units than one block holds, and neither a multiple of it.
N, WIDTH, CLASSES = 1500, 150, 3


@pytest.fixture(scope="module")
def task():
    """A ring of words: neighbours on the ring share words and, mostly, their class."""
    generator = np.random.default_rng(0)
    classes = np.arange(N) * CLASSES // N
    ring = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(N, N)) + sp.random_array((N, N), density=2 / N, rng=1)
    words = sp.random_array((N, WIDTH), density=0.05, rng=2, format="lil")
    words[np.arange(N), 10 * classes + generator.integers(0, 10, N)] = 1.0
    graph = Graph.of(sp.csr_array(ring + ring.T)).normalised(self_loops="add")
    chosen = torch.from_numpy(generator.permutation(N))
    return words.tocsr(), graph, torch.from_numpy(classes), chosen[:60], chosen[60:150]


@pytest.fixture(params=["compiled", "torch"])
def kind(request, monkeypatch):
    """Both ways to work on blocks."""
    if request.param == "torch":
        monkeypatch.setattr(blocked, "available", lambda: False)
    else:
        pytest.importorskip("numba")
    return request.param


def _network(strength=0.1, **settings):
    torch.manual_seed(3)
    return COIN.build(WIDTH, CLASSES, layers=8, strength=strength, **settings).double()


def _problem(task, settings, dtype=torch.float64, **network):
    words, graph, target, train, validation = task
    model = _network(**network).to(dtype)
    return Problem(model, words, graph, target, train, validation=validation, settings=settings)


def _fit_both(task, settings, **network):
    plain, fast = (fit(_problem(task, settings, **network), engine) for engine in ("reference", "blocked"))
    return plain.model, plain, fast.model, fast


def test_it_does_what_the_plain_fit_does(task, kind):
    plain, expected, fast, found = _fit_both(task, dataclasses.replace(NODE, epochs=40))
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)
    assert found.best_epoch == expected.best_epoch
    for own, other in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-9)


def test_it_stops_and_restores_as_the_plain_fit_does(task, kind):
    settings = dataclasses.replace(NODE, patience=3, learning_rate=0.05)
    plain, expected, fast, found = _fit_both(task, settings)
    assert len(found.losses) == len(expected.losses) < settings.epochs
    assert found.best_epoch == expected.best_epoch == len(found.losses) - 1 - settings.patience
    for own, other in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-8)


def test_past_the_positivity_limit_too(task, kind):
    _, graph, *_ = task
    limit = 1 / float(graph.laplacian(torch.float64).diagonal.max())
    with pytest.warns(UserWarning, match="positivity"):
        _, expected, _, found = _fit_both(task, dataclasses.replace(NODE, epochs=15), strength=1.1 * limit)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)


def test_compiled_blocks_give_the_same_bytes_on_any_number_of_threads(task):
    pytest.importorskip("numba")
    words, *_ = task
    before, fitted = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            network = CompiledBlocks(_network().float(), SparseMatrix.of(words), NODE)
            z = network.start()
            for _ in range(3):
                z = network.move(torch.sin(z.detach()))
            network.close()
            fitted.append(z.detach())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*fitted)


def test_the_weights_that_were_kept_are_given_back(task):
    pytest.importorskip("numba")
    words, *_ = task
    x = SparseMatrix.of(words)
    for steps_after in (0, 1, 4):
        model = _network().float()
        network = CompiledBlocks(model, x, NODE)
        z = network.start()
        for _ in range(3):
            z = network.move(torch.sin(z.detach()))
        network.keep()
        kept = z.detach()
        for _ in range(steps_after):
            z = network.move(torch.sin(z.detach()))
        network.give_back()
        torch.testing.assert_close(model.convection(x.to_dense()), kept.mT, rtol=1e-4, atol=1e-5)


def test_what_the_compiled_blocks_cannot_do_goes_to_torch(task):
    pytest.importorskip("numba")
    assert isinstance(blocked.blocks_of(_problem(task, NODE)), CompiledBlocks)
    momentum = dataclasses.replace(NODE, optimiser="sgd")
    assert isinstance(blocked.blocks_of(_problem(task, momentum)), TorchBlocks)
    many = COIN.build(WIDTH, 65, layers=1, strength=0.1).double()
    assert isinstance(blocked.blocks_of(_problem(task, NODE).replace(model=many)), TorchBlocks)
