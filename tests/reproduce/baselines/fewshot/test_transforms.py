from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.transforms import centred, normalised, powered, separately_centred, shifted

SEEDS = st.integers(0, 2**16)


def cloud(seed: int, points: int = 7, features: int = 4) -> torch.Tensor:
    return torch.rand(2, points, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(SEEDS)
def test_centring_is_its_formula(seed: int) -> None:
    x, mean = cloud(seed), cloud(seed + 1)[0, 0]
    moved = x.numpy() - mean.numpy()
    np.testing.assert_allclose(centred(x, mean), moved / np.linalg.norm(moved, axis=-1, keepdims=True), rtol=1e-12)


def test_a_point_at_the_mean_stays_at_the_origin() -> None:
    x = torch.ones(3, 4)
    assert torch.equal(centred(x, torch.ones(4)), torch.zeros(3, 4))
    assert torch.equal(normalised(torch.zeros(2, 3)), torch.zeros(2, 3))


@given(SEEDS)
def test_the_shift_moves_the_queries_to_the_mean_of_the_support(seed: int) -> None:
    support, query = cloud(seed, 3), cloud(seed + 1, 7)
    delta = support.numpy().mean(1, keepdims=True) - query.numpy().mean(1, keepdims=True)
    moved = shifted(support, query)
    np.testing.assert_allclose(moved, query.numpy() + delta, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(moved.mean(1), support.mean(1))


@given(SEEDS, st.sampled_from([0.5, 1.0, 2.0, -0.5, 0.0]))
def test_the_power_is_its_formula(seed: int, exponent: float) -> None:
    x = cloud(seed)
    powers = np.log(x.numpy() + 1e-6) if exponent == 0 else (x.numpy() + 1e-6) ** exponent
    expected = powers / np.linalg.norm(powers, axis=-1, keepdims=True)
    np.testing.assert_allclose(powered(x, exponent), expected, rtol=1e-10)


def test_the_power_of_a_negative_feature_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"reach down to -0.25: use a method without it"):
        powered(torch.tensor([[1.0, -0.25]]))


@given(SEEDS)
def test_support_and_queries_are_centred_each_by_itself(seed: int) -> None:
    parts = cloud(seed, 3), cloud(seed + 1, 7)
    for part, found in zip(parts, separately_centred(*parts), strict=True):
        moved = part.numpy() - part.numpy().mean(1, keepdims=True)
        np.testing.assert_allclose(found, moved / np.linalg.norm(moved, axis=-1, keepdims=True), rtol=1e-10)
