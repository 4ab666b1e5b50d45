from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from condiff import kernels
from condiff.diffusion import SOLVERS, Diffusion, flow
from condiff.diffusion.flow import SOLVER_NAMES, Flow
from condiff.graph import Graph, kernel_graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    return kernel_graph(np.random.default_rng(0).normal(size=(60, 2)), 6, 3)


def start(columns: int = 3) -> np.ndarray:
    return np.random.default_rng(1).dirichlet(np.ones(columns), 60)


def test_the_names_of_the_solvers_are_known_without_them() -> None:
    assert set(SOLVER_NAMES) == set(SOLVERS)


@pytest.mark.parametrize("solver", SOLVER_NAMES)
@pytest.mark.parametrize("layers", [0, 1, 7])
def test_arrays_are_diffused_as_tensors_are(graph: Graph, solver: str, layers: int) -> None:
    expected = Diffusion(layers, 0.2, solver=solver)(torch.as_tensor(start()), graph.laplacian(torch.float64))
    tolerance = 1e-12 if solver in ("euler", "exact") else 1e-6  # the others have tolerances of their own
    np.testing.assert_allclose(Flow(graph, layers, 0.2, solver)(start()), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("solver", ["euler", "exact"])
def test_the_steps_lead_to_the_end(graph: Graph, solver: str) -> None:
    whole = Flow(graph, 5, 0.2, solver)
    steps = list(whole.steps(start()))
    assert len(steps) == 5
    np.testing.assert_array_equal(steps[0][0], start())
    for (_, after), (before, _) in itertools.pairwise(steps):
        np.testing.assert_array_equal(after, before)
    np.testing.assert_allclose(steps[-1][1], whole(start()), rtol=0, atol=1e-13)


@pytest.mark.skipif(not kernels.available(), reason="needs numba")
@pytest.mark.parametrize("columns", [1, 3, 70])
def test_compiled_loops_give_the_same(graph: Graph, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    u = start(columns)
    plain, plain_steps = Flow(graph, 6, 0.2)(u), [after for _, after in Flow(graph, 6, 0.2).steps(u)]
    monkeypatch.setattr(flow, "_WORTHWHILE", 0)
    np.testing.assert_allclose(Flow(graph, 6, 0.2)(u), plain, rtol=0, atol=1e-14)
    np.testing.assert_allclose([after for _, after in Flow(graph, 6, 0.2).steps(u)], plain_steps, rtol=0, atol=1e-14)
    assert Flow(graph, 0, 0.2)(u) is u
