"""Fitted heads against plain autograd, torch's optimisers and the authors' layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.reproduce.baselines.fewshot.few_shot_tasks import task
from torch import Tensor, nn

from condiff.reproduce.baselines.fewshot import tim
from condiff.reproduce.baselines.fewshot.baseline import CLOSER_LOOK, Baseline
from condiff.reproduce.baselines.fewshot.baseline_plus_plus import BaselinePlusPlus
from condiff.reproduce.baselines.fewshot.problem import FewShotProblem, Tasks
from condiff.reproduce.baselines.fewshot.tim import TIM
from condiff.reproduce.baselines.fewshot.transductive import Transductive

SEED = 11
FEWER = replace(CLOSER_LOOK, epochs=15, learning_rate=0.1)


def entropy(chances: Tensor) -> Tensor:
    return -(chances * torch.log(chances + 1e-12)).sum(-1)


@pytest.mark.parametrize("compiled", [True, False])
def test_tim(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tim.kernels, "available", lambda: compiled)
    problem, _ = task(10)
    support, query = (nn.functional.normalize(x, dim=-1) for x in (problem.support, problem.query))
    weights = torch.stack([support[problem.labels == c].mean(0) for c in range(3)]).requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=1e-2)
    for _ in range(40):
        on_support, on_query = (-15 / 2 * torch.cdist(x, weights) ** 2 for x in (support, query))
        chances = on_query.softmax(-1)
        loss = 0.1 * nn.functional.cross_entropy(on_support, problem.labels)
        loss = loss - entropy(chances.mean(0)) + 0.1 * entropy(chances).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    expected = (-15 / 2 * torch.cdist(query, weights.detach()) ** 2).softmax(-1)
    found = TIM(steps=40, learning_rate=1e-2).solve(problem, 0).scores.softmax(-1)
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-4)


def test_tim_wants_as_many_queries_of_each_class() -> None:
    problem, _ = task(12, apart=0.3, queries=10)

    def balance(steps: int) -> float:
        answers = TIM(steps=steps, learning_rate=1e-2).solve(problem, 0).scores.softmax(-1).mean(0)
        return float(entropy(answers))

    assert balance(100) > balance(1)


def test_transductive_fine_tuning() -> None:
    problem, _ = task(10)
    support, query = (nn.functional.normalize(x, dim=-1) for x in (problem.support, problem.query))
    head = nn.Linear(12, 3)
    with torch.no_grad():
        means = torch.stack([support[problem.labels == c].mean(0) for c in range(3)])
        head.weight.copy_(nn.functional.normalize(means, dim=-1))
        head.bias.zero_()
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(25):
        loss = nn.functional.cross_entropy(head(support), problem.labels) + entropy(head(query).softmax(-1)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = Transductive(learning_rate=1e-2).solve(problem, 0).scores
    torch.testing.assert_close(found, head(query).detach(), rtol=1e-3, atol=1e-4)


def drawn(problem: FewShotProblem, *, bias: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The first weights, and the batches of all steps, as the methods draw them."""
    generator, bound = torch.Generator().manual_seed(SEED), 12**-0.5
    first = [torch.empty(3, 12).uniform_(-bound, bound, generator=generator)]
    if bias:
        first.append(torch.empty(3).uniform_(-bound, bound, generator=generator))
    orders = torch.rand(FEWER.epochs, len(problem.labels), generator=generator).argsort(-1)
    return first, [batch for order in orders for batch in order.split(4)]


def descend(module: nn.Module, problem: FewShotProblem, batches: list[Tensor]) -> None:
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, dampening=0.9, weight_decay=1e-3)
    for batch in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(problem.support[batch]), problem.labels[batch]).backward()
        optimiser.step()


@pytest.mark.parametrize("shots", [1, 3])  # 3 and 9 points: one batch, and the last of three is smaller
def test_baseline(shots: int) -> None:
    problem, _ = task(13, shots=shots)
    head = nn.Linear(12, 3)
    (weight, bias), batches = drawn(problem, bias=True)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    descend(head, problem, batches)
    found = Baseline(descent=FEWER).solve(problem, SEED).scores
    torch.testing.assert_close(found, head(problem.query).detach(), rtol=1e-4, atol=1e-4)


class Cosines(nn.Module):
    """The authors' layer: lengths and directions."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.length = nn.Parameter(weight.norm(dim=1))
        self.direction = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        x = x / (x.norm(dim=1, keepdim=True) + 1e-5)
        weight = self.length[:, None] * self.direction / self.direction.norm(dim=1, keepdim=True)
        return 2.0 * x @ weight.mT


@pytest.mark.parametrize("shots", [1, 3])
def test_baseline_plus_plus(shots: int) -> None:
    problem, _ = task(13, shots=shots)
    (weight,), batches = drawn(problem, bias=False)
    head = Cosines(weight)
    descend(head, problem, batches)
    found = BaselinePlusPlus(descent=FEWER).solve(problem, SEED).scores
    torch.testing.assert_close(found, head(problem.query).detach(), rtol=1e-4, atol=1e-4)


def test_batches_go_through_the_whole_support() -> None:
    problem, _ = task(shots=3)
    tasks = Tasks.of([problem, problem])
    batches = list(FEWER.batches(tasks, [torch.Generator().manual_seed(seed) for seed in (0, 1)]))
    assert [batch.shape for batch in batches[:3]] == [(2, 4), (2, 4), (2, 1)]
    first = torch.cat(batches[:3], dim=1)
    assert torch.equal(first.sort(1).values, torch.arange(9).expand(2, -1))
    assert not torch.equal(first[0], first[1])
