from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.diffusion.problems import Problem, complete, cycle, graphs, operator_of, random_simplex, random_u, star

from condiff.diffusion import Euler, certify


@pytest.mark.parametrize("problem", [cycle(8), complete(6)], ids=lambda p: p.name)
def test_the_stability_limit_is_sharp(problem: Problem) -> None:
    limit = 2 / problem.eigenvalues.max()
    fastest = torch.from_numpy(problem.modes[:, [int(problem.eigenvalues.argmax())]])
    within = Euler()(problem.operator(), fastest, 0.999 * limit, 300)
    past = Euler()(problem.operator(), fastest, 1.01 * limit, 300)
    assert within.norm() < 1
    assert past.norm() > 100


def test_the_positivity_limit_is_sharp() -> None:
    # The centre of a star loses more than it has as soon as strength x degree is past 1.
    operator = operator_of(star(5))
    limit = certify(operator).positivity_limit
    assert limit == pytest.approx(1 / 5)
    u = torch.eye(6, dtype=torch.float64)[:, [0]]
    assert Euler()(operator, u, limit, 1).min() >= 0
    assert Euler()(operator, u, 1.001 * limit, 1).min() < 0


def share(fraction: float, limit: float) -> float:
    """A share of a limit, which a graph without edges does not have."""
    return fraction * limit if np.isfinite(limit) else fraction


@settings(max_examples=40, deadline=None)
@given(graphs(directed=True), st.floats(0.01, 1.0))
def test_within_the_positivity_limit_every_layer_is_an_average(weights: np.ndarray, fraction: float) -> None:
    operator = operator_of(weights)
    strength = share(fraction, certify(operator).positivity_limit)
    step = Euler()(operator, torch.eye(len(weights), dtype=torch.float64), strength, 1)
    assert step.min() >= -1e-14
    torch.testing.assert_close(step.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-13)
    u = random_simplex(len(weights))
    after = Euler()(operator, u, strength, 10)
    assert (after <= u.max(dim=0).values + 1e-13).all()
    assert (after >= u.min(dim=0).values - 1e-13).all()
    torch.testing.assert_close(after.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.floats(0.01, 1.0))
def test_within_the_stability_limit_the_norm_never_grows_and_mass_stays(weights: np.ndarray, fraction: float) -> None:
    operator = operator_of(weights)
    strength = share(fraction, certify(operator).stability_limit)
    u = random_u(len(weights))
    after = Euler()(operator, u, strength, 10)
    assert (after.norm(dim=0) <= u.norm(dim=0) * (1 + 1e-12)).all()
    torch.testing.assert_close(after.sum(dim=0), u.sum(dim=0), rtol=0, atol=1e-11)
