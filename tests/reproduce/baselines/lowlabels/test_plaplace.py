"""The p-Laplacian: where it is least, by compiled loops and without them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff import kernels
from condiff.reproduce.baselines.lowlabels.field import FieldGraph
from condiff.reproduce.baselines.lowlabels.method import LowLabelProblem
from condiff.reproduce.baselines.lowlabels.plaplace import PLaplace, Stiffness


@pytest.mark.parametrize("p", [2.5, 3.0, 4.5])
def test_it_is_where_no_point_pulls_any_more(problem: LowLabelProblem, p: float) -> None:
    found = PLaplace(p=p, tolerance=1e-4).scores(problem)
    free = np.setdiff1d(np.arange(120), problem.known)
    assert np.array_equal(found[problem.known], problem.indicators)
    for column in found.T:
        apart = column[None, :] - column[:, None]
        pull = problem.graph.weights.toarray() * np.abs(apart) ** (p - 2) * apart
        assert np.abs(pull.sum(axis=1)[free]).max() < 1e-3 * np.abs(pull).sum(axis=1).max()


def test_on_a_path_it_is_a_straight_line_whatever_the_power() -> None:
    weights = sp.csr_array(sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(21, 21)))
    points = np.zeros((21, 1), np.float32)
    path = LowLabelProblem("path", points, FieldGraph(weights), np.array([0, 20]), np.array([0, 1]), np.array([10, 11]))
    for p in (2.5, 3.0, 4.0):
        assert np.allclose(PLaplace(p=p).scores(path)[:, 1], np.linspace(0, 1, 21), atol=1e-3)


def test_compiled_loops_do_what_sparse_products_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    generator = np.random.default_rng(0)
    some = sp.random_array((200, 200), density=0.05, rng=generator)
    weights = sp.csr_array(some + some.T)
    u, v = (generator.normal(size=(200, 32)).astype(np.float32) for _ in range(2))
    u[:50] = 0.5  # edges that are not steep at all
    compiled = Stiffness(weights, u, 3.0)
    found = compiled.stiffness, compiled.pull, compiled(v, np.arange(1))
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain = Stiffness(weights, u, 3.0)
    for ours, theirs in zip(found, (plain.stiffness, plain.pull, plain(v, np.arange(1))), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
