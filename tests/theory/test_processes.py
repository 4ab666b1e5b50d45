from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from condiff.bases import Residual
from condiff.errors import InvalidInputError
from condiff.theory import StochasticNetwork, dropout, noise_injection, residual, residual_of, shake_shake
from condiff.theory import stochastic_depth as with_stochastic_depth
from condiff.theory.operators import Array
from condiff.theory.processes import Bernoulli, Gaussian, Law, Uniform
from condiff.theory.zoo import field, second_field, small_resnet

X = np.array([[0.3, -0.8], [1.1, 0.4], [-0.5, 0.2]])
P = 0.7

NETWORKS: dict[str, Callable[..., StochasticNetwork]] = {
    "noise": lambda **more: noise_injection(field, 2, 0.5, **more),
    "dropout": lambda **more: dropout(field, 2, P, **more),
    "shake-shake": lambda **more: shake_shake(field, second_field, 2, **more),
    "stochastic depth": lambda **more: with_stochastic_depth(field, 2, P, **more),
}
networks = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())


def read_out(x: Array) -> Array:
    return 1 / (1 + np.exp(-2 * x[:, 0] + x[:, 1]))


@pytest.mark.parametrize("law", [Gaussian(2), Bernoulli(2, 0.3, 2.0), Uniform()], ids=lambda law: type(law).__name__)
def test_laws_have_their_moments_drawn_and_summed(law: Law) -> None:
    weights, nodes = law.nodes()
    assert weights.min() > 0
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ nodes == pytest.approx(np.zeros(law.size), abs=1e-12)
    covariance = (weights[:, None] * nodes).T @ nodes
    assert covariance == pytest.approx(law.variance * np.eye(law.size))
    drawn = law.draw(200_000, np.random.default_rng(0))
    assert np.cov(drawn.T) == pytest.approx(np.squeeze(covariance), abs=0.01)
    assert (drawn**3).mean(0) == pytest.approx(weights @ nodes**3, abs=0.05)


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("noise", lambda v, w: 0.5**2 / 2 * np.eye(2)),
        ("dropout", lambda v, w: (1 - P) / (2 * P) * np.diag(v**2)),
        ("shake-shake", lambda v, w: np.outer(v - w, v - w) / 24),
        ("stochastic depth", lambda v, w: P * (1 - P) / 2 * np.outer(v, v)),
    ],
)
def test_the_diffusion_is_the_papers(name: str, truth: Callable[[Array, Array], Array]) -> None:
    found = NETWORKS[name]().sigma(X, 0.0)
    for point, matrix in zip(X, found, strict=True):
        assert matrix == pytest.approx(truth(field(point[None])[0], second_field(point[None])[0]))


def test_layers_of_thickness_one_are_the_networks_as_they_are_written() -> None:
    v = field(X)
    for z, share in ((np.array([1.0, 0.0]), P * (1 - P)), (np.array([1.0, 1.0]), P**2)):
        # Which outcome a weight belongs to is read off a function that is one there alone.
        target = X[:1] + v[:1] * z / P
        operator = dropout(field, 2, P, step=1.0)
        found = operator(lambda y, target=target: np.isclose(y, target).all(1).astype(float), X[:1], 1.0)
        assert found == pytest.approx(share)
    dropped = with_stochastic_depth(field, 2, P, step=1.0)
    assert dropped(lambda y: np.isclose(y, X[:1]).all(1) * 1.0, X[:1], 1.0) == pytest.approx(1 - P)
    assert dropped(lambda y: np.isclose(y, X[:1] + v[:1]).all(1) * 1.0, X[:1], 1.0) == pytest.approx(P)


@networks
def test_sums_over_all_outcomes_are_the_mean_of_draws(make: Callable[..., StochasticNetwork]) -> None:
    network = make(step=0.5)
    drawn = network.sample(read_out, X, samples=20_000, seed=3)
    # Shake-shake and the Gaussian are summed by quadrature, whose error is far below that of sampling.
    assert np.abs((drawn.mean - network(read_out, X, 1.0)) / drawn.error).max() < 4
    again = network.sample(read_out, X, samples=20_000, seed=3)
    assert (again.mean == drawn.mean).all()
    assert (network.sample(read_out, X, samples=20_000, seed=4).mean != drawn.mean).all()


def test_a_network_without_noise_is_its_composition() -> None:
    network = residual(field, 2, step=0.5)
    moved = X + 0.5 * field(X, 0.0)
    moved = moved + 0.5 * field(moved, 0.5)
    assert network(lambda y: y, X, 1.0) == pytest.approx(moved)
    assert not network.sigma(X, 0.0).any()
    assert network.sample(lambda y: y, X, samples=2).error == pytest.approx(0.0)


def test_the_blocks_of_a_residual_network_are_its_layers() -> None:
    network = small_resnet(5)
    operator = residual_of(network, horizon=2.0)
    # The read-out of this network is the identity.
    truth = network(torch.as_tensor(X)).detach().numpy()
    assert operator(lambda y: y, X, 2.0) == pytest.approx(truth, abs=1e-12)
    branch = network.velocity(torch.as_tensor(X), 3).detach().numpy()
    assert operator.drift(X, 3 * 0.4) == pytest.approx(branch / 0.4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dropout(field, 2, 0.0), "p, the probability to keep a unit"),
        (lambda: noise_injection(field, 2, -1.0), "noise must be finite and not negative"),
        (lambda: StochasticNetwork(2, field, law=Uniform()), "mixing and law go together"),
        (lambda: residual(field, 2, step=3.0), "step must be positive and at most the horizon"),
        (lambda: residual_of(Residual(2, 2, blocks=0)), "at least one block"),
        (lambda: residual_of(Residual(2, 2, width=3)), "as wide as its input"),
        (lambda: dropout(field, 2, 0.5, step=1 / 32)(read_out, X, 1.0), "or draw with sample"),
        (lambda: dropout(field, 2, 0.5).sample(read_out, X, samples=1), "samples must be at least 2"),
        (lambda: dropout(field, 2, 0.5).sample(read_out, X, 2.0), "times must obey"),
    ],
)
def test_errors_say_what_is_wrong(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
