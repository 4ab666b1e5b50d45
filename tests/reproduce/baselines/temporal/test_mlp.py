from __future__ import annotations

import torch

from condiff.reproduce.baselines.temporal.mlp import MLP
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


def test_forecasts_are_those_of_the_equation(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    network = MLP(hidden=5).network(waves).eval()
    inner, inner_bias, outer, outer_bias = network.parameters()
    expected = torch.nn.functional.elu(waves.inputs[8:] @ inner.T + inner_bias) @ outer.T + outer_bias
    torch.testing.assert_close(network(waves.testing), expected[..., 0])


def test_inputs_and_hidden_units_are_dropped_in_training(waves: TemporalProblem) -> None:
    torch.manual_seed(0)
    network = MLP(dropout=0.9).network(waves).train()
    assert not torch.equal(network(waves.testing), network(waves.testing))
    # With everything dropped but the biases, some forecast is the outer bias alone.
    outer_bias = float(network.outer.bias.detach())
    assert (network(waves.testing) == outer_bias).any()
