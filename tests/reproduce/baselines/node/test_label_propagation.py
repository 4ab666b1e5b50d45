from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.graph import Graph
from condiff.reproduce.baselines.node.label_propagation import LabelPropagation
from condiff.reproduce.baselines.node.problem import NodeProblem


def iterated(problem: NodeProblem, steps: int = 20_000) -> np.ndarray:
    """The method as its authors state it: average over the neighbours, put the training labels back, repeat."""
    weights = problem.graph.weights.toarray()
    walk = weights / weights.sum(1, keepdims=True)
    train, labels = problem.train.numpy(), problem.labels.numpy()
    clamped = np.eye(problem.n_classes)[labels[train]]
    state = np.zeros((problem.n_nodes, problem.n_classes))
    for _ in range(steps):
        state[train] = clamped
        state = walk @ state
    state[train] = clamped
    return state


def weighted(problem: NodeProblem) -> NodeProblem:
    upper = sp.triu(problem.graph.weights).tocoo()
    upper.data = np.random.default_rng(1).uniform(0.1, 3.0, upper.nnz)
    return replace(problem, graph=Graph.of(sp.csr_array(upper + upper.T)))


def with_strangers(problem: NodeProblem) -> NodeProblem:
    """Three more nodes: one alone, two joined to each other."""
    n = problem.n_nodes
    pair = sp.coo_array((np.ones(2), ([n + 1, n + 2], [n + 2, n + 1])), shape=(n + 3, n + 3))
    old = problem.graph.weights.tocoo()
    graph = Graph.of(sp.csr_array(sp.coo_array((old.data, old.coords), shape=(n + 3, n + 3)) + pair))
    features = sp.csr_array(sp.vstack([problem.features, sp.csr_array((3, problem.n_features))]))
    labels = torch.cat([problem.labels, torch.full((3,), -1)])
    return replace(problem, graph=graph, features=features, labels=labels)


@pytest.mark.parametrize("make", [lambda problem: problem, weighted], ids=["plain", "weighted"])
def test_the_solution_is_the_limit_of_the_iteration(tiny_problem: NodeProblem, make: object) -> None:
    problem = make(tiny_problem)  # type: ignore[operator]
    expected = iterated(problem)
    actual = LabelPropagation(class_mass=False).solve(problem, 0).scores
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(actual.sum(1).numpy(), 1.0, atol=1e-6)


def test_class_mass_gives_the_unlabelled_nodes_the_shares_of_the_training_nodes(tiny_problem: NodeProblem) -> None:
    problem = replace(tiny_problem, train=torch.tensor([1, 7, 8]))  # one of the first class, two of the second
    expected = iterated(problem)
    free = np.setdiff1d(np.arange(12), problem.train.numpy())
    expected[free] *= np.array([1.0, 2.0]) / expected[free].sum(0)
    actual = LabelPropagation().solve(problem, 0).scores.numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    np.testing.assert_allclose(actual[free].sum(0), [1.0, 2.0], rtol=1e-5)


def test_on_a_path_between_two_labels_the_scores_fall_evenly() -> None:
    n = 7
    path = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
    labels = torch.full((n,), -1)
    labels[0], labels[-1] = 0, 1
    problem = NodeProblem(
        "path", Graph.of(path), sp.csr_array((n, 1)), labels, 2, torch.tensor([0, n - 1]), torch.tensor([3])
    )
    scores = LabelPropagation(class_mass=False).solve(problem, 0).scores
    torch.testing.assert_close(scores[:, 1], torch.linspace(0.0, 1.0, n))


def test_nodes_out_of_reach_get_the_shares_of_the_training_nodes(tiny_problem: NodeProblem) -> None:
    problem = replace(tiny_problem, train=torch.tensor([1, 2, 7]))
    near = LabelPropagation().solve(problem, 0).scores
    scores = LabelPropagation().solve(with_strangers(problem), 0).scores
    torch.testing.assert_close(scores[:12], near)
    torch.testing.assert_close(scores[12:], torch.tensor([2 / 3, 1 / 3]).expand(3, 2))


def test_a_class_without_training_nodes_is_never_the_answer(tiny_problem: NodeProblem) -> None:
    scores = LabelPropagation().solve(replace(tiny_problem, n_classes=3), 0).scores
    assert torch.isfinite(scores).all()
    assert (scores[:, 2] == 0).all()


def test_every_node_trains_or_nothing_joins_them(tiny_problem: NodeProblem) -> None:
    everything = replace(tiny_problem, train=torch.arange(12), labels=torch.arange(12) // 6)
    assert torch.equal(LabelPropagation().solve(everything, 0).scores, torch.eye(2)[torch.arange(12) // 6])
    apart = replace(tiny_problem, graph=Graph(sp.csr_array((12, 12))))
    scores = LabelPropagation().solve(apart, 0).scores
    assert torch.equal(scores[tiny_problem.train], torch.eye(2)[tiny_problem.labels[tiny_problem.train]])
    assert (scores[[0, 3, 9]] == 0.5).all()


def test_validation_labels_are_not_looked_at_and_the_bytes_are_the_same(tiny_problem: NodeProblem) -> None:
    labels = tiny_problem.labels.clone()
    labels[tiny_problem.validation] = 1 - labels[tiny_problem.validation]
    first = LabelPropagation().solve(tiny_problem, 0)
    second = LabelPropagation().solve(replace(tiny_problem, labels=labels), 1)
    assert torch.equal(first.scores, second.scores)
    assert first.scores.dtype == torch.float32
    assert first.epochs == 0
    assert first.seconds > 0
