from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from condiff.bases import ACTIVATIONS, Bottleneck, Residual, residual_network
from condiff.errors import InvalidInputError

FORMULAS = {
    "relu": lambda z: z.clamp_min(0),
    "elu": lambda z: torch.where(z > 0, z, z.exp() - 1),
    "tanh": lambda z: (z.exp() - (-z).exp()) / (z.exp() + (-z).exp()),
    "gelu": lambda z: z * (1 + torch.erf(z / 2**0.5)) / 2,
}
NETWORKS = {
    "residual": lambda: Residual(6, 3),
    "two blocks": lambda: Residual(6, 3, blocks=2, activation="tanh"),
    "no block": lambda: Residual(6, 3, blocks=0),
    "wide": lambda: Residual(6, 3, width=8, blocks=2, activation="tanh"),
    "bottleneck": lambda: Bottleneck(6, 4, 3),
}


def bag_of_words(n: int = 9, words: int = 6) -> Tensor:
    """Mostly zeros, one row of them altogether empty."""
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(n, words, generator=generator, dtype=torch.float64)
    x = torch.where(torch.rand(n, words, generator=generator) < 0.4, x, 0.0)
    x[4] = 0.0
    return x


def seeded(make: str) -> nn.Module:
    torch.manual_seed(0)
    return NETWORKS[make]().double()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_residual_is_input_plus_activation_then_linear(activation: str) -> None:
    torch.manual_seed(0)
    network, x = Residual(6, 3, activation=activation).double(), torch.randn(9, 6, dtype=torch.float64)
    w1, b1 = network.blocks[0].weight, network.blocks[0].bias
    hidden = x + FORMULAS[activation](x @ w1.T + b1)
    torch.testing.assert_close(network(x), hidden @ network.readout.weight.T + network.readout.bias)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bottleneck_is_linear_shortcut_plus_narrow_network(activation: str) -> None:
    torch.manual_seed(0)
    network, x = Bottleneck(6, 4, 3, activation=activation).double(), torch.randn(9, 6, dtype=torch.float64)
    hidden = FORMULAS[activation](x @ network.inner.weight.T + network.inner.bias)
    expected = x @ network.shortcut.weight.T + network.shortcut.bias
    expected = expected + hidden @ network.outer.weight.T + network.outer.bias
    torch.testing.assert_close(network(x), expected)


def test_default_activations_are_the_papers() -> None:
    assert isinstance(Residual(2, 2).activation, nn.ReLU)
    assert isinstance(Bottleneck(2, 2, 2).activation, nn.ELU)


def test_blocks_are_chained_and_velocity_is_what_each_adds() -> None:
    network, x = seeded("two blocks"), torch.randn(9, 6, dtype=torch.float64)
    first = x + network.velocity(x)
    second = first + network.velocity(first, 1)
    torch.testing.assert_close(network(x), network.readout(second), rtol=0, atol=0)
    torch.testing.assert_close(network.velocity(x), torch.tanh(network.blocks[0](x)), rtol=0, atol=0)


def test_wider_blocks_see_the_input_padded_with_zeros() -> None:
    network, x = seeded("wide"), torch.randn(9, 6, dtype=torch.float64)
    first, second = network.blocks
    hidden = torch.cat([x, torch.zeros(9, 2, dtype=torch.float64)], 1) + torch.tanh(x @ first.weight.T + first.bias)
    hidden = hidden + torch.tanh(hidden @ second.weight.T + second.bias)
    torch.testing.assert_close(network(x), hidden @ network.readout.weight.T + network.readout.bias)
    torch.testing.assert_close(network.lift(x)[:, :6], x, rtol=0, atol=0)


def test_width_below_the_inputs_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="width must be at least the input's, 6, not 5"):
        Residual(6, 3, width=5)


