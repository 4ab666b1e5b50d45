import dataclasses

import numpy as np
import pytest
import torch

from condiff.diffusion import certify
from condiff.graph import Graph
from condiff.reproduce.baselines.node.coin import COIN, CertifiedCOIN
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import NODE

QUICK = dataclasses.replace(NODE, epochs=30)


def _plain(problem: NodeProblem, seed: int, layers: int, strength: float, epochs: int) -> torch.Tensor:
    """The paper's equations on dense tensors, and torch's own optimiser."""
    torch.manual_seed(seed)
    width = problem.n_features
    inner, outer = torch.nn.Linear(width, width), torch.nn.Linear(width, problem.n_classes)
    adjacency = torch.from_numpy(problem.graph.weights.toarray()).float() + torch.eye(problem.n_nodes)
    scale = adjacency.sum(1).rsqrt()
    weights = scale[:, None] * adjacency * scale
    laplacian = torch.diag(weights.sum(1)) - weights
    x = problem.x_dense

    def output() -> torch.Tensor:
        u = torch.softmax(outer(x + torch.relu(inner(x))), dim=1)
        for _ in range(layers):
            u = u - strength * laplacian @ u
        return u

    optimiser = torch.optim.Adam([*inner.parameters(), *outer.parameters()], lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimiser.zero_grad()
        torch.nn.functional.nll_loss(output()[problem.train].log(), problem.labels[problem.train]).backward()
        optimiser.step()
    return output().detach()


def test_it_is_the_papers_network_trained_as_the_paper_says(tiny_problem):
    # While every epoch makes progress, the last one's weights are the ones that are kept.
    method = COIN(layers=5, strength=0.2, training=dataclasses.replace(NODE, epochs=8))
    outcome = method.solve(tiny_problem, seed=3)
    assert outcome.epochs == 8
    torch.testing.assert_close(outcome.scores, _plain(tiny_problem, 3, 5, 0.2, 8), rtol=1e-4, atol=1e-5)


def test_without_edges_the_diffusion_does_nothing(tiny_problem):
    training = dataclasses.replace(NODE, epochs=4)
    alone = dataclasses.replace(tiny_problem, graph=Graph.of(np.zeros((12, 12))))
    one, two = (COIN(layers=layers, training=training).solve(alone, 0).scores for layers in (1, 30))
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(one, _plain(alone, 0, 0, 0.0, 4), rtol=1e-4, atol=1e-5)


def test_much_diffusion_says_the_same_of_everyone(tiny_problem):
    scores = COIN(layers=3000, strength=0.3, training=dataclasses.replace(NODE, epochs=2)).solve(tiny_problem, 0).scores
    # The null space of this Laplacian is the constants: each class ends at its mean.
    torch.testing.assert_close(scores, scores.mean(0).expand_as(scores), rtol=0, atol=1e-3)


def test_rows_stay_probabilities_within_the_positivity_limit(tiny_problem):
    scores = CertifiedCOIN(layers=20, strength=0.9, training=QUICK).solve(tiny_problem, 0).scores
    assert float(scores.min()) >= 0
    torch.testing.assert_close(scores.sum(1), torch.ones(12))


@pytest.mark.parametrize(("layers", "strength"), [(20, 0.35), (3, 0.01), (7, 2.0)])
def test_the_certified_step_keeps_the_total_and_the_limit(tiny_problem, layers, strength):
    found_layers, found_strength = CertifiedCOIN(layers=layers, strength=strength).steps(tiny_problem)
    limit = certify(tiny_problem.graph.normalised(self_loops="add")).positivity_limit
    assert found_layers * found_strength == pytest.approx(layers * strength)
    assert found_strength <= limit * (1 + 1e-9)
    # One layer fewer would be past the limit.
    assert found_layers == 1 or layers * strength / (found_layers - 1) > limit


def test_the_settings_of_the_paper():
    assert (COIN.recommended("cora").layers, COIN.recommended("cora").strength) == (20, 0.35)
    assert (COIN.recommended("citeseer").strength, COIN.recommended("citeseer").training.weight_decay) == (0.4, 0.01)
    assert (COIN.recommended("pubmed").strength, COIN.recommended("pubmed").training.weight_decay) == (0.3, 5e-4)
    assert CertifiedCOIN.recommended("citeseer").strength == 0.4


def test_the_same_seed_gives_the_same_bytes(tiny_problem):
    one, two, other = (COIN(training=QUICK).solve(tiny_problem, seed).scores for seed in (5, 5, 6))
    assert one.numpy().tobytes() == two.numpy().tobytes()
    assert one.numpy().tobytes() != other.numpy().tobytes()
