"""Graphs to diffuse on, some with eigenvalues and eigenvectors in closed form, shared by the tests of every solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from condiff.graph import DenseLaplacian, Graph, Laplacian, SparseLaplacian


@dataclass(frozen=True)
class Problem:
    """Weights with known modes: ``L modes[:, k] = eigenvalues[k] modes[:, k]``, the modes orthonormal."""

    name: str
    weights: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    modes: NDArray[np.float64]

    @property
    def n_nodes(self) -> int:
        return len(self.weights)

    @property
    def matrix(self) -> NDArray[np.float64]:
        return dense_laplacian(self.weights)

    def operator(self, kind: str = "sparse", dtype: torch.dtype = torch.float64) -> Laplacian:
        return operator_of(self.weights, kind, dtype)

    def evolved(self, factor: Callable[[NDArray[np.float64]], NDArray[np.float64]], u: Tensor) -> Tensor:
        """``u`` with every mode multiplied by ``factor(eigenvalue)``."""
        scaled = self.modes * factor(self.eigenvalues)
        return torch.from_numpy(scaled @ self.modes.T @ u.double().numpy()).to(u)


def path(n: int) -> Problem:
    """Eigenvalues 2 - 2 cos(pi k / n); the modes are cosines sampled at half integers."""
    k = np.arange(n)
    modes = np.cos(np.pi * np.outer(k + 0.5, k) / n)
    weights = np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    return Problem(f"path{n}", weights, 2 - 2 * np.cos(np.pi * k / n), modes / np.linalg.norm(modes, axis=0))


def cycle(n: int) -> Problem:
    """Eigenvalues 2 - 2 cos(2 pi k / n), twice each but for 0 and, when n is even, 4; the modes are Fourier's."""
    frequencies = [(k // 2 + k % 2, "cos" if k % 2 or k == 0 else "sin") for k in range(n)]
    angle = 2 * np.pi * np.arange(n) / n
    modes = np.stack([getattr(np, wave)(k * angle) for k, wave in frequencies], axis=1)
    eigenvalues = np.array([2 - 2 * np.cos(2 * np.pi * k / n) for k, _ in frequencies])
    weights = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
    return Problem(f"cycle{n}", weights, eigenvalues, modes / np.linalg.norm(modes, axis=0))


def complete(n: int) -> Problem:
    """Eigenvalue 0 for the constant and n for all that sums to zero; the modes are Helmert's contrasts."""
    modes = np.zeros((n, n))
    modes[:, 0] = 1
    for k in range(1, n):
        modes[:k, k], modes[k, k] = 1, -k
    eigenvalues = np.array([0.0] + [float(n)] * (n - 1))
    return Problem(f"complete{n}", 1 - np.eye(n), eigenvalues, modes / np.linalg.norm(modes, axis=0))


def star(leaves: int) -> NDArray[np.float64]:
    """The weights of a centre, node 0, with an edge of weight 1 to each leaf."""
    weights = np.zeros((leaves + 1, leaves + 1))
    weights[0, 1:] = weights[1:, 0] = 1
    return weights


def two_joined_of_four() -> NDArray[np.float64]:
    """The weights of one edge and two isolated nodes."""
    weights = np.zeros((4, 4))
    weights[0, 1] = weights[1, 0] = 1
    return weights


PROBLEMS = [path(7), cycle(8), cycle(9), complete(6)]

named = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])


def dense_laplacian(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """``diag(W 1) - W``, written out."""
    return np.diag(weights.sum(axis=1)) - weights


def operator_of(weights: NDArray[np.float64], kind: str = "sparse", dtype: torch.dtype = torch.float64) -> Laplacian:
    """The same Laplacian as a dense or a sparse operator."""
    if kind == "dense":
        return DenseLaplacian(torch.from_numpy(weights).to(dtype))
    return Graph.of(weights).laplacian(dtype)


def with_weights(operator: Laplacian, weights: Tensor) -> Laplacian:
    """The operator with other weights in the same places, so that a gradient check can move them one by one."""
    if isinstance(operator, SparseLaplacian):
        return SparseLaplacian(operator.crow_indices, operator.col_indices, weights, symmetric=operator.symmetric)
    return DenseLaplacian(weights, symmetric=operator.symmetric)


class Counting(DenseLaplacian):
    """Counts its products."""

    calls = 0

    def __call__(self, u: Tensor) -> Tensor:
        self.calls += 1
        return super().__call__(u)


def random_weights(n: int, seed: int, *, density: float = 0.5, directed: bool = False) -> NDArray[np.float64]:
    """Random non-negative weights, some of them self-loops."""
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < density)
    return weights if directed else (weights + weights.T) / 2


def graphs(*, directed: bool = False) -> st.SearchStrategy[NDArray[np.float64]]:
    """Random weights of small graphs, sparse to complete, some of them directed if those are wanted."""
    return st.builds(
        random_weights,
        st.integers(2, 12),
        st.integers(0, 10_000),
        density=st.sampled_from([0.1, 0.4, 0.5, 1.0]),
        directed=st.booleans() if directed else st.just(False),
    )


def random_u(n: int, columns: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random initial values, different in every column."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, columns))).to(dtype)


def random_simplex(n: int, columns: int = 3, seed: int = 0) -> Tensor:
    """Random probabilities, one row a node."""
    return torch.softmax(3 * random_u(n, columns, seed), dim=1)
