from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from condiff.diffusion import degrees_of_freedom, diffusion_time
from condiff.graph import Graph, SparseLaplacian, kernel_graph


def path(n: int) -> sp.csr_array:
    return sp.csr_array(sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1]))


def cycle(n: int) -> sp.csr_array:
    steps = np.arange(n)
    ring = sp.coo_array((np.ones(n), (steps, (steps + 1) % n)), shape=(n, n))
    return sp.csr_array(ring + ring.T)


def complete(n: int) -> sp.csr_array:
    return sp.csr_array(np.ones((n, n)) - np.eye(n))


def points(n: int) -> sp.csr_array:
    return kernel_graph(np.random.default_rng(0).normal(size=(n, 3)), 10, 5, tuning="pair").weights


GRAPHS = {"path": path, "cycle": cycle, "complete": complete, "points": points}


def eigenvalues(weights: sp.csr_array) -> NDArray[np.float64]:
    dense = weights.toarray()
    return np.linalg.eigvalsh(np.diag(dense.sum(axis=1)) - dense).clip(0)


def trace(values: NDArray[np.float64], time: float) -> float:
    return float(np.exp(-time * values).sum())


@pytest.mark.parametrize("name", sorted(GRAPHS))
@pytest.mark.parametrize("n", [12, 100, 256])
@pytest.mark.parametrize("dimension", [1.5, 3.0, 9.7])
def test_small_graphs_are_solved_exactly(name: str, n: int, dimension: float) -> None:
    weights = GRAPHS[name](n)
    time = diffusion_time(Graph.of(weights).laplacian(torch.float64), dimension)
    assert time > 0
    assert trace(eigenvalues(weights), time) == pytest.approx(dimension, rel=1e-6)


def test_two_nodes_are_solved_in_closed_form() -> None:
    # 1 + exp(-2 t) = 1.25
    time = diffusion_time(Graph.of(np.array([[0.0, 1.0], [1.0, 0.0]])).laplacian(torch.float64), 1.25)
    assert time == pytest.approx(np.log(4) / 2)


@pytest.mark.parametrize("name", ["path", "cycle", "points"])
@pytest.mark.parametrize("dimension", [8.0, 30.0, 120.0])
def test_larger_graphs_are_solved_nearly(name: str, dimension: float) -> None:
    weights = GRAPHS[name](600)
    time = diffusion_time(Graph.of(weights).laplacian(torch.float64), dimension)
    assert trace(eigenvalues(weights), time) == pytest.approx(dimension, rel=0.15)


@pytest.mark.parametrize("n", [100, 600])
def test_degrees_of_freedom_are_the_inverse(n: int) -> None:
    graph = Graph.of(points(n))
    values = eigenvalues(graph.weights)
    assert degrees_of_freedom(graph, 0.0) == n
    for time in (0.5, 4.0, 30.0):
        left = degrees_of_freedom(graph, time)
        assert left == pytest.approx(trace(values, time), rel=1e-4 if n == 100 else 0.15)
        assert diffusion_time(graph, left) == pytest.approx(time, rel=1e-6)


def test_single_precision_agrees_with_double() -> None:
    graph = Graph.of(points(400))
    single, double = (diffusion_time(graph.laplacian(dtype), 12.0) for dtype in (torch.float32, torch.float64))
    assert single == pytest.approx(double, rel=1e-2)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from([60, 400]), st.lists(st.floats(1.1, 300.0), min_size=2, max_size=2))
def test_fewer_degrees_of_freedom_take_longer(n: int, dimensions: list[float]) -> None:
    operator = Graph.of(cycle(n)).laplacian(torch.float64)
    more, fewer = max(dimensions), min(dimensions)
    assert diffusion_time(operator, fewer) >= diffusion_time(operator, more)


@pytest.mark.parametrize("n", [40, 400])
def test_faster_diffusion_takes_less_time(n: int) -> None:
    slow, fast = (diffusion_time(Graph.of(c * cycle(n)).laplacian(torch.float64), 5.0) for c in (1.0, 4.0))
    assert slow == pytest.approx(4 * fast, rel=1e-3)


@pytest.mark.parametrize("size", [30, 100])
def test_components_that_never_mix_bound_the_trace(size: int) -> None:
    weights = sp.csr_array(sp.block_diag([cycle(size)] * 4))
    operator = Graph.of(weights).laplacian(torch.float64)
    # Four constants stay for ever: six degrees of freedom are reached, two never are.
    time = diffusion_time(operator, 6.0)
    assert trace(eigenvalues(weights), time) == pytest.approx(6.0, rel=1e-6 if 4 * size <= 256 else 0.15)
    rest = diffusion_time(operator, 2.0)
    assert time < rest < 10 * time
    assert trace(eigenvalues(weights), rest) == pytest.approx(4.0, abs=0.5)


def cliques(count: int, size: int, bridge: float) -> sp.csr_array:
    """Cliques in a ring, with one edge of the given weight from each to the next."""
    weights = sp.lil_array(sp.block_diag([complete(size) / size] * count))
    for i in range(count):
        a, b = i * size, (i + 1) % count * size + 1
        weights[a, b] = weights[b, a] = bridge
    return sp.csr_array(weights)


