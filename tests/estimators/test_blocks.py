from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.estimators import blocks
from condiff.estimators.blocks import moments, slices
from condiff.estimators.features import FeatureMap
from condiff.estimators.nodes import fingerprints


def test_slices_cover_the_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ROWS", 7)
    rows = np.arange(23)
    assert np.concatenate([rows[here] for here in slices(23)]).tolist() == list(range(23))
    assert len(list(slices(0))) == 1


def test_moments_are_numpys_and_single_precision_is_summed_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(100, 4))
    mean, variance = moments(100, lambda here: rows[here])
    np.testing.assert_array_equal(mean, rows.mean(axis=0))
    np.testing.assert_array_equal(variance, rows.var(axis=0))
    monkeypatch.setattr(blocks, "ROWS", 7)
    single = rows.astype(np.float32)
    mean, variance = moments(100, lambda here: single[here])
    np.testing.assert_allclose(mean, single.astype(np.float64).mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(variance, single.astype(np.float64).var(axis=0), rtol=1e-13)


@pytest.mark.parametrize("width", [3, 10], ids=["reduced", "whole"])
@pytest.mark.parametrize("form", ["float64", "float32", "sparse"])
def test_features_and_digests_do_not_depend_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch, width: int, form: str
) -> None:
    dense = np.random.default_rng(0).normal(size=(60, 8)) * np.arange(1, 9)
    rows = {"float64": dense, "float32": dense.astype(np.float32), "sparse": sp.csr_array(dense)}[form]
    whole, digests = FeatureMap.fit(rows, scaling="standard", width=width), fingerprints(rows)
    expected, scaled = whole.inputs(rows), whole.scaled(rows)
    monkeypatch.setattr(blocks, "ROWS", 7)
    parts = FeatureMap.fit(rows, scaling="standard", width=width)
    # A principal direction may come out with the other sign.
    np.testing.assert_allclose(np.abs(parts.inputs(rows)), np.abs(expected), rtol=1e-6, atol=1e-6)
    assert parts.inputs(rows, np.float32).dtype == np.float32
    np.testing.assert_array_equal(fingerprints(rows), digests)
    if form != "sparse":
        np.testing.assert_allclose(parts.scaled(rows), scaled, rtol=1e-6, atol=1e-6)
        assert parts.scaled(rows).dtype == rows.dtype


def test_single_and_double_precision_of_one_value_are_one_row() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(fingerprints(rows), fingerprints(rows.astype(np.float64)))
