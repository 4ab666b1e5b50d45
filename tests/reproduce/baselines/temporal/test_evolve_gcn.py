"""EvolveGCN-H against its equations, snapshot by snapshot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.temporal.conftest import LAGS
from torch import nn

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.temporal.evolve_gcn import EvolveGCN
from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs, TemporalProblem


def test_forecasts_are_those_of_the_equations(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    network = EvolveGCN().network(waves).eval()
    cell = network.cell
    found = network(waves.testing)
    direction = cell.direction.detach().numpy()
    for position, snapshot in enumerate(range(8, 16)):
        x = waves.inputs[snapshot].numpy()
        scores = x @ direction / np.linalg.norm(direction)
        chosen = np.argsort(-scores, kind="stable")[:LAGS]
        summary = torch.from_numpy(x[chosen] * np.tanh(scores[chosen])[:, None])
        # torch's cell for one step; a row of the weight belongs to a chosen region.
        step = nn.GRUCell(LAGS, LAGS)
        with torch.no_grad():
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(step, name).copy_(getattr(cell.unit, f"{name}_l0"))
        weight = step(summary.float(), cell.weight)
        state = waves.graphs.propagation[snapshot] @ (waves.inputs[snapshot] @ weight)
        expected = network.linear(nn.functional.elu(state))[:, 0]
        torch.testing.assert_close(found[position], expected, rtol=1e-4, atol=1e-5)


def test_pytorch_geometrics_pooling_chooses_the_same(waves: TemporalProblem) -> None:
    pooling = pytest.importorskip("torch_geometric.nn").TopKPooling(LAGS, ratio=LAGS)
    torch.manual_seed(0)
    cell = EvolveGCN().network(waves).cell
    with torch.no_grad():
        pooling.select.weight.copy_(cell.direction[None])
    x = waves.inputs[10]
    index = torch.from_numpy(np.stack(waves.graphs.weights[10].tocoo().coords)).long()
    expected = pooling(x, index)[0]
    scores = x @ (cell.direction / cell.direction.norm())
    highest, chosen = scores.topk(LAGS)
    torch.testing.assert_close(x[chosen] * torch.tanh(highest)[:, None], expected)


@pytest.mark.parametrize("learned", [False, True])
def test_the_first_weight_is_trained_where_asked_for(waves: TemporalProblem, learned: bool) -> None:
    torch.manual_seed(0)
    network = EvolveGCN(learned_weight=learned).network(waves)
    network(waves.training).square().sum().backward()
    gradient = network.cell.weight.grad
    assert (gradient is not None) is learned


def test_it_needs_as_many_regions_as_lags(waves: TemporalProblem) -> None:
    graphs = SnapshotGraphs(tuple(graph[:3][:, :3] for graph in waves.graphs.weights))
    few = replace(waves, history=waves.history[:, :3], targets=waves.targets[:, :3], graphs=graphs)
    with pytest.raises(InvalidInputError, match="at least as many regions as lags, 4, but there are 3"):
        EvolveGCN().solve(few, 0)
