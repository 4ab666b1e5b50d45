from __future__ import annotations

import gc
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.diffusion.problems import (
    Problem,
    complete,
    cycle,
    dense_laplacian,
    kinds,
    named,
    operator_of,
    random_weights,
    star,
)

from condiff.diffusion import Certificate, Euler, certify, stability
from condiff.errors import CondiffError, StepSizeError, StepSizeWarning
from condiff.graph import DenseLaplacian, Graph, SparseLaplacian


def bounds_hold(certificate: Certificate, weights: np.ndarray) -> bool:
    true = np.linalg.eigvalsh(dense_laplacian(weights))[-1]
    rounding = 1e-13 * max(1.0, true)
    return certificate.lambda_max <= true + rounding and certificate.lambda_max_bound >= true - rounding


@pytest.mark.parametrize("density", [0.02, 0.1, 0.5, 1.0])
@kinds
def test_the_bounds_hold_on_many_random_graphs(density: float, kind: str) -> None:
    for seed in range(25):
        weights = random_weights(2 + 3 * seed, seed, density=density)
        certificate = certify(operator_of(weights, kind))
        assert bounds_hold(certificate, weights)
        true = np.linalg.eigvalsh(dense_laplacian(weights))[-1]
        assert certificate.lambda_max_bound <= true * (1 + 1e-5) + 1e-12 or certificate.evidence == "gershgorin"
        assert certificate.max_diagonal == pytest.approx(dense_laplacian(weights).diagonal().max())
        assert certificate.n_nodes == len(weights)


@pytest.mark.parametrize("density", [0.02, 0.1, 0.5])
def test_the_bounds_hold_without_factorisation(monkeypatch: pytest.MonkeyPatch, density: float) -> None:
    monkeypatch.setattr(stability, "_FACTORISE_UP_TO", 0)
    evidence = set()
    for seed in range(25):
        weights = random_weights(2 + 12 * seed, seed, density=density)
        certificate = certify(operator_of(weights))
        assert bounds_hold(certificate, weights)
        assert certificate.lambda_max_bound <= 2 * certificate.max_diagonal
        evidence.add(certificate.evidence)
    assert "factorisation" not in evidence


def test_lanczos_is_close_on_a_large_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stability, "_FACTORISE_UP_TO", 0)
    problem = cycle(500)
    weights = problem.weights * (1 + 0.5 * (np.arange(500) == 0)) * (1 + 0.5 * (np.arange(500) == 0))[:, None]
    certificate = certify(operator_of(weights))
    true = np.linalg.eigvalsh(dense_laplacian(weights))[-1]
    assert certificate.evidence == "lanczos"
    assert certificate.lambda_max == pytest.approx(true, rel=1e-9)
    assert true <= certificate.lambda_max_bound <= 1.005 * true


@named
@kinds
def test_closed_forms(problem: Problem, kind: str) -> None:
    certificate = certify(problem.operator(kind))
    assert certificate.lambda_max == pytest.approx(problem.eigenvalues.max(), rel=1e-10)
    assert certificate.stability_limit == pytest.approx(2 / problem.eigenvalues.max(), rel=2e-6)
    assert certificate.positivity_limit == pytest.approx(1 / problem.matrix.diagonal().max(), rel=1e-12)


@pytest.mark.parametrize("n", [3, 10, 40])
@kinds
def test_closed_forms_of_complete_graphs_even_cycles_and_stars(n: int, kind: str) -> None:
    for weights, eigenvalue, degree in (
        (complete(n).weights, n, n - 1),
        (cycle(2 * n).weights, 4, 2),
        (star(n), n + 1, n),
    ):
        certificate = certify(operator_of(weights, kind))
        assert certificate.stability_limit == pytest.approx(2 / eigenvalue, rel=2e-6)
        assert certificate.positivity_limit == pytest.approx(1 / degree, rel=1e-12)


def test_evidence_says_where_the_bound_comes_from() -> None:
    assert certify(complete(6).operator("sparse")).evidence == "factorisation"
    assert certify(complete(6).operator("dense")).evidence == "eigenvalues"
    # Of an even cycle, Gershgorin's bound 4 is the eigenvalue itself.
    assert certify(cycle(8).operator("sparse")).evidence == "gershgorin"


def test_a_wrong_bound_is_not_called_definite() -> None:
    operator = complete(6).operator("sparse")
    assert isinstance(operator, SparseLaplacian)
    assert stability._is_definite(operator, 6 * (1 + 1e-9))
    assert not stability._is_definite(operator, 6 * (1 - 1e-9))
    assert not stability._is_definite(operator, 6.0)  # singular


def test_an_eigenvalue_that_lanczos_missed_is_not_called_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = random_weights(30, 0)
    monkeypatch.setattr(stability, "_lanczos", lambda operator: (1.0, 2))
    certificate = certify(operator_of(weights))
    assert certificate.evidence == "gershgorin"  # two steps prove nothing, and 1 I - L is indefinite
    assert certificate.lambda_max_bound >= np.linalg.eigvalsh(dense_laplacian(weights))[-1]


@kinds
def test_directed_graphs_are_certified_for_positivity_only(kind: str) -> None:
    weights = random_weights(10, 0, directed=True)
    certificate = certify(operator_of(weights, kind))
    assert certificate.evidence == "directed"
    assert math.isnan(certificate.lambda_max)
    assert certificate.stability_limit == certificate.positivity_limit
    assert certificate.positivity_limit == pytest.approx(1 / dense_laplacian(weights).diagonal().max())
    step = Euler()(operator_of(weights, kind), torch.eye(10, dtype=torch.float64), certificate.positivity_limit, 1)
    assert step.min() >= -1e-15


