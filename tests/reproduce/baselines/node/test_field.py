"""Receptive fields against the whole graph."""

from __future__ import annotations

import numpy as np
import torch

from condiff.reproduce.baselines.node.field import PerPart, receptive_field, whole_field
from condiff.reproduce.baselines.node.problem import NodeProblem


def test_fields_give_the_rows_of_the_whole_product(tiny_problem: NodeProblem) -> None:
    weights = tiny_problem.graph.normalised("random_walk").weights
    for layers in (1, 2, 3):
        nodes = torch.tensor([7, 2])
        field = receptive_field(tiny_problem.features, weights, nodes, layers)
        values = field.x.to_dense()
        for step in field.steps:
            values = step.matrix @ values + 2 * values[step.own]
        expected = tiny_problem.features.toarray()
        for _ in range(layers):
            expected = weights @ expected + 2 * expected
        np.testing.assert_allclose(values, expected[[7, 2]], rtol=1e-5)


def test_a_field_holds_no_node_that_is_too_far(tiny_problem: NodeProblem) -> None:
    field = receptive_field(tiny_problem.features, tiny_problem.graph.weights, torch.tensor([3]), layers=2)
    assert field.x.shape == (5, 8), "node 3 of its ring, two to each side"
    assert [step.matrix.shape for step in field.steps] == [(3, 5), (1, 3)]


def test_the_whole_field_is_everything(tiny_problem: NodeProblem) -> None:
    field = whole_field(tiny_problem.x, tiny_problem.propagation, layers=2)
    assert field.x is tiny_problem.x
    values = torch.randn(12, 2)
    for step in field.steps:
        torch.testing.assert_close(values[step.own], values)
        assert step.matrix is tiny_problem.propagation


def test_a_part_is_worked_out_once() -> None:
    calls = []

    def make(nodes: torch.Tensor) -> int:
        calls.append(nodes)
        return int(nodes.sum())

    parts = PerPart(make)
    one, other = torch.tensor([1, 2]), torch.tensor([4])
    assert [parts.of(nodes) for nodes in (one, other, one, other)] == [3, 4, 3, 4]
    assert len(calls) == 2
