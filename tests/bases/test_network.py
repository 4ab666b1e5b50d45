from __future__ import annotations

import numpy as np
import pytest
import torch

from condiff.bases import Residual
from condiff.bases.network import Network
from condiff.model import apply_head


def trained(n_inputs: int = 5, width: int = 8) -> Residual:
    torch.manual_seed(0)
    return Residual(n_inputs, 3, width=width).double()


@pytest.mark.parametrize("width", [5, 8])
@pytest.mark.parametrize("head", ["softmax", "identity"])
def test_arrays_answer_as_the_module_does(width: int, head: str) -> None:
    module, x = trained(width=width), torch.randn(20, 5, dtype=torch.float64)
    expected = apply_head(module(x), head).detach().numpy()
    found = Network.of(module, classifies=head == "softmax").outputs(x.numpy())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_single_precision_is_taken_as_it_is() -> None:
    module = trained().float()
    network, x = Network.of(module, classifies=True), torch.randn(4, 5, dtype=torch.float64)
    expected = torch.softmax(module.double()(x), dim=1).detach().numpy()
    np.testing.assert_allclose(network.outputs(x.numpy()), expected, rtol=0, atol=1e-13)


def test_it_comes_back_as_a_module_and_from_its_arrays() -> None:
    network, x = Network.of(trained(), classifies=False), np.random.default_rng(0).normal(size=(6, 5))
    again = Network.from_dict(network.to_dict(), classifies=False)
    np.testing.assert_array_equal(again.outputs(x), network.outputs(x))
    np.testing.assert_allclose(again.module()(torch.as_tensor(x)).detach(), network.outputs(x), atol=1e-13)


def test_very_unlikely_classes_have_no_overflow() -> None:
    network = Network(np.zeros((1, 1)), np.zeros(1), np.array([[1e4], [-1e4]]), np.zeros(2), classifies=True)
    np.testing.assert_array_equal(network.outputs(np.array([[1.0]])), [[1.0, 0.0]])
