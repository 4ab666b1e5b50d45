"""The recurrent methods against their full equations, snapshot by snapshot, from the zero state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.temporal.conftest import LAGS, REGIONS
from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.dcrnn import DCRNN
from condiff.reproduce.baselines.temporal.gconv_gru import GConvGRU
from condiff.reproduce.baselines.temporal.problem import TemporalProblem
from condiff.reproduce.baselines.temporal.recurrent import first_state

HIDDEN = 5


def gru(update: Tensor, reset: Tensor, candidate_of: object, state: Tensor) -> Tensor:
    """A gated unit in full: the candidate sees the state through the reset gate."""
    z, r = torch.sigmoid(update), torch.sigmoid(reset)
    candidate = torch.tanh(candidate_of(r * state))
    return z * state + (1 - z) * candidate


def stirred(network: nn.Module) -> nn.Module:
    """Biases start from zero, where a mistake in them would not show."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return network.eval()


def test_the_first_state_of_a_gated_unit() -> None:
    update, candidate, reset = torch.randn(3, 7).unbind()
    torch.testing.assert_close(
        first_state(update, candidate), gru(update, reset, lambda state: candidate + state, torch.zeros(7))
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_dcrnn(waves: TemporalProblem, size: int) -> None:
    torch.manual_seed(0)
    network = stirred(DCRNN(hidden=HIDDEN, filter_size=size).network(waves))
    cell, linear = network.cell, network.linear
    found = network(waves.testing)

    def convolve(convolution: nn.Module, x: Tensor, dense: Tensor) -> Tensor:
        out_degree, in_degree = dense.sum(1), dense.sum(0)
        along = torch.where(out_degree > 0, 1 / out_degree, 0.0).diag() @ dense
        against = torch.where(in_degree > 0, 1 / in_degree, 0.0).diag() @ dense.T
        out = convolution.bias
        for k in range(size):
            for step, weight in ((along, convolution.weight[0, k]), (against, convolution.weight[1, k])):
                out = out + torch.linalg.matrix_power(step, k) @ x @ weight
        return out

    for position, snapshot in enumerate(range(8, 16)):
        x = waves.inputs[snapshot]
        dense = torch.from_numpy(waves.graphs.weights[snapshot].toarray()).float()
        update = convolve(cell.update, x, dense)
        candidate = convolve(cell.candidate, x, dense)
        state = gru(update, torch.randn(REGIONS, HIDDEN), lambda s, c=candidate: c + s, torch.zeros(REGIONS, HIDDEN))
        expected = linear(nn.functional.elu(state))[:, 0]
        torch.testing.assert_close(found[position], expected, rtol=1e-4, atol=1e-5)


def test_dcrnn_starts_within_the_bounds_of_its_whole_weights(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    weight = DCRNN(hidden=40).network(waves).cell.update.weight
    assert weight.shape == (2, 1, LAGS, 40)
    bound = (6 / (3 * (LAGS + 40) * 40)) ** 0.5
    assert 0.95 * bound < float(weight.detach().abs().max()) <= bound


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_gconvgru_with_pytorch_geometrics_convolutions(waves: TemporalProblem, size: int) -> None:
    chebyshev = pytest.importorskip("torch_geometric.nn").ChebConv
    torch.manual_seed(0)
    network = stirred(GConvGRU(hidden=HIDDEN, filter_size=size).network(waves))
    found = network(waves.testing)
    of_input, of_state = {}, {}
    for gate in ("update", "candidate", "reset"):
        of_input[gate], of_state[gate] = chebyshev(LAGS, HIDDEN, size), chebyshev(HIDDEN, HIDDEN, size)
        if gate == "reset":
            continue  # it acts on nothing
        own = getattr(network.cell, gate)
        with torch.no_grad():
            for linear, weight in zip(of_input[gate].lins, own.weights, strict=True):
                linear.weight.copy_(weight.T)
            of_input[gate].bias.copy_(own.bias)
            of_state[gate].bias.copy_(own.state_bias)
    for position, snapshot in enumerate(range(8, 16)):
        coordinates = waves.graphs.weights[snapshot].tocoo()
        edges = torch.from_numpy(np.stack(coordinates.coords)).long(), torch.from_numpy(coordinates.data).float()
        x, zero = waves.inputs[snapshot], torch.zeros(REGIONS, HIDDEN)
        update, reset = (of_input[gate](x, *edges) + of_state[gate](zero, *edges) for gate in ("update", "reset"))

        def candidate(state: Tensor, x: Tensor = x, edges: tuple[Tensor, Tensor] = edges) -> Tensor:
            return of_input["candidate"](x, *edges) + of_state["candidate"](state, *edges)

        expected = network.linear(nn.functional.elu(gru(update, reset, candidate, zero)))[:, 0]
        torch.testing.assert_close(found[position], expected, rtol=1e-4, atol=1e-5)
