from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.label_spreading import LabelSpreading
from condiff.reproduce.baselines.node.problem import NodeProblem


def start(problem: NodeProblem) -> np.ndarray:
    train, labels = problem.train.numpy(), problem.labels.numpy()
    first = np.zeros((problem.n_nodes, problem.n_classes))
    first[train, labels[train]] = 1.0
    return first


def normalised(problem: NodeProblem) -> np.ndarray:
    weights = problem.graph.weights.toarray()
    root = np.sqrt(weights.sum(1))
    return weights / np.outer(root, root)


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
def test_it_is_the_closed_form_and_the_limit_of_the_iteration(tiny_problem: NodeProblem, alpha: float) -> None:
    matrix, first = normalised(tiny_problem), start(tiny_problem)
    closed = (1 - alpha) * np.linalg.inv(np.eye(12) - alpha * matrix) @ first
    state = first
    for _ in range(5000):
        state = alpha * matrix @ state + (1 - alpha) * first
    actual = LabelSpreading(alpha).solve(tiny_problem, 0).scores.numpy()
    np.testing.assert_allclose(actual, closed, rtol=1e-5)
    np.testing.assert_allclose(actual, state, rtol=1e-5)


def test_without_spreading_only_the_training_nodes_have_scores(tiny_problem: NodeProblem) -> None:
    scores = LabelSpreading(0.0).solve(tiny_problem, 0).scores
    np.testing.assert_array_equal(scores.numpy(), start(tiny_problem))


def test_weights_count(tiny_problem: NodeProblem) -> None:
    upper = sp.triu(tiny_problem.graph.weights).tocoo()
    upper.data = np.random.default_rng(1).uniform(0.1, 3.0, upper.nnz)
    problem = replace(tiny_problem, graph=Graph.of(sp.csr_array(upper + upper.T)))
    closed = 0.01 * np.linalg.inv(np.eye(12) - 0.99 * normalised(problem)) @ start(problem)
    np.testing.assert_allclose(LabelSpreading().solve(problem, 0).scores.numpy(), closed, rtol=1e-5)


def test_isolated_and_unreached_nodes(tiny_problem: NodeProblem) -> None:
    weights = tiny_problem.graph.weights.toarray()
    weights[[1, 3]] = weights[:, [1, 3]] = 0.0  # a training node and another one
    scores = LabelSpreading().solve(replace(tiny_problem, graph=Graph.of(weights)), 0).scores
    assert torch.isfinite(scores).all()
    torch.testing.assert_close(scores[1], torch.tensor([0.01, 0.0]))
    torch.testing.assert_close(scores[3], torch.tensor([0.5, 0.5]))  # the shares of the training nodes


def test_validation_labels_are_not_looked_at_and_the_bytes_are_the_same(tiny_problem: NodeProblem) -> None:
    labels = tiny_problem.labels.clone()
    labels[tiny_problem.validation] = 1 - labels[tiny_problem.validation]
    first = LabelSpreading().solve(tiny_problem, 0)
    second = LabelSpreading().solve(replace(tiny_problem, labels=labels), 1)
    assert torch.equal(first.scores, second.scores)
    assert first.epochs == 0


def test_the_rings_are_told_apart(tiny_problem: NodeProblem) -> None:
    assert torch.equal(LabelSpreading().solve(tiny_problem, 0).scores.argmax(1), torch.arange(12) // 6)


@pytest.mark.parametrize("alpha", [-0.1, 1.0, float("nan")])
def test_an_impossible_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidInputError, match="alpha must be at least 0 and below 1, not"):
        LabelSpreading(alpha)
