from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff.bases.genewise import GeneWise, first_layer_distances
from condiff.errors import InvalidInputError

N, GENES, KINDS = 7, 5, 3


def network(**changes: Any) -> GeneWise:
    torch.manual_seed(0)
    found = GeneWise(GENES, KINDS, **changes).double()
    nn.init.normal_(found.bias)  # zeros at the start would hide whether it is added
    return found


def inputs(density: float = 0.4) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(N, GENES * KINDS, generator=generator) < density).double()


@pytest.mark.parametrize(("shortcut", "count"), [(False, 64_610), (True, 73_840)], ids=["perceptron", "residual"])
def test_the_paper_s_networks_have_the_paper_s_numbers_of_parameters(shortcut: bool, count: int) -> None:
    assert sum(weight.numel() for weight in GeneWise(9_229, shortcut=shortcut).parameters()) == count


@pytest.mark.parametrize("shortcut", [True, False])
def test_it_is_its_equation(shortcut: bool) -> None:
    base, x = network(hidden_features=4, out_features=2, shortcut=shortcut), inputs()
    weights = {name: value.detach().numpy() for name, value in base.named_parameters()}
    for row, out in zip(x.numpy(), base(x).detach().numpy(), strict=True):
        h = np.array(
            [
                weights["bias"][g] + sum(weights["weight"][g, k] * row[g * KINDS + k] for k in range(KINDS))
                for g in range(GENES)
            ]
        )
        hidden = np.maximum(weights["inner.weight"] @ h + weights["inner.bias"], 0)
        z = weights["outer.weight"] @ hidden + weights["outer.bias"]
        if shortcut:
            z += weights["shortcut.weight"] @ h + weights["shortcut.bias"]
        np.testing.assert_allclose(out, z, rtol=1e-12)


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_coo"])
def test_sparse_inputs_give_the_same_outputs_and_gradients(layout: str) -> None:
    base, x = network(), inputs()
    dense = base(x)
    expected = torch.autograd.grad(dense.square().sum(), list(base.parameters()))
    sparse = base(getattr(x, layout)())
    torch.testing.assert_close(sparse, dense, rtol=0, atol=1e-14)
    for own, other in zip(torch.autograd.grad(sparse.square().sum(), list(base.parameters())), expected, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-13)


def test_patients_without_any_alteration_get_the_bias() -> None:
    base = network()
    nothing = torch.zeros(2, GENES * KINDS, dtype=torch.float64)
    torch.testing.assert_close(base.first_layer(nothing), base.bias.expand(2, -1), rtol=0, atol=0)
    torch.testing.assert_close(base.first_layer(nothing.to_sparse_csr()), base.bias.expand(2, -1), rtol=0, atol=0)


def test_a_batch_is_one_row_after_the_other() -> None:
    base, x = network(), inputs()
    torch.testing.assert_close(base(x.expand(3, -1, -1)), base(x).expand(3, -1, -1))


def test_gradcheck() -> None:
    base = network()
    assert torch.autograd.gradcheck(base, inputs().requires_grad_())


def test_a_seed_draws_the_layers_in_the_order_of_the_paper_s_code() -> None:
    torch.manual_seed(3)
    base = GeneWise(GENES, KINDS)
    torch.manual_seed(3)
    weight = nn.init.xavier_normal_(torch.empty(1, GENES * KINDS))
    inner, outer, shortcut = nn.Linear(GENES, 3), nn.Linear(3, 1), nn.Linear(GENES, 1)
    assert torch.equal(base.weight.flatten(), weight[0])
    assert not base.bias.any()
    for own, other in ((base.inner, inner), (base.outer, outer), (base.shortcut, shortcut)):
        assert torch.equal(own.weight, other.weight)
        assert torch.equal(own.bias, other.bias)


def test_the_first_weights_have_the_stated_variance() -> None:
    torch.manual_seed(0)
    base = GeneWise(20_000)
    assert float(base.weight.detach().var()) == pytest.approx(2 / 60_001, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_are_those_of_the_dense_first_layer(dtype: torch.dtype) -> None:
    base, x = network().to(dtype), inputs()
    x[3] = x[1]  # two patients alike
    found = first_layer_distances(base, sp.csr_array(x.numpy()))
    h = base.double().first_layer(x).detach().numpy()
    np.testing.assert_allclose(found, np.linalg.norm(h[:, None] - h[None], axis=-1), rtol=1e-12, atol=1e-15)
    assert found[1, 3] == found[3, 1] == 0
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()


def test_inputs_of_another_width_are_refused() -> None:
    base, wrong = network(), inputs()[:, :-1]
    for call in (lambda: base(wrong), lambda: base(wrong.to_sparse_csr())):
        with pytest.raises(InvalidInputError, match="14 columns, but the network has 5 genes of 3 inputs each"):
            call()
    with pytest.raises(InvalidInputError, match="14 columns"):
        first_layer_distances(base, sp.csr_array(wrong.numpy()))


@pytest.mark.parametrize("name", ["genes", "kinds", "hidden_features", "out_features"])
@pytest.mark.parametrize("value", [0, -1, 2.5])
def test_sizes_are_positive_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} must be a positive whole number, not {value}"):
        GeneWise(**({"genes": 4} | {name: value}))
