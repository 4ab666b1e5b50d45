from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.graph import nearest, neighbours


def brute_force(points: Any, k: int, queries: Any = None, metric: str = "euclidean") -> tuple[np.ndarray, np.ndarray]:
    """All differences, written out; the point itself first, then ties to the smaller index."""
    base, asked = (
        np.asarray(x.toarray() if sp.issparse(x) else x) for x in (points, points if queries is None else queries)
    )
    if metric == "cosine":
        base, asked = (
            x / np.maximum(np.sqrt((x * x).sum(1, keepdims=True)), 1e-300).astype(x.dtype) for x in (base, asked)
        )
    base, asked = base.astype(np.float64), asked.astype(np.float64)
    distances = np.sqrt(((asked[:, None] - base[None]) ** 2).sum(axis=2))
    keys = distances.copy()
    if queries is None:
        np.fill_diagonal(keys, -1)
    order = np.stack([np.lexsort((np.arange(len(base)), row))[:k] for row in keys])
    return order, np.take_along_axis(distances, order, axis=1)


def check(found: neighbours.Neighbours, expected: tuple[np.ndarray, np.ndarray], tolerance: float = 1e-12) -> None:
    np.testing.assert_array_equal(found.indices, expected[0])
    np.testing.assert_allclose(found.distances, expected[1], rtol=tolerance, atol=tolerance)
    assert found.distances.dtype == np.float64


def gaussian(n: int = 150, d: int = 7, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


FORMS = {
    "float64": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "Fortran order": np.asfortranarray,
    "torch": torch.tensor,
    "lists": lambda x: x.tolist(),
    "sparse": lambda x: sp.csr_array(x * (np.abs(x) > 0.8)),
    "sparse coo": lambda x: sp.coo_array(x * (np.abs(x) > 0.8)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [1, 2, 10, 150])
def test_exact_search_equals_brute_force(form: str, k: int) -> None:
    points = FORMS[form](gaussian())
    check(nearest(points, k, search="exact"), brute_force(points, k))


@pytest.mark.parametrize(
    "form", [FORMS["float64"], FORMS["float32"], sp.csr_array], ids=["float64", "float32", "sparse"]
)
def test_cosine_equals_brute_force_on_unit_rows(form: Any) -> None:
    points = form(gaussian())
    check(nearest(points, 9, metric="cosine"), brute_force(points, 9, metric="cosine"), 1e-6)


def test_a_zero_row_stays_zero_under_the_cosine_metric() -> None:
    points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 0.5]])
    found = nearest(points, 3, metric="cosine")
    assert found.indices[0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.distances[0], [0.0, 1.0, 1.0])
    np.testing.assert_allclose(nearest(sp.csr_array(points), 3, metric="cosine").distances, found.distances)


@pytest.mark.parametrize("form", ["float64", "float32", "sparse"])
def test_queries_equal_brute_force_and_have_no_self(form: str) -> None:
    points, queries = FORMS[form](gaussian()), FORMS[form](gaussian(20, seed=1))
    check(nearest(points, 6, queries=queries), brute_force(points, 6, queries))
    check(nearest(points, 3, queries=points), brute_force(points, 3, queries=points))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_point_is_its_own_first_neighbour_among_duplicates(sparse: bool) -> None:
    points = np.repeat(gaussian(5), 30, axis=0)
    found = nearest(sp.csr_array(points) if sparse else points, 4)
    assert found.indices[:, 0].tolist() == list(range(150))
    check(found, brute_force(points, 4))
    # Then the other copies with the smallest indices, though far more of them are equally near than are measured first.
    assert found.indices[17].tolist() == [17, 0, 1, 2]
    assert found.indices[1].tolist() == [1, 0, 2, 3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ties_go_to_the_smaller_index(dtype: type) -> None:
    side = np.arange(12)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(dtype)
    shuffled = grid[np.random.default_rng(0).permutation(len(grid))]
    for k in (3, 5, 20):
        check(nearest(shuffled, k), brute_force(shuffled, k))


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_common_offset_costs_no_digits(dtype: type, offset: float) -> None:
    points = (gaussian(300, 5) + offset).astype(dtype)
    check(nearest(points, 8), brute_force(points, 8))


def test_close_pairs_far_from_everything_else_are_told_apart() -> None:
    # The expanded square has no digit left for these distances.
    points = np.concatenate([1e-9 * gaussian(100, 3), 1e3 + 1e-9 * gaussian(100, 3, seed=1)])
    check(nearest(points, 5), brute_force(points, 5))
    check(nearest(sp.csr_array(points), 5), brute_force(points, 5))


@pytest.mark.parametrize("unit", [1e-25, 1e25, 1e100])
def test_any_unit_of_length(unit: float) -> None:
    points = gaussian() * unit
    expected = brute_force(gaussian(), 6)
    found = nearest(points, 6)
    np.testing.assert_array_equal(found.indices, expected[0])
    np.testing.assert_allclose(found.distances / unit, expected[1], rtol=1e-12)


@pytest.mark.parametrize("form", ["float64", "float32", "sparse"])
@pytest.mark.parametrize("block_bytes", [1, 5000])
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, form: str, block_bytes: int) -> None:
    points = FORMS[form](np.round(gaussian(), 1))
    whole = nearest(points, 5)
    monkeypatch.setattr(neighbours, "BLOCK_BYTES", block_bytes)
    parts = nearest(points, 5)
    np.testing.assert_array_equal(parts.indices, whole.indices)
    np.testing.assert_array_equal(parts.distances, whole.distances)


