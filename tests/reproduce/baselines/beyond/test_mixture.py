"""Several settings of COIN-resolvent, mixed by the likelihood of the validation labels."""

from __future__ import annotations

import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.mixture import MixtureCOIN
from condiff.reproduce.baselines.beyond.resolvent import ResolventCOIN
from condiff.reproduce.baselines.node.mixing import mixed
from condiff.reproduce.baselines.node.problem import NodeProblem


def spoken(problem: NodeProblem, certainty: float) -> torch.Tensor:
    """Log-probabilities that are right in this share of the validation nodes, and undecided elsewhere."""
    u = torch.full((problem.n_nodes, problem.n_classes), 1 / problem.n_classes)
    right = round(certainty * len(problem.validation))
    for place, node in enumerate(problem.validation.tolist()):
        truth = int(problem.labels[node])
        u[node] = 0.1 / (problem.n_classes - 1)
        u[node, truth if place < right else (truth + 1) % problem.n_classes] = 0.9
    return u.log()


def test_equal_candidates_are_averaged_and_likelier_ones_count_more(tiny_problem: NodeProblem) -> None:
    good, bad = spoken(tiny_problem, 1.0), spoken(tiny_problem, 0.0)
    alone = mixed([good], tiny_problem)
    torch.testing.assert_close(mixed([good, good], tiny_problem), alone)
    both = mixed([good, bad], tiny_problem)[tiny_problem.validation].argmax(-1)
    assert both.tolist() == tiny_problem.labels[tiny_problem.validation].tolist()
    torch.testing.assert_close(alone.exp().sum(-1), torch.ones(tiny_problem.n_nodes))


def test_one_setting_is_that_setting_calibrated(tiny_problem: NodeProblem) -> None:
    single = ResolventCOIN(shares=False)
    one = MixtureCOIN(teleports=(single.teleport,), decays=(single.training.weight_decay,), shares=False)
    expected = mixed([single.solve(tiny_problem, 0).scores], tiny_problem)
    assert torch.equal(one.solve(tiny_problem, 0).scores, expected)


def test_the_same_bytes_each_time_and_rings_are_told_apart(tiny_problem: NodeProblem) -> None:
    one, two = (MixtureCOIN().solve(tiny_problem, seed) for seed in (0, 1))
    assert torch.equal(one.scores, two.scores)
    assert one.scores.argmax(-1).tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("settings", [{"teleports": ()}, {"decays": ()}])
def test_nothing_to_mix_is_refused(settings: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(InvalidInputError, match="nothing to mix"):
        MixtureCOIN(**settings)  # type: ignore[arg-type]
