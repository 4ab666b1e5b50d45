"""MPNN-LSTM against torch's own layers, one snapshot after another."""

from __future__ import annotations

import torch
from tests.reproduce.baselines.temporal.conftest import LAGS, REGIONS
from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.mpnn_lstm import MPNNLSTM
from condiff.reproduce.baselines.temporal.problem import TemporalProblem

HIDDEN = 5


class Plain(nn.Module):
    """The network for one snapshot, of torch's layers."""

    def __init__(self, source: nn.Module) -> None:
        super().__init__()
        cell = source.cell
        self.convolutions, self.recurrent, self.linear = cell.convolutions, cell.recurrent, source.linear
        self.norms = nn.ModuleList(nn.BatchNorm1d(HIDDEN) for _ in range(2))
        with torch.no_grad():
            for norm, own in zip(self.norms, cell.normalisations, strict=True):
                norm.weight.copy_(own.scale)
                norm.bias.copy_(own.shift)

    def forward(self, x: Tensor, propagation: Tensor) -> Tensor:
        first = self.norms[0](torch.relu(self.convolutions[0](x, propagation)))
        second = self.norms[1](torch.relu(self.convolutions[1](first, propagation)))
        sequence = torch.cat([first, second], 1)[None]
        _, (one, _) = self.recurrent[0](sequence)
        _, (two, _) = self.recurrent[1](one)
        state = torch.cat([one[0], two[0], x], 1)
        return self.linear(nn.functional.elu(state))[:, 0]


def test_snapshots_side_by_side_do_what_one_after_another_does(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    network = MPNNLSTM(hidden=HIDDEN, dropout=0.0).network(waves)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn(parameter.shape)
    plain = Plain(network)
    part = waves.training
    for _ in range(3):  # the running averages go on from epoch to epoch
        found = network.train()(part)
        expected = torch.stack([plain.train()(x, step) for x, step in zip(part.x, part.propagation, strict=True)])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for norm, own in zip(plain.norms, network.cell.normalisations, strict=True):
        torch.testing.assert_close(own.mean, norm.running_mean)
        torch.testing.assert_close(own.variance, norm.running_var)
    tested = waves.testing
    found = network.eval()(tested)
    expected = torch.stack([plain.eval()(x, step) for x, step in zip(tested.x, tested.propagation, strict=True)])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_one_after_another(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    network = MPNNLSTM(hidden=HIDDEN, dropout=0.0).network(waves)
    plain, part = Plain(network), waves.training
    network.train()(part).square().mean().backward()
    weight = network.cell.convolutions[0].weight
    gradient = weight.grad.clone()
    weight.grad = None
    outputs = [plain.train()(x, step) for x, step in zip(part.x, part.propagation, strict=True)]
    torch.stack(outputs).square().mean().backward()
    torch.testing.assert_close(gradient, weight.grad, rtol=1e-3, atol=1e-6)


def test_the_read_out_sees_both_states_and_the_inputs(waves: TemporalProblem) -> None:
    network = MPNNLSTM(hidden=HIDDEN).network(waves)
    assert network.linear.in_features == 2 * HIDDEN + LAGS
    assert network(waves.testing).shape == (8, REGIONS)
