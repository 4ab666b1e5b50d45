from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.correct_and_smooth import CorrectAndSmooth
from condiff.reproduce.baselines.node.mlp import MLP
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import NODE

SHORT = replace(NODE, epochs=5)


def probabilities(n: int = 12, classes: int = 2) -> torch.Tensor:
    generator = np.random.default_rng(4)
    return torch.from_numpy(generator.dirichlet(np.ones(classes), n))


def dense(problem: NodeProblem, base: np.ndarray, correction: float, smoothing: float, scale: float | None) -> Any:
    """Both steps, written out with a dense matrix."""
    weights = problem.graph.weights.toarray()
    root = np.sqrt(weights.sum(1))
    matrix = weights / np.outer(root, root)
    train = problem.train.numpy()
    labels = np.eye(problem.n_classes)[problem.labels.numpy()[train]]
    error = np.zeros_like(base)
    error[train] = labels - base[train]
    spread = error.copy()
    for _ in range(50):
        spread = (1 - correction) * error + correction * matrix @ spread
        if scale is not None:
            spread[train] = error[train]
        assert np.abs(spread).max() <= 1
    if scale is None:
        corrected = base + np.abs(error[train]).sum(1).mean() * spread / np.abs(spread).sum(1, keepdims=True)
    else:
        corrected = base + scale * spread
    corrected[train] = labels
    result = corrected.copy()
    for _ in range(50):
        result = np.clip((1 - smoothing) * corrected + smoothing * matrix @ result, 0, 1)
    return result


@pytest.mark.parametrize("scale", [None, 0.7])
@pytest.mark.parametrize(("correction", "smoothing"), [(0.8, 0.9), (1.0, 0.5)])
def test_both_steps_as_a_dense_computation(
    tiny_problem: NodeProblem, correction: float, smoothing: float, scale: float | None
) -> None:
    method = CorrectAndSmooth(correction=correction, smoothing=smoothing, scale=scale)
    base = probabilities()
    expected = dense(tiny_problem, base.numpy(), correction, smoothing, scale)
    np.testing.assert_allclose(method.mended(base, tiny_problem).numpy(), expected, rtol=1e-6)


def test_with_nothing_spread_only_training_nodes_change(tiny_problem: NodeProblem) -> None:
    base = probabilities()
    mended = CorrectAndSmooth(correction=0.0, smoothing=0.0).mended(base, tiny_problem)
    train = tiny_problem.train
    others = torch.tensor([node for node in range(12) if node not in train])
    torch.testing.assert_close(mended[others], base[others])
    assert torch.equal(mended[train], torch.eye(2, dtype=base.dtype)[tiny_problem.labels[train]])


def test_without_edges_it_is_the_perceptron(tiny_problem: NodeProblem) -> None:
    apart = replace(tiny_problem, graph=Graph.of(np.zeros((12, 12))))
    scores = CorrectAndSmooth(training=SHORT).solve(apart, 3).scores
    assert torch.isfinite(scores).all()
    plain = MLP(training=SHORT).solve(apart, 3).scores.exp()
    others = torch.tensor([node for node in range(12) if node not in apart.train])
    # Nothing arrives, and the part that a node keeps of itself is the same for all classes.
    shares = scores[others] / scores[others].sum(1, keepdim=True)
    torch.testing.assert_close(shares, plain[others], rtol=1e-4, atol=1e-6)


def test_an_isolated_node_keeps_its_prediction(tiny_problem: NodeProblem) -> None:
    weights = tiny_problem.graph.weights.toarray()
    weights[3] = weights[:, 3] = 0.0
    base = probabilities()
    for scale in (None, 1.0):
        mended = CorrectAndSmooth(scale=scale).mended(base, replace(tiny_problem, graph=Graph.of(weights)))
        assert torch.isfinite(mended).all()
        assert mended[3].argmax() == base[3].argmax()


def test_a_perfect_base_needs_no_correction(tiny_problem: NodeProblem) -> None:
    right = torch.eye(2)[torch.arange(12) // 6]
    mended = CorrectAndSmooth(smoothing=0.0).mended(right, tiny_problem)
    assert torch.equal(mended, right)


def test_errors_are_mended_along_the_edges(tiny_problem: NodeProblem) -> None:
    uninformed = torch.full((12, 2), 0.5)
    assert torch.equal(CorrectAndSmooth().mended(uninformed, tiny_problem).argmax(1), torch.arange(12) // 6)


def test_the_same_seed_gives_the_same_bytes(tiny_problem: NodeProblem) -> None:
    method = CorrectAndSmooth(training=SHORT)
    first, second = method.solve(tiny_problem, 1), method.solve(tiny_problem, 1)
    assert torch.equal(first.scores, second.scores)
    assert first.epochs == 5
    assert not torch.equal(first.scores, method.solve(tiny_problem, 2).scores)


def test_validation_labels_are_not_propagated(tiny_problem: NodeProblem) -> None:
    labels = tiny_problem.labels.clone()
    labels[tiny_problem.validation] = 1 - labels[tiny_problem.validation]
    base, method = probabilities(), CorrectAndSmooth()
    assert torch.equal(method.mended(base, tiny_problem), method.mended(base, replace(tiny_problem, labels=labels)))


def test_recommended_settings_have_the_base_of_the_perceptron() -> None:
    for dataset in ("cora", "citeseer", "pubmed", "mine"):
        method, base = CorrectAndSmooth.recommended(dataset), MLP.recommended(dataset)
        assert (method.hidden, method.dropout, method.training) == (base.hidden, base.dropout, base.training)
    assert CorrectAndSmooth.recommended("mine") == CorrectAndSmooth()
    assert CorrectAndSmooth.recommended("cora") != CorrectAndSmooth()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"correction": 1.5}, "correction must be in 0 .. 1, not 1.5"),
        ({"smoothing": -0.5}, "smoothing must be in 0 .. 1, not -0.5"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1, not 0"),
        ({"scale": -1.0}, "scale must be finite and not negative, or None for autoscale, not -1.0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        CorrectAndSmooth(**settings)
