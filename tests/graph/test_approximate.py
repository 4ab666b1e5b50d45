from __future__ import annotations

import numpy as np
import pytest

from condiff.graph import approximate, nearest
from condiff.graph.approximate import CellIndex, neighbours_in_cells

pytest.importorskip("faiss", reason="faiss is not installed")


def points(n: int = 3000, d: int = 8) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def test_the_order_of_cells_names_every_point_once() -> None:
    order = CellIndex(points(), 5).cell_order()
    assert sorted(order.tolist()) == list(range(3000))


def test_points_of_a_cell_stand_together() -> None:
    x = points()
    order = CellIndex(x, 5).cell_order()
    steps = np.linalg.norm(np.diff(x[order].astype(np.float64), axis=0), axis=1)
    given = np.linalg.norm(np.diff(x.astype(np.float64), axis=0), axis=1)
    assert steps.mean() < 0.8 * given.mean()


def test_true_neighbours_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, sample = points(500), np.array([3, 77, 400])
    whole = CellIndex(x, 6)._truth(sample)
    distances = ((x[sample][:, None].astype(np.float64) - x) ** 2).sum(axis=2)
    np.testing.assert_array_equal(whole, np.argsort(distances, axis=1)[:, :6])
    monkeypatch.setattr(approximate, "_ROWS", 7)
    np.testing.assert_array_equal(CellIndex(x, 6)._truth(sample), whole)


@pytest.mark.parametrize("asked", [None, 40])
def test_blocks_cover_all_queries(monkeypatch: pytest.MonkeyPatch, asked: int | None) -> None:
    x = points(600)
    queries = None if asked is None else x[:asked]
    monkeypatch.setattr(approximate, "_ROWS", 100)
    seen = []
    for here, found, squares, recall in neighbours_in_cells(x, queries, 4, recall=1.0):
        assert found.shape == squares.shape == (len(here), 4)
        assert 0.99 <= recall <= 1.0
        np.testing.assert_array_equal(found[:, 0], here)
        seen += here.tolist()
    assert sorted(seen) == list(range(asked or 600))


def test_more_cells_are_visited_for_a_higher_recall() -> None:
    low, high = CellIndex(points(), 10, recall=0.5), CellIndex(points(), 10, recall=0.98)
    assert low._index.nprobe < high._index.nprobe
    assert high.recall > 0.95


def test_few_queries_get_their_true_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    base, asked = rng.normal(size=(3000, 8)) + 50.0, rng.normal(size=(40, 8)) + 50.0
    monkeypatch.setattr(approximate, "_ROWS", 700)
    found = nearest(base, 5, queries=asked, search="faiss", recall=0.2)
    exact = nearest(base, 5, queries=asked, search="exact")
    assert found.recall == 1.0
    np.testing.assert_array_equal(found.indices, exact.indices)
    monkeypatch.setattr(approximate, "_FEW", 39)
    assert nearest(base, 5, queries=asked, search="faiss", recall=0.2).recall < 1.0
