import pytest
import torch

pytest.importorskip("numba")
from condiff.kernels.draw import fill_uniform


# Below, at and beyond the words of a state; and as many as a wide weight has.
@pytest.mark.parametrize("count", [0, 1, 623, 624, 625, 2000, 640 * 640])
@pytest.mark.parametrize("seed", [0, 1, 20261116, 2**32 - 1])
@pytest.mark.parametrize("low, high", [(-0.1, 0.1), (-1 / 640**0.5, 1 / 640**0.5), (0.0, 1.0), (-3.0, 0.7)])
def test_the_numbers_are_torchs(count, seed, low, high):
    # Torch's own, which tests/conftest.py may have moved for whatever learns.
    draw = getattr(torch.Tensor.uniform_, "__wrapped__", torch.Tensor.uniform_)
    expected = draw(torch.empty(count), low, high, generator=torch.Generator().manual_seed(seed))
    found = torch.full((count,), torch.nan)
    fill_uniform(found.numpy(), seed, low, high)
    assert torch.equal(found, expected)
