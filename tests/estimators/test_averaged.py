"""Linear bases on a given graph: gradients, agreement with the reference engine, what is chosen, saving, new nodes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.estimators.problems import hide
from torch import nn

from condiff import COIN, COINClassifier, Diffusion, Graph, load
from condiff.errors import ChanceWarning
from condiff.estimators.averaged import _EPOCHS, _RATE, GivenGraph, Reading, _Linear
from condiff.estimators.domain import Domain
from condiff.estimators.inputs import Items, Nodes, fingerprints
from condiff.training import Problem, Training, fit


def communities(
    n: int = 240,
    classes: int = 3,
    noise: float = 2.0,
    columns: int = 6,
    seed: int = 0,
    edges: tuple[float, float] = (0.08, 0.006),
) -> tuple[np.ndarray, sp.csr_array, np.ndarray]:
    """Columns, edges (their chances within a class and between classes), and the classes."""
    chance = np.random.default_rng(seed)
    truth = np.arange(n) % classes
    joined = np.triu(chance.random((n, n)) < np.where(truth[:, None] == truth, *edges), 1)
    centres = chance.normal(size=(classes, columns))
    X = centres[truth] + noise * chance.normal(size=(n, columns))
    return X, sp.csr_array((joined | joined.T).astype(float)), truth


def given_graph(X: np.ndarray, adjacency: sp.csr_array, truth: np.ndarray, labelled: np.ndarray) -> GivenGraph:
    points = X.astype(float)
    nodes = Nodes(points, np.arange(len(X)), fingerprints(points))
    domain = Domain.of_graph(nodes, adjacency, scaling="auto", width=64, purpose="a test", extensible=True)
    items = Items(labelled, truth[labelled], np.ones(len(labelled)))
    held_out = np.arange(len(labelled)) % 3 == np.arange(3)[:, None]

    def losses(answers: Any, item: Any) -> Any:
        return -np.log(answers[np.arange(len(item)), items.targets[item]])

    operator = domain.graph.laplacian(torch.float32)
    return GivenGraph(
        domain, operator, items, held_out, 3, None, losses, 5e-4, "auto", lambda layers: Diffusion(layers, 0.3)
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("hops", [0, 2])
def test_values_and_adjoint_are_each_others(form: Any, hops: int) -> None:
    X, adjacency, _ = communities(60)
    walk = Graph.of(adjacency).normalised("random_walk", self_loops="add").weights
    reading = Reading.of(form(np.where(X > 1, X, 0.0)), walk, hops, np.arange(9))
    chance = np.random.default_rng(0)
    weight, gradient = chance.normal(size=(6, 4)).astype("f4"), chance.normal(size=(60, 4)).astype("f4")
    one = float((reading.values(weight).astype(float) * gradient).sum())
    other = float((weight.astype(float) * reading.adjoint(gradient)).sum())
    assert one == pytest.approx(other, rel=1e-4)


def test_written_gradients_are_those_of_autograd() -> None:
    X, adjacency, _ = communities(60)
    walk = Graph.of(adjacency).normalised("random_walk", self_loops="add").weights
    reading = Reading.of(X, walk, 2, np.arange(9))
    bias = torch.randn(2, 3, generator=torch.Generator().manual_seed(2))
    networks = _Linear(reading, bias, Training("adam", 0.1))
    networks.weight.normal_(generator=torch.Generator().manual_seed(0))
    by_u = torch.randn(2, 60, 3, generator=torch.Generator().manual_seed(1))
    networks.outputs()
    networks.backward(by_u)
    weight, bias = (each.double().requires_grad_() for each in (networks.weight, networks.bias))
    inputs = torch.as_tensor(reading.values(np.eye(6, dtype="f4"))).double()
    u = torch.softmax((inputs @ weight).view(60, 2, 3) + bias, dim=-1).movedim(1, 0)
    (u * by_u).sum().backward()
    for found, expected in ((networks.weight.grad, weight.grad), (networks.bias.grad, bias.grad)):
        assert found is not None and expected is not None
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_a_fit_is_that_of_the_reference_engine() -> None:
    X, adjacency, truth = communities()
    labelled = np.flatnonzero(hide(truth, 8) >= 0)[:-1]
    own = given_graph(X, adjacency, truth, labelled)
    # The labels' shares would fit already, and the reference would follow the rounding of a gradient that is zero.
    vars(own)["bias"] = torch.zeros(4, 3)
    reading = own.reading(2)
    found = own.take([reading], own.diffusion_of(4)).outputs[-1]
    linear = nn.Linear(6, 3)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    problem = Problem(
        COIN(linear, own.diffusion_of(4)),
        torch.as_tensor(reading.values(np.eye(6, dtype="f4"))),
        own.operator,
        torch.as_tensor(truth),
        train=labelled,
        settings=Training("adam", _RATE, weight_decay=5e-4, epochs=_EPOCHS),
    )
    torch.testing.assert_close(found, fit(problem, "reference").base_outputs, rtol=0, atol=1e-3)


def test_what_is_around_a_node_is_read_where_its_own_columns_are_noisy() -> None:
    X, adjacency, truth = communities(noise=4.0)
    labels = hide(truth, 10)
    model = COINClassifier().fit(X, labels, adjacency=adjacency)
    assert sum(each.share for each in model.averaged_) == pytest.approx(1.0)
    assert sum(each.share for each in model.averaged_ if each.hops) > 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChanceWarning)
        alone = COINClassifier(layers=0, base="residual").fit(X, labels, adjacency=adjacency)
    assert (model.transduction_ == truth).mean() > (alone.transduction_ == truth).mean() + 0.1


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_columns_that_mix_units_are_read_alike_and_saved(form: Any, tmp_path: Path) -> None:
    X, adjacency, truth = communities(noise=1.0, edges=(0.05, 0.02))
    labels, units = hide(truth, 10), np.array([1.0, 1e-3, 1.0, 1e3, 1.0, 1e-2])
    # A column that tells nothing, in a small unit, would decide alone.
    mixed = np.column_stack([units * X, 1e4 * np.random.default_rng(1).normal(size=len(X))])
    model = COINClassifier().fit(form(mixed), labels, adjacency=adjacency)
    assert any(each.spread is not None for each in model.averaged_)
    asked = COINClassifier(scaling="none").fit(mixed, labels, adjacency=adjacency)
    assert all(each.spread is None for each in asked.averaged_)
    assert (model.transduction_ == truth).mean() > (asked.transduction_ == truth).mean() + 0.05
    model.save(tmp_path / "model")
    new = form(mixed[:5] * 1.01)
    found = load(tmp_path / "model").predict_proba(new, adjacency=adjacency[:5])
    np.testing.assert_array_equal(found, model.predict_proba(new, adjacency=adjacency[:5]))


def test_a_saved_model_answers_nodes_and_new_rows_as_before(tmp_path: Path) -> None:
    X, adjacency, truth = communities()
    model = COINClassifier().fit(X, hide(truth, 10), adjacency=adjacency)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    edges = adjacency[:5]
    new = X[:5] + 0.01
    np.testing.assert_array_equal(again.predict_proba(new, adjacency=edges), model.predict_proba(new, adjacency=edges))
    # Moved a little, a node that was not labelled is answered as it was.
    unlabelled = np.flatnonzero(hide(truth, 10) < 0)[:40]
    found = model.predict_proba(X[unlabelled] + 1e-9, adjacency=adjacency[unlabelled])
    np.testing.assert_allclose(found, model.predict_proba(X[unlabelled]), atol=0.1)
    assert (found.argmax(1) == model.predict_proba(X[unlabelled]).argmax(1)).mean() > 0.9


def test_sparse_and_dense_columns_are_answered_alike() -> None:
    X, adjacency, truth = communities()
    rows, labels = np.where(X > 1, X, 0.0), hide(truth, 10)
    dense = COINClassifier().fit(rows, labels, adjacency=adjacency)
    sparse = COINClassifier().fit(sp.csr_array(rows), labels, adjacency=adjacency)
    assert (dense.transduction_ == sparse.transduction_).mean() > 0.98
