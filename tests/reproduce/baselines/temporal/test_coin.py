"""COIN on series against the plain fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from condiff.model import COIN as Network
from condiff.reproduce.baselines.temporal.coin import COIN
from condiff.reproduce.baselines.temporal.problem import TemporalProblem
from condiff.training import COVID, Problem, fit

SHORT = replace(COVID, epochs=30)


def test_it_is_the_papers_network_fitted_plainly(waves: TemporalProblem) -> None:
    outcome = COIN(layers=3, strength=0.2, training=SHORT).solve(waves, 4)
    torch.manual_seed(4)
    network = Network.build(
        4, 1, hidden_features=16, activation="elu", head="identity", layers=3, strength=0.2, dropout=0.25
    )
    part = waves.training
    fit(Problem(network, part.x, part.laplacian, part.targets, settings=SHORT, seed=4), "reference")
    with torch.no_grad():
        u = network.base(waves.inputs[waves.test])[..., 0].double().numpy()
    for position, snapshot in enumerate(range(8, 16)):
        dense = waves.graphs.weights[snapshot].toarray()
        np.fill_diagonal(dense, 0.0)
        degree = dense.sum(axis=1)
        scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)
        weights = scale[:, None] * dense * scale
        step = np.eye(len(dense)) - 0.2 * (np.diag(weights.sum(1)) - weights)
        expected = np.linalg.matrix_power(step, 3) @ u[position]
        np.testing.assert_allclose(outcome.predictions[position], expected, rtol=1e-3, atol=1e-4)
    assert outcome.epochs == 30


def test_its_settings_are_the_papers() -> None:
    settings = COIN().settings()
    assert (settings["hidden"], settings["layers"], settings["strength"], settings["dropout"]) == (16, 10, 0.5, 0.25)
    assert COIN().training == COVID


def test_a_step_past_the_limit_is_no_warning_here(waves: TemporalProblem) -> None:
    COIN(strength=5.0, training=replace(COVID, epochs=1)).solve(waves, 0)  # warnings are errors in the tests


def test_without_layers_it_is_the_network_alone(waves: TemporalProblem) -> None:
    one = COIN(layers=0, training=SHORT).solve(waves, 0).predictions
    bare = replace(waves, graphs=replace(waves.graphs, weights=tuple(0 * graph for graph in waves.graphs.weights)))
    two = COIN(layers=7, dropout=0.0, training=SHORT).solve(bare, 0).predictions
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
