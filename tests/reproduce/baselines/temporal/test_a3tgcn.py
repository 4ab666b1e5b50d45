"""A3T-GCN against its equations, day by day."""

from __future__ import annotations

import numpy as np
import torch
from tests.reproduce.baselines.temporal.conftest import LAGS, REGIONS
from torch import nn

from condiff.reproduce.baselines.temporal.a3tgcn import A3TGCN
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


def test_forecasts_are_those_of_the_equations(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    network = A3TGCN(hidden=5).network(waves).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    cell = network.cell
    found = network(waves.testing)
    shares = np.exp(cell.attention.detach().numpy())
    shares = shares / shares.sum()
    for position, snapshot in enumerate(range(8, 16)):
        state = torch.zeros(REGIONS, 5)
        for day in range(LAGS):
            x = waves.inputs[snapshot][:, [day]]
            gates = []
            for gate in (cell.update, cell.candidate):
                convolved = gate.convolution(x, waves.graphs.propagation[snapshot])
                # Side by side with the zero state.
                gates.append(gate.linear(torch.cat([convolved, torch.zeros(REGIONS, 5)], 1)))
            state = state + shares[day] * (1 - torch.sigmoid(gates[0])) * torch.tanh(gates[1])
        expected = network.linear(nn.functional.elu(state))[:, 0]
        torch.testing.assert_close(found[position], expected, rtol=1e-4, atol=1e-5)


def test_the_attention_is_learned(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    network = A3TGCN().network(waves)
    network(waves.training).square().sum().backward()
    gradient = network.cell.attention.grad
    assert gradient is not None and float(gradient.abs().sum()) > 0
