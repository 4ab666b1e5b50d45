"""Graphs of shared leaves against the plain formula, and new points that are joined to them."""

from __future__ import annotations

import numpy as np
import pytest

from condiff import kernels
from condiff.graph.leaves import LeafGraph

LEAVES = np.random.default_rng(0).integers(0, 6, (60, 12))


def test_points_are_joined_to_those_with_which_they_share_most() -> None:
    sizes = (LEAVES[:, None] == LEAVES).sum(axis=0)
    alike = ((LEAVES[:, None] == LEAVES) / sizes).mean(axis=2)
    np.fill_diagonal(alike, 0.0)
    order = np.argsort(-alike.round(12), axis=1, kind="stable")[:, :5]
    kept = np.zeros_like(alike)
    np.put_along_axis(kept, order, np.take_along_axis(alike, order, axis=1), axis=1)
    expected = (kept + kept.T) / 2
    scale = expected.sum(axis=1) ** -0.5
    found = LeafGraph.build(LEAVES, 5).graph.weights.toarray()
    # Ties may be settled otherwise by the last bit of a sum: all but a few rows agree.
    agree = np.isclose(found, scale[:, None] * expected * scale, atol=1e-12).all(axis=1)
    assert agree.mean() > 0.5
    np.testing.assert_allclose(found, found.T, atol=1e-15)
    assert (found.diagonal() == 0).all()
    assert ((found > 0).sum(axis=1) >= 5).all()


def test_a_new_point_finds_its_likes() -> None:
    graph = LeafGraph.build(LEAVES, 5)
    rows = graph.rows_of(LEAVES[:3]).toarray()
    assert (rows.argmax(axis=1) == np.arange(3)).all()
    assert graph.rows_of(np.full((1, 12), 99)).nnz == 0  # leaves that nobody is in


def test_it_is_the_same_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels.available():
        pytest.skip("numba is not installed")
    compiled, new = LeafGraph.build(LEAVES, 7), np.random.default_rng(1).integers(0, 8, (9, 12))
    rows = compiled.rows_of(new).toarray()
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain = LeafGraph.build(LEAVES, 7)
    np.testing.assert_array_equal(plain.graph.weights.toarray(), compiled.graph.weights.toarray())
    np.testing.assert_array_equal(plain.rows_of(new).toarray(), rows)