@pytest.mark.parametrize("bridge", [0.0, 1e-9, 1e-6, 1e-4])
@pytest.mark.parametrize(("count", "size"), [(20, 8), (60, 10), (300, 3)])
def test_parts_that_hardly_exchange_heat_are_not_waited_for(count: int, size: int, bridge: float) -> None:
    operator = Graph.of(cliques(count, size, bridge)).laplacian(torch.float64)
    time = diffusion_time(operator, 4.0)
    # Inside a clique the slowest mode has the eigenvalue 1: it is smoothed away, and little more time is spent.
    assert 2.0 < time < 20.0


@pytest.mark.parametrize("bridge", [0.1, 1.0])
def test_parts_that_do_exchange_heat_are(bridge: float) -> None:
    weights = cliques(20, 8, bridge)
    time = diffusion_time(Graph.of(weights).laplacian(torch.float64), 4.0)
    assert trace(eigenvalues(weights), time) == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("n", [200, 1500])
def test_one_hot_columns(n: int) -> None:
    # Many duplicates: every combination is a part of its own.
    columns = [np.eye(k)[np.random.default_rng(k).integers(0, k, n)] for k in (6, 5, 4)]
    operator = kernel_graph(np.hstack(columns), 15, 7, tuning="pair").laplacian()
    assert 1.0 < diffusion_time(operator, 4.0) * float(operator.diagonal.max()) < 100.0


def test_a_hub_is_no_reason_to_stop_before_anything_has_mixed() -> None:
    # Steps are as short as the hub needs them, and for the first of them the others have hardly begun.
    weights = sp.lil_array(cycle(200))
    weights[0, 1:] = weights[1:, 0] = 1e-3
    weights[0, 1] = weights[1, 0] = 100.0
    time = diffusion_time(Graph.of(sp.csr_array(weights)).laplacian(torch.float64), 5.0)
    assert trace(eigenvalues(sp.csr_array(weights)), time) == pytest.approx(5.0, rel=1e-6)


@pytest.mark.parametrize("n", [5, 300])
def test_without_edges_there_is_nothing_to_wait_for(n: int) -> None:
    assert diffusion_time(Graph.of(sp.csr_array((n, n))).laplacian(torch.float64), 2.0) == 0.0


@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("excess", [0.0, 5.0])
def test_as_many_degrees_of_freedom_as_nodes_take_no_time(n: int, excess: float) -> None:
    assert diffusion_time(Graph.of(cycle(n)).laplacian(torch.float64), n + excess) == 0.0


def test_it_is_deterministic_by_its_seed_and_leaves_global_randomness_alone() -> None:
    operator = Graph.of(points(400)).laplacian(torch.float64)
    before = torch.get_rng_state()
    first, again, other = (diffusion_time(operator, 10.0, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert first == pytest.approx(other, rel=0.3)
    assert torch.equal(torch.get_rng_state(), before)


def test_more_probes_come_closer() -> None:
    weights = points(400)
    operator, values = Graph.of(weights).laplacian(torch.float64), eigenvalues(weights)

    def error(probes: int) -> float:
        return float(
            np.mean([abs(trace(values, diffusion_time(operator, 10.0, probes=probes, seed=s)) - 10) for s in range(5)])
        )

    assert error(256) < error(2)


def test_what_was_measured_on_a_graph_serves_other_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.of(cycle(300))
    expected = [diffusion_time(graph.laplacian(torch.float32), dimension) for dimension in (10.0, 40.0, 5.0)]
    products = []
    apply = SparseLaplacian.product
    monkeypatch.setattr(SparseLaplacian, "product", lambda *a, **k: (products.append(1), apply(*a, **k))[1])
    assert [diffusion_time(graph, dimension) for dimension in (10.0, 40.0)] == expected[:2]
    so_far = len(products)
    assert so_far
    assert diffusion_time(graph, 10.0) == expected[0]
    assert len(products) == so_far  # nothing was measured again
    assert diffusion_time(graph, 5.0) == expected[2]
    assert len(products) > so_far


@pytest.mark.parametrize("name", sorted(GRAPHS))
@pytest.mark.parametrize("dimension", [3.0, 9.7])
@pytest.mark.parametrize("n", [200, 600])
def test_where_nodes_are_alike_a_robust_time_is_the_same(name: str, dimension: float, n: int) -> None:
    graph = Graph.of(GRAPHS[name](n))
    assert diffusion_time(graph, dimension, robust=True) == pytest.approx(diffusion_time(graph, dimension), rel=1e-5)


def test_pockets_that_hang_on_by_a_thread_do_not_prolong_a_robust_time() -> None:
    # Thirty pairs of nodes on a ring of 600, by threads of very different strengths, so that the trace never rests.
    threads = sp.lil_array((600, 60))
    threads[np.arange(0, 600, 20), np.arange(0, 60, 2)] = np.geomspace(1e-1, 1e-5, 30)
    ring, pairs = cycle(600), sp.block_diag([complete(2)] * 30)
    graph = Graph.of(sp.csr_array(sp.block_array([[ring, threads], [threads.T, pairs]])))
    alone = diffusion_time(Graph.of(ring), 12.0)
    assert diffusion_time(graph, 12.0) > 10 * alone
    assert alone / 2 < diffusion_time(graph, 12.0, robust=True) < 4 * alone