@kinds
def test_a_graph_without_edges_has_no_limits(kind: str) -> None:
    certificate = certify(operator_of(np.zeros((3, 3)), kind))
    assert certificate.stability_limit == certificate.positivity_limit == math.inf
    assert certificate.problem(1e9) is None
    assert certificate.to_dict()["stability_limit"] is None


def test_self_loops_do_not_count() -> None:
    weights = random_weights(10, 0)
    bare = weights - np.diag(np.diag(weights))
    assert certify(operator_of(weights)).stability_limit == pytest.approx(certify(operator_of(bare)).stability_limit)


def test_a_batch_of_dense_graphs_is_certified_by_its_worst() -> None:
    batch = torch.from_numpy(np.stack([complete(6).weights, 3 * complete(6).weights]))
    certificate = certify(DenseLaplacian(batch))
    assert certificate.stability_limit == pytest.approx(2 / 18)
    assert certificate.positivity_limit == pytest.approx(1 / 15)


def test_graphs_operators_and_matrices_have_the_same_certificate() -> None:
    weights = random_weights(10, 0)
    limits = [
        certify(source).stability_limit
        for source in (
            Graph.of(weights),
            operator_of(weights),
            operator_of(weights, "dense"),
            torch.from_numpy(dense_laplacian(weights)),
            torch.from_numpy(dense_laplacian(weights)).to_sparse_csr(),
        )
    ]
    np.testing.assert_allclose(limits, limits[0], rtol=2e-6)


def test_single_precision_is_certified_in_double() -> None:
    weights = random_weights(20, 0)
    single, double = (certify(operator_of(weights, "sparse", dtype)) for dtype in (torch.float32, torch.float64))
    assert single.stability_limit == pytest.approx(double.stability_limit, rel=1e-6)


def test_one_operator_is_measured_once_and_forgotten_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    measure = stability._measure
    monkeypatch.setattr(stability, "_measure", lambda operator: measured.append(1) or measure(operator))
    operator = operator_of(random_weights(10, 0))
    first = certify(operator)
    assert certify(operator) is first
    assert len(measured) == 1
    known = len(stability._known)
    del operator
    gc.collect()
    assert len(stability._known) == known - 1


def test_weights_changed_in_place_are_measured_again() -> None:
    operator = operator_of(random_weights(10, 0))
    before = certify(operator).stability_limit
    operator.weights.mul_(2)
    assert certify(operator).stability_limit == pytest.approx(before / 2, rel=1e-5)


CERTIFICATE = certify(operator_of(star(4)))  # limits 2/5 and 1/4


@pytest.mark.parametrize("strength", [0.01, 0.25, 0.25 * (1 + 1e-7)])
def test_within_the_limits_there_is_nothing_to_say(strength: float) -> None:
    assert CERTIFICATE.problem(strength) is None
    CERTIFICATE.check(strength)
    CERTIFICATE.check(strength, strict=True)


@pytest.mark.parametrize(
    ("strength", "parts"),
    [
        (0.26, ["strength 0.26 is past the positivity limit 0.25", "stability limit 0.4)", "negative"]),
        (0.39, ["past the positivity limit 0.25"]),
        (0.41, ["strength 0.41 is past the stability limit 0.4", "positivity limit 0.25)", "modes grow"]),
        (7.0, ["past the stability limit 0.4"]),
    ],
)
def test_past_a_limit_the_message_gives_the_numbers_and_what_to_do(strength: float, parts: list[str]) -> None:
    message = CERTIFICATE.problem(strength)
    assert message is not None
    for part in [*parts, "strength='auto' takes 0.25"]:
        assert part in message
    assert "\n" not in message
    with pytest.warns(StepSizeWarning) as caught:
        CERTIFICATE.check(strength)
    assert [str(w.message) for w in caught] == [message]
    with pytest.raises(StepSizeError) as error:
        CERTIFICATE.check(strength, strict=True)
    assert str(error.value) == message
    assert isinstance(error.value, CondiffError)


@pytest.mark.parametrize("weights", [star(4), np.zeros((3, 3)), random_weights(5, 0, directed=True)])
def test_to_dict_is_plain_json(weights: np.ndarray) -> None:
    certificate = certify(operator_of(weights))
    values = certificate.to_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert set(values) == {
        "n_nodes",
        "max_diagonal",
        "lambda_max",
        "lambda_max_bound",
        "evidence",
        "stability_limit",
        "positivity_limit",
    }
    assert values["n_nodes"] == len(weights)


def test_cora_has_the_limits_in_the_design(data_root: Path) -> None:
    planetoid = pytest.importorskip("condiff.reproduce.datasets.planetoid")
    adjacency = planetoid.load("cora").adjacency
    graph = Graph.of(adjacency).largest_component()[0].normalised("symmetric", "add")
    certificate = certify(graph)
    assert certificate.n_nodes == 2485
    assert f"{certificate.lambda_max:.3f}" == "5.780"
    assert f"{certificate.stability_limit:.3f}" == "0.346"
    assert f"{certificate.positivity_limit:.3f}" == "0.174"
    assert certificate.evidence == "factorisation"
    message = certificate.problem(0.35)  # the paper's own setting
    assert message is not None
    assert "past the stability limit 0.346" in message
