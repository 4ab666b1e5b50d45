"""The quadratic programs of MetaOptNet: conditions of optimality, another solver, and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.reproduce.baselines.fewshot.episodic.image_tasks import episode, network
from torch import Tensor

from condiff.reproduce.baselines.fewshot.episodic.metaoptnet import ridge_dual, svm_dual
from condiff.reproduce.baselines.fewshot.episodic.quadratic import solve_bounded


def program(seed: int, programs: int = 1, n: int = 5, m: int = 2) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    root, linear, bound = (
        torch.randn(programs, *shape, generator=generator, dtype=torch.float64) for shape in ((n, n), (n,), (n,))
    )
    equality = torch.randn(m, n, generator=generator, dtype=torch.float64)
    # Some point below the bounds satisfies the equalities.
    inside = bound - torch.rand(programs, n, generator=generator, dtype=torch.float64)
    return root @ root.mT + 0.5 * torch.eye(n, dtype=torch.float64), linear, bound, equality, inside @ equality.mT


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_the_conditions_of_optimality(seed: int) -> None:
    quadratic, linear, bound, equality, value = program(seed, programs=3)
    z = solve_bounded(quadratic, linear, bound, equality, value)
    torch.testing.assert_close(z @ equality.mT, value, rtol=1e-7, atol=1e-7)
    assert (z <= bound + 1e-8).all()
    slope = (quadratic @ z[..., None])[..., 0] + linear
    for row, left, each in zip(z, bound - z, slope, strict=True):
        # slope + multipliers + A^T prices = 0, multipliers not negative and zero away from the bounds.
        assert len(row) == 5
        free = left > 1e-6
        columns = torch.cat([equality.mT, torch.eye(5, dtype=torch.float64)[:, ~free]], dim=1)
        found = torch.linalg.lstsq(columns, -each[:, None], driver="gelsd").solution[:, 0]
        torch.testing.assert_close(columns @ found, -each, rtol=1e-5, atol=1e-5)
        if columns.shape[1] <= 5:  # else prices and multipliers are not told apart
            assert (found[2:] > -1e-5).all()


def test_another_solver_finds_the_same() -> None:
    quadratic, linear, bound, equality, value = (part.numpy() for part in program(1))
    found = minimize(
        lambda z: 0.5 * z @ quadratic[0] @ z + linear[0] @ z,
        bound[0] - 1,
        jac=lambda z: quadratic[0] @ z + linear[0],
        bounds=[(None, top) for top in bound[0]],
        constraints={"type": "eq", "fun": lambda z: equality @ z - value[0], "jac": lambda z: equality},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(solve_bounded(*program(1))[0], found.x, rtol=1e-5, atol=1e-6)


def test_programs_do_not_see_each_other() -> None:
    parts = program(2, programs=4)
    together = solve_bounded(*parts)
    for number in range(4):
        alone = solve_bounded(
            *(part[number : number + 1] if part.ndim != 2 or len(part) == 4 else part for part in parts)
        )
        torch.testing.assert_close(together[number], alone[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients(seed: int) -> None:
    quadratic, linear, bound, equality, value = program(seed)
    root = torch.linalg.cholesky(quadratic).requires_grad_()

    def solution(root: Tensor, linear: Tensor) -> Tensor:
        return solve_bounded(root @ root.mT, linear, bound, equality, value)

    assert torch.autograd.gradcheck(solution, (root, linear.requires_grad_()), eps=1e-6, atol=1e-5, rtol=1e-3)


def test_the_machine_of_crammer_and_singer() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, members = torch.randn(6, 4, generator=generator, dtype=torch.float64), torch.eye(3).repeat_interleave(2, 0)
    penalty = 0.3
    alpha = svm_dual(rows @ rows.T, members, penalty)
    torch.testing.assert_close(alpha.sum(1), torch.zeros(6, dtype=torch.float64), rtol=0, atol=1e-8)
    assert (alpha <= penalty * members + 1e-8).all()
    # No gap to the primal: 1/2 |W|^2 + C sum_i max_c (w_c x_i - w_y x_i + 1 - [c = y]).
    weights = alpha.T @ rows
    scores = rows @ weights.T
    own = (scores * members).sum(1, keepdim=True)
    primal = 0.5 * (weights**2).sum() + penalty * (scores - own + 1 - members).amax(1).sum()
    dual = -0.5 * (weights**2).sum() + (alpha * members).sum()
    assert float(primal) == pytest.approx(float(dual), abs=1e-4)


def test_ridge_regression() -> None:
    rows, members = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.eye(3).repeat_interleave(2, 0)
    alpha = ridge_dual(rows @ rows.T, members, 2.0)
    # Stationary: (K + lambda I) alpha = 2 Y.
    torch.testing.assert_close(rows @ (rows.T @ alpha) + 2.0 * alpha, 2 * members, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("head", ["svm", "ridge"])
def test_both_heads_train_the_encoder(head: str) -> None:
    model, task = network("MetaoptNet", head=head).train(), episode(shots=2)
    model.loss(task).backward()
    slopes = [value.grad for value in model.parameters()]
    assert all(slope is not None and torch.isfinite(slope).all() for slope in slopes)
    assert max(float(slope.abs().max()) for slope in slopes if slope is not None) > 0


def test_labels_are_smoothed_as_published() -> None:
    model, task = network("MetaoptNet").eval(), episode(shots=2)
    logs = model(task.support, task.labels, task.query).log_softmax(-1)
    smooth = torch.full((12, 3), 0.1 / 2)
    smooth[torch.arange(12), task.truth] = 0.9
    torch.testing.assert_close(model.loss(task), -(smooth * logs).sum(-1).mean(), rtol=1e-4, atol=1e-5)
