"""The graph attention network against its equation, head by head."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.node.gat import GAT, edge_softmax
from condiff.reproduce.baselines.node.problem import NodeProblem


def heads_by_hand(layer: torch.nn.Module, hidden: np.ndarray, edges: np.ndarray) -> list[np.ndarray]:
    weight, asking, answering, bias = (parameter.detach().double().numpy() for parameter in layer.parameters())
    outputs = []
    for head, (a, c, b) in enumerate(zip(asking, answering, bias, strict=True)):
        z = hidden @ weight[:, head * len(a) : (head + 1) * len(a)]
        result = np.zeros_like(z)
        for i in range(len(z)):
            neighbours = np.flatnonzero(edges[i])
            scores = np.array([(a[:, 0] @ z[i] + c[:, 0] @ z[j]) for j in neighbours])
            scores = np.where(scores > 0, scores, 0.2 * scores)
            attention = np.exp(scores) / np.exp(scores).sum()
            result[i] = attention @ z[neighbours] + b[0]
        outputs.append(result)
    return outputs


@pytest.mark.parametrize("output_heads", [1, 4])
def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem, output_heads: int) -> None:
    # Weights of edges are not in the paper's equation.
    problem = dataclasses.replace(tiny_problem, graph=Graph.of(2.5 * tiny_problem.graph.weights))
    network = GAT(hidden=5, heads=3, output_heads=output_heads).network(problem)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    network.eval()
    edges = tiny_problem.graph.weights.toarray() + np.eye(12)
    first, second = network.children()
    hidden = np.concatenate(heads_by_hand(first, problem.features.toarray(), edges), axis=1)
    hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    scores = np.mean(heads_by_hand(second, hidden, edges), axis=0)
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(network().exp().detach(), expected, rtol=1e-3, atol=1e-6)


def test_without_edges_it_is_a_perceptron(tiny_problem: NodeProblem) -> None:
    problem = dataclasses.replace(tiny_problem, graph=Graph.of(sp.csr_array((12, 12))))
    network = GAT().network(problem)
    network.eval()
    first, second = (next(layer.parameters()) for layer in network.children())
    expected = torch.log_softmax(torch.nn.functional.elu(problem.x_dense @ first) @ second, -1)
    torch.testing.assert_close(network(), expected)


def test_edge_softmax_is_a_softmax_and_survives_large_scores(tiny_problem: NodeProblem) -> None:
    matrix = SparseMatrix.of(tiny_problem.graph.weights + sp.eye_array(12), torch.float64)
    generator = torch.Generator().manual_seed(0)
    asks, answers = torch.randn(2, 12, dtype=torch.float64, generator=generator).unbind()
    values = edge_softmax(matrix.pattern, asks, answers)
    dense = torch.nn.functional.leaky_relu(asks[:, None] + answers, 0.2)
    dense = dense.masked_fill(matrix.to_dense() == 0, -torch.inf).softmax(-1)
    torch.testing.assert_close(matrix.with_values(values).to_dense(), dense)
    large = edge_softmax(matrix.pattern, asks + 1e4, 1e4 * answers)
    assert torch.isfinite(large).all()
    torch.testing.assert_close(
        matrix.with_values(large) @ torch.ones(12, 1, dtype=torch.float64), asks[:, None] * 0 + 1
    )


def test_edge_softmax_has_the_right_gradient(tiny_problem: NodeProblem) -> None:
    pattern = tiny_problem.propagation.pattern
    generator = torch.Generator().manual_seed(0)
    asks, answers = (torch.randn(12, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(lambda one, two: edge_softmax(pattern, one, two), (asks, answers))


def test_attention_dropout_acts_in_training_only(tiny_problem: NodeProblem) -> None:
    network = GAT(dropout=0.0, attention_dropout=0.6).network(tiny_problem)
    network.train()
    assert not torch.equal(network(), network())
    network.eval()
    assert torch.equal(network(), network())


def test_recommended_settings() -> None:
    method = GAT.recommended("pubmed")
    assert method == GAT.recommended("cora") == GAT()
    assert (method.training.learning_rate, method.training.weight_decay) == (0.005, 5e-4)


def test_learns_the_rings(tiny_problem: NodeProblem) -> None:
    method = GAT(training=dataclasses.replace(GAT().training, epochs=100))
    predicted = method.solve(tiny_problem, 0).scores.argmax(-1)
    assert predicted.tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"heads": 0}, {"output_heads": 0}, {"attention_dropout": 1.0}])
def test_bad_settings(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        GAT(**bad)  # type: ignore[arg-type]