def test_no_block_is_a_linear_map() -> None:
    network, x = seeded("no block"), torch.randn(9, 6, dtype=torch.float64)
    torch.testing.assert_close(network(x), F.linear(x, network.readout.weight, network.readout.bias), rtol=0, atol=0)


@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_input_gives_the_values_and_gradients_of_the_dense_one(make: str, layout: torch.layout) -> None:
    x = bag_of_words()
    pull = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    dense, sparse = seeded(make), seeded(make)
    expected, found = dense(x), sparse(x.to_sparse(layout=layout))
    torch.testing.assert_close(found, expected)
    expected.backward(pull)
    found.backward(pull)
    for (name, want), (_, have) in zip(dense.named_parameters(), sparse.named_parameters(), strict=True):
        assert want.grad is not None and have.grad is not None, name
        torch.testing.assert_close(have.grad, want.grad, msg=lambda text, name=name: f"{name}: {text}")


def test_velocity_takes_sparse_input_too() -> None:
    network, x = seeded("residual"), bag_of_words()
    torch.testing.assert_close(network.velocity(x.to_sparse_csr()), network.velocity(x))


@pytest.mark.parametrize("make", NETWORKS)
def test_leading_dimensions_are_a_batch(make: str) -> None:
    network, x = seeded(make), torch.randn(2, 5, 9, 6, dtype=torch.float64)
    found = network(x)
    assert found.shape == (2, 5, 9, 3)
    torch.testing.assert_close(found[1, 2], network(x[1, 2]))


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (Residual(1433, 7), 1433 * 1433 + 1433 + 1433 * 7 + 7),
        (Residual(6, 3, blocks=3), 3 * (36 + 6) + 18 + 3),
        (Residual(6, 3, blocks=0), 18 + 3),
        (Residual(6, 3, width=8, blocks=2), 48 + 8 + 64 + 8 + 24 + 3),
        (Bottleneck(8, 16, 1), 8 + 1 + 8 * 16 + 16 + 16 + 1),
    ],
    ids=["cora", "three blocks", "no block", "wide", "covid"],
)
def test_parameter_counts(network: nn.Module, count: int) -> None:
    assert sum(p.numel() for p in network.parameters()) == count


def test_residual_network_chooses_by_hidden_width() -> None:
    wide = residual_network(6, 3, activation="tanh")
    assert isinstance(wide, Residual) and isinstance(wide.activation, nn.Tanh)
    assert wide.blocks[0].weight.shape == (6, 6) and len(wide.blocks) == 1
    narrow = residual_network(6, 3, hidden_features=4, activation="gelu")
    assert isinstance(narrow, Bottleneck) and isinstance(narrow.activation, nn.GELU)
    assert narrow.inner.weight.shape == (4, 6) and narrow.outer.weight.shape == (3, 4)


@pytest.mark.parametrize("make", [lambda a: Residual(2, 2, activation=a), lambda a: Bottleneck(2, 2, 2, activation=a)])
def test_unknown_activation_is_refused_with_the_known_ones(make) -> None:
    with pytest.raises(InvalidInputError, match=r"unknown activation 'swish'; .*relu, elu, tanh, gelu"):
        make("swish")


@pytest.mark.parametrize("hidden", [0, -3, "wide", 2.5])
def test_unusable_hidden_width_is_refused(hidden) -> None:
    with pytest.raises(InvalidInputError, match="hidden_features must be 'input' or a positive whole number"):
        residual_network(3, 2, hidden_features=hidden)


@pytest.mark.parametrize("blocks", [-1, 1.5])
def test_unusable_number_of_blocks_is_refused(blocks) -> None:
    with pytest.raises(InvalidInputError, match="blocks must be a whole number"):
        Residual(3, 2, blocks=blocks)


def test_wrong_input_width_is_refused() -> None:
    for network in (Residual(6, 3), Bottleneck(6, 4, 3)):
        with pytest.raises(RuntimeError, match="shape"):
            network(torch.zeros(2, 5))
