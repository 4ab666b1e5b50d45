"""COIN with learned weights against its layers written out, and within what the given graph certifies."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from condiff.diffusion import certify
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.learned import Kind, LearnedCOIN, Reads
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import Training


def test_without_anything_learned_it_is_explicit_layers(tiny_problem: NodeProblem) -> None:
    network = LearnedCOIN(kind="given", time=2.0).network(tiny_problem)
    with torch.no_grad():
        network.weight.normal_(generator=torch.Generator().manual_seed(0))  # type: ignore[operator,union-attr]
    weights = tiny_problem.graph.weights.toarray() + np.eye(12)
    walk = weights / np.sqrt(np.outer(weights.sum(1), weights.sum(1)))
    laplacian = torch.from_numpy(np.diag(walk.sum(1)) - walk).float()
    x = tiny_problem.x_dense / tiny_problem.x_dense.norm(dim=1, keepdim=True)
    u = torch.softmax(x @ network.weight, -1)  # type: ignore[operator]
    for _ in range(network.layers):  # type: ignore[arg-type]
        u = u - 2.0 / network.layers * laplacian @ u  # type: ignore[operator]
    torch.testing.assert_close(network(), torch.log(u / u.sum(-1, keepdim=True)))


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("reads", get_args(Reads))
def test_it_learns_and_stays_within_the_limit(tiny_problem: NodeProblem, kind: Kind, reads: Reads) -> None:
    slowly = Training(learning_rate=0.1, patience=30)  # four labels are soon overshot
    settings = LearnedCOIN(training=slowly, kind=kind, reads=reads, time=2.0, neighbours=2)
    network = settings.network(tiny_problem)
    # Up to the rounding of single precision; a mixture has the limit of its stricter graph.
    given = certify(tiny_problem.graph.normalised("symmetric", self_loops="add")).positivity_limit
    if kind != "mixture":
        assert float(network.strength) <= (1.0 if kind == "stochastic" else given) * (1 + 1e-6)  # type: ignore[arg-type]
    loss = torch.nn.functional.nll_loss(network.at(tiny_problem.train), tiny_problem.labels[tiny_problem.train])
    loss.backward()
    if kind == "mixture":
        assert network.mixture.logits.grad is not None  # type: ignore[union-attr]
    elif kind != "given":
        assert network.attention.bias.grad is not None  # type: ignore[union-attr]
    outcome = settings.solve(tiny_problem, 0)
    right = outcome.scores.argmax(-1).numpy() == np.repeat([0, 1], 6)
    assert right.sum() >= 10
    torch.testing.assert_close(outcome.scores.exp().sum(-1), torch.ones(12))


@pytest.mark.parametrize(
    ("settings", "said"), [({"kind": "loose"}, "kind"), ({"reads": "mind"}, "reads"), ({"time": 0.0}, "time")]
)
def test_unknown_settings_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{said} must be"):
        LearnedCOIN(**settings)  # type: ignore[arg-type]