@pytest.mark.parametrize("k", [0, -1, 6])
def test_k_out_of_bounds(k: int) -> None:
    with pytest.raises(InvalidInputError, match=f"asked for {k} neighbours among 5 points; choose 1 to 5"):
        nearest(gaussian(5), k)


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (np.ones(3), {}, r"one row each, not an array of shape \(3,\)"),
        (np.array([[1.0, np.nan]]), {}, "NaN or infinite"),
        (sp.csr_array([[1.0, np.inf]]), {}, "NaN or infinite"),
        (np.array([["a"]]), {}, "points must be real numbers, not <U1"),
        (np.array([[1j]]), {}, "points must be real numbers, not complex128"),
        (gaussian(), {"metric": "manhattan"}, "metric must be 'euclidean' or 'cosine', not 'manhattan'"),
        (gaussian(), {"search": "fast"}, "search must be 'auto', 'exact' or 'faiss', not 'fast'"),
        (gaussian(), {"queries": np.ones((2, 3))}, "the queries have 3 features but the points have 7"),
        (sp.csr_array(gaussian()), {"search": "faiss"}, "faiss searches dense points only"),
    ],
)
def test_bad_points_and_options_are_named(points: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        nearest(points, 1, **options)


def test_asking_for_faiss_without_having_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"condiff\[knn\]"):
        nearest(gaussian(), 2, search="faiss")
    monkeypatch.setattr(neighbours, "FAISS_FROM", 10)
    check(nearest(gaussian(), 2), brute_force(gaussian(), 2))  # auto does without


def clusters(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, d))[rng.integers(0, 40, n)] * 4 + rng.normal(size=(n, d))


def recall(found: neighbours.Neighbours, exact: neighbours.Neighbours) -> float:
    return float(
        np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found.indices, exact.indices, strict=True)])
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_faiss_finds_the_asked_for_share_and_says_which(dtype: type) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    points = clusters(4000, 16).astype(dtype)
    exact, found = nearest(points, 10, search="exact"), nearest(points, 10, search="faiss", recall=0.97)
    assert exact.recall == 1.0
    assert found.recall == pytest.approx(recall(found, exact), abs=0.015)
    assert found.recall > 0.95
    assert found.indices.dtype == np.int32
    assert found.distances.dtype == dtype
    assert found.indices[:, 0].tolist() == list(range(4000))
    assert np.all(found.distances[:, 0] == 0)
    assert np.all(np.diff(found.distances, axis=1) >= 0)
    same = found.indices == exact.indices
    assert same.mean() > 0.8
    np.testing.assert_allclose(
        found.distances[same], exact.distances[same], rtol=1e-5 if dtype == np.float32 else 1e-12
    )
    again = nearest(points, 10, search="faiss", recall=0.97)
    np.testing.assert_array_equal(found.indices, again.indices)


def test_a_lower_recall_visits_fewer_cells() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    points = clusters(4000, 16).astype(np.float32)
    low, high = (nearest(points, 10, search="faiss", recall=asked).recall for asked in (0.3, 1.0))
    assert low < 0.97 < 0.99 < high


def test_a_memory_mapped_file_is_searched_in_place(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    points = clusters(3000, 8).astype(np.float32)
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    found, expected = nearest(mapped, 5, search="faiss"), nearest(points, 5, search="faiss")
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    np.testing.assert_array_equal(
        nearest(mapped, 5, search="exact").indices, nearest(points, 5, search="exact").indices
    )


def test_an_offset_costs_faiss_no_neighbours() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    points = clusters(3000, 8)
    shifted = nearest(points + 1e7, 6, search="faiss", recall=1.0)
    assert recall(shifted, nearest(points, 6, search="exact")) > 0.99


def test_duplicates_keep_a_point_first_under_faiss() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    points = np.repeat(clusters(100, 4), 30, axis=0).astype(np.float32)
    found = nearest(points, 4, search="faiss")
    assert found.indices[:, 0].tolist() == list(range(3000))
    assert np.all(found.distances == 0)


@pytest.mark.parametrize("asked", [0.0, 1.5, float("nan")])
def test_a_recall_out_of_bounds(asked: float) -> None:
    with pytest.raises(InvalidInputError, match="recall must be above 0 and at most 1"):
        nearest(clusters(50, 3), 2, recall=asked)


def test_faiss_takes_over_past_its_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    monkeypatch.setattr(neighbours, "FAISS_FROM", 100)
    monkeypatch.setattr(neighbours, "_exact", None)  # would fail
    points, queries = clusters(400, 4), clusters(20, 4)
    check(nearest(points, 1, queries=points[:50]), (np.arange(50)[:, None], np.zeros((50, 1))))
    assert nearest(points, 3, queries=queries).indices.shape == (20, 3)


def test_faiss_fills_up_where_its_cells_are_too_small() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    points = clusters(900, 4)
    check(nearest(points, 900, search="faiss"), brute_force(points, 900))


MEASURE_MEMORY = """
import resource, sys, time
import numpy as np
from condiff.graph import nearest
points = np.random.default_rng(0).normal(size=(50_000, 64))
nearest(points[:500], 8, search="exact")
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
nearest(points, 8, search="exact")
unit = 1 if sys.platform == "darwin" else 1024
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit, time.perf_counter() - start)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the resource module is missing")
def test_exact_search_of_50000_points_takes_less_than_a_gigabyte() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE_MEMORY], capture_output=True, text=True, check=True)
    growth, seconds = map(float, done.stdout.split())
    print(f"{growth / 2**20:.0f} MB more, {seconds:.1f} s")
    assert growth < 1e9
