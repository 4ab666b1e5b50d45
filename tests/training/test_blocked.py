import copy
import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN
from condiff.training import NODE, fit
from condiff.training.blocked import fit_blocked

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


def _network(strength=0.1, **settings):
    torch.manual_seed(3)
    return COIN.build(WIDTH, CLASSES, layers=8, strength=strength, **settings).double()


def _fit_both(task, settings, **network):
    words, graph, target, train, validation = task
    plain = _network(**network)
    fast = copy.deepcopy(plain)
    x = torch.from_numpy(words.toarray())
    operator = graph.laplacian(torch.float64)
    expected = fit(plain, x, operator, target, train, validation=validation, settings=settings)
    found = fit_blocked(
        fast, SparseMatrix.of(words, torch.float64), operator, target, train, validation, settings=settings
    )
    return plain, expected, fast, found


def test_it_does_what_the_plain_fit_does(task):
    plain, expected, fast, found = _fit_both(task, dataclasses.replace(NODE, epochs=40))
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)
    assert found.best_epoch == expected.best_epoch
    for own, other in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-9)


def test_it_stops_and_restores_as_the_plain_fit_does(task):
    settings = dataclasses.replace(NODE, patience=3, learning_rate=0.05)
    plain, expected, fast, found = _fit_both(task, settings)
    assert len(found.losses) == len(expected.losses) < settings.epochs
    assert found.best_epoch == expected.best_epoch == len(found.losses) - 1 - settings.patience
    for own, other in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-8)


def test_past_the_positivity_limit_too(task):
    _, graph, *_ = task
    limit = 1 / float(graph.laplacian(torch.float64).diagonal.max())
    with pytest.warns(UserWarning, match="positivity"):
        _, expected, _, found = _fit_both(task, dataclasses.replace(NODE, epochs=15), strength=1.1 * limit)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)


def test_sgd_with_momentum_and_milestones(task):
    settings = dataclasses.replace(NODE, optimiser="sgd", learning_rate=0.5, momentum=0.9, epochs=12, milestones=(5, 9))
    _, expected, _, found = _fit_both(task, settings)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "elu"}, "ReLU"),
        ({"hidden_features": 4}, "residual block"),
        ({"dropout": 0.1}, "dropout"),
        ({"learnable_strength": True}, "fixed diffusion"),
    ],
)
def test_what_it_cannot_do_is_refused(task, change, message):
    words, graph, target, train, validation = task
    with pytest.raises(InvalidInputError, match=message):
        fit_blocked(
            _network(**change), SparseMatrix.of(words), graph.laplacian(), target, train, validation, settings=NODE
        )


def test_a_patience_is_needed(task):
    words, graph, target, train, validation = task
    settings = dataclasses.replace(NODE, patience=None)
    with pytest.raises(InvalidInputError, match="patience"):
        fit_blocked(_network(), SparseMatrix.of(words), graph.laplacian(), target, train, validation, settings=settings)
