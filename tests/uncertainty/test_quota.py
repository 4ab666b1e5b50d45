from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from condiff.errors import InvalidInputError
from condiff.uncertainty.quota import assign, quotas


@pytest.mark.parametrize("seed", range(40))
def test_the_assignment_is_the_best_of_all_that_fill_the_quotas(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n, n_classes = int(generator.integers(5, 60)), int(generator.integers(2, 6))
    scores = generator.normal(size=(n, n_classes)) + 3 * generator.normal(size=n_classes)
    if seed % 3 == 0:
        scores = np.round(scores)  # many ties
    sizes = generator.multinomial(n, generator.dirichlet(np.ones(n_classes)))
    codes, bias = assign(scores, sizes)
    assert np.bincount(codes, minlength=n_classes).tolist() == sizes.tolist()
    places = np.repeat(np.arange(n_classes), sizes)
    rows, columns = linear_sum_assignment(-scores[:, places])
    assert scores[np.arange(n), codes].sum() == pytest.approx(scores[:, places][rows, columns].sum(), abs=1e-8)
    priced = scores + bias
    assert (priced[np.arange(n), codes] >= priced.max(axis=1) - 1e-8).all()


def test_where_it_begins_changes_nothing() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(3000, 4)) + np.arange(4.0)
    sizes = np.array([100, 1900, 600, 400])
    codes, bias = assign(scores, sizes)
    for start in (bias, bias + generator.normal(size=4), np.zeros(4)):
        assert np.array_equal(assign(scores, sizes, start)[0], codes)


@pytest.mark.parametrize("off", [0.0, 0.01, 0.3, 5.0])
def test_prices_that_were_nearly_right_and_ones_that_were_not_lead_to_the_same(off: float) -> None:
    generator = np.random.default_rng(1)
    scores = generator.normal(size=(20_000, 5))
    sizes = np.array([9_000, 1_000, 3_000, 6_900, 100])
    codes, bias = assign(scores, sizes)
    assert np.bincount(codes).tolist() == sizes.tolist()
    # No two classes gain by an exchange of points, which is what makes it the best of all.
    gains = np.array([[(scores[codes == a, b] - scores[codes == a, a]).max() for b in range(5)] for a in range(5)])
    assert (gains + gains.T <= 1e-12).all()
    assert np.array_equal(assign(scores, sizes, bias + off * np.arange(5))[0], codes)


def test_shares_become_whole_numbers() -> None:
    assert quotas(np.array([1.0, 1.0, 1.0]), 10).tolist() == [4, 3, 3]
    assert quotas(np.array([0.1, 0.2, 0.7]), 10).tolist() == [1, 2, 7]
    assert quotas(np.array([300.0, 700.0]), 1000).tolist() == [300, 700]


def test_sizes_that_do_not_sum_up_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="sum to 4, but there are 3 points"):
        assign(np.zeros((3, 2)), np.array([2, 2]))
