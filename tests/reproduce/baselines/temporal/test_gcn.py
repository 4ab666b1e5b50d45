"""The graph convolutional network against its equation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from condiff.reproduce.baselines.temporal.gcn import GCN
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(x))


@pytest.mark.parametrize("graph", ["first", "own"])
def test_forecasts_are_those_of_the_equation(waves: TemporalProblem, graph: str) -> None:
    torch.manual_seed(0)
    network = GCN(hidden=5, graph=graph).network(waves).eval()
    inner, inner_bias, outer, outer_bias = (each.detach().double().numpy() for each in network.parameters())
    inner_bias = inner_bias + 0.1  # not the zeros that it starts from
    with torch.no_grad():
        network.inner.bias += 0.1
        found = network(waves.testing)
    for position, snapshot in enumerate(range(8, 16)):
        dense = waves.graphs.weights[0 if graph == "first" else snapshot].toarray()
        dense += np.diag(np.where(dense.diagonal() == 0, 1.0, 0.0))
        scale = 1 / np.sqrt(dense.sum(axis=0))
        step = scale[:, None] * dense.T * scale
        x = waves.inputs[snapshot].double().numpy()
        expected = step @ elu(step @ x @ inner + inner_bias) @ outer + outer_bias
        np.testing.assert_allclose(found[position], expected[:, 0], rtol=1e-4, atol=1e-5)


def test_pytorch_geometrics_convolutions_say_the_same(waves: TemporalProblem) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    network = GCN(hidden=5).network(waves).eval()
    layers = [nn.GCNConv(4, 5, cached=True), nn.GCNConv(5, 1, cached=True)]
    with torch.no_grad():
        for layer, own in zip(layers, (network.inner, network.outer), strict=True):
            layer.lin.weight.copy_(own.weight.T)
            layer.bias.copy_(own.bias)
        found = network(waves.testing)
        # Training comes first, so that its first graph is the one that is kept.
        for snapshot in (0, *range(8, 16)):
            coordinates = waves.graphs.weights[snapshot].tocoo()
            index = torch.from_numpy(np.stack(coordinates.coords)).long()
            weight = torch.from_numpy(coordinates.data).float()
            hidden = torch.nn.functional.elu(layers[0](waves.inputs[snapshot], index, weight))
            expected = layers[1](hidden, index, weight)[:, 0]
            if snapshot:
                torch.testing.assert_close(found[snapshot - 8], expected, rtol=1e-4, atol=1e-5)
