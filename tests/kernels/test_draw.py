import hashlib

import numpy as np
import pytest
import torch

pytest.importorskip("numba")
from condiff.kernels.draw import fill_uniform

# As they are, where tests/jitter.py has moved what they draw.
UNIFORM, FILL_UNIFORM = (getattr(draw, "__wrapped__", draw) for draw in (torch.Tensor.uniform_, fill_uniform))


# Below, at and beyond the words of a state; and as many as a wide weight has.
@pytest.mark.parametrize("count", [0, 1, 623, 624, 625, 2000, 640 * 640])
@pytest.mark.parametrize("seed", [0, 1, 20261116, 2**32 - 1])
@pytest.mark.parametrize("low, high", [(-0.1, 0.1), (-1 / 640**0.5, 1 / 640**0.5), (0.0, 1.0), (-3.0, 0.7)])
def test_the_numbers_are_torchs(count, seed, low, high):
    """Up to one unit in the last place of a bound, where torch rounds twice."""
    expected = UNIFORM(torch.empty(count), low, high, generator=torch.Generator().manual_seed(seed))
    found = torch.full((count,), torch.nan)
    FILL_UNIFORM(found.numpy(), seed, low, high)
    unit = np.spacing(np.float32(max(-low, high)))
    torch.testing.assert_close(found, expected, rtol=0, atol=float(unit))


def test_the_numbers_are_the_same_on_every_processor():
    found = torch.empty(2000)
    FILL_UNIFORM(found.numpy(), 1, -0.1, 0.1)
    assert hashlib.sha256(found.numpy().astype("<f4").tobytes()).hexdigest()[:16] == "db06406efd76bcd0"
