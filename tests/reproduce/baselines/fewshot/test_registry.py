"""What holds for every method of the registry, whatever it does."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch
from tests.reproduce.baselines.fewshot.few_shot_tasks import small, task

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot import METHODS, REGISTRY, method
from condiff.reproduce.baselines.fewshot.method import FewShotMethod, shots_of
from condiff.reproduce.baselines.fewshot.problem import FewShotProblem
from condiff.reproduce.published import methods as published_methods
from condiff.reproduce.runs import Condition


def test_the_methods_on_fixed_features_of_the_paper_have_its_names() -> None:
    trained = {
        "MAML", "RelationNet", "Gidaris", "SNAIL", "TADAM", "MetaoptNet", "TPN", "TEAM", "CAN+T", "Qiao", "LEO",
        "CC+rot", "FEAT",
    }  # fmt: skip
    assert {each.name for each in published_methods("fewshot")} - trained <= METHODS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_a_frozen_dataclass_of_plain_settings(name: str) -> None:
    kind = method(name)
    assert issubclass(kind, FewShotMethod)
    made = kind.recommended("cub")
    assert type(made) is kind
    assert json.loads(json.dumps(made.settings())) == json.loads(json.dumps(dataclasses.asdict(made)))
    hash(made)


def test_settings_follow_the_shots() -> None:
    def chosen(method: str, dataset: str, shots: int) -> dict[str, Any]:
        return REGISTRY.chosen(method, dataset, condition=Condition(shots=shots))[method].settings()

    assert (shots_of(Condition(shots=5)), shots_of(Condition())) == (5, 1)
    places = [("cub", 1), ("mini", 5), ("tiered", 5), ("tiered", 1)]
    assert [chosen("COIN", dataset, shots)["layers"] for dataset, shots in places] == [10, 4, 2, 10]
    assert [chosen("LaplacianShot", "cub", shots)["smoothing"] for shots in (1, 5)] == [0.7, 0.3]
    assert [chosen("Diff-ResNet", "cub", shots)["layers"] for shots in (1, 5)] == [6, 2]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shots", [1, 3])
def test_classes_that_are_apart_are_told_apart(name: str, shots: int) -> None:
    problem, truth = task(4, shots=shots, features=40, apart=4.0)
    outcome = small(name).solve(problem, 0)
    assert torch.equal(outcome.scores.argmax(-1), truth)
    assert outcome.scores.shape == (15, 3)
    assert outcome.scores.dtype == torch.float32
    assert torch.isfinite(outcome.scores).all()
    assert not outcome.scores.requires_grad
    assert outcome.seconds > 0


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_bytes_again(name: str) -> None:
    problem, _ = task(1)
    found = [small(name, 5).solve(problem, 7).scores.numpy().tobytes() for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_queries_does_not_matter(name: str) -> None:
    problem, _ = task(2)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(1))
    moved = dataclasses.replace(problem, query=problem.query[order])
    first, second = (small(name, 20).solve(each, 3).scores for each in (problem, moved))
    torch.testing.assert_close(second, first[order], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", METHODS)
def test_the_names_of_classes_do_not_matter(name: str) -> None:
    problem, truth = task(4, features=40, apart=4.0)
    names = torch.tensor([2, 0, 1])
    renamed = dataclasses.replace(problem, labels=names[problem.labels])
    first, second = (small(name).solve(each, 3).scores for each in (problem, renamed))
    assert torch.equal(second.argmax(-1), names[truth])
    if name not in ("Baseline", "Baseline++", "COIN", "Diff-ResNet"):  # these begin at random, class by class
        torch.testing.assert_close(second[:, names], first, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_support_does_not_matter(name: str) -> None:
    if name in ("Baseline", "Baseline++"):
        pytest.skip("goes through the support in random batches")
    problem, _ = task(2)
    order = torch.tensor([5, 0, 3, 1, 4, 2])
    moved = dataclasses.replace(problem, support=problem.support[order], labels=problem.labels[order])
    first, second = (small(name, 20).solve(each, 3).scores for each in (problem, moved))
    torch.testing.assert_close(second, first, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", METHODS)
def test_tasks_do_not_see_each_other(name: str) -> None:
    problems = [task(seed, apart=0.5 * seed)[0] for seed in range(4)]
    made = small(name, 10)
    together = made.solve_batch(problems, range(4))
    for number, (problem, outcome) in enumerate(zip(problems, together, strict=True)):
        alone = made.solve(problem, number)
        torch.testing.assert_close(outcome.scores, alone.scores, rtol=1e-4, atol=1e-5)
        assert outcome.epochs == alone.epochs


def test_a_batch_longer_than_what_is_solved_at_once() -> None:
    kind = method("SimpleShot")
    problems = [task(seed, queries=2)[0] for seed in range(120)]
    found = kind().solve_batch(problems, range(120))
    assert len(found) == 120
    torch.testing.assert_close(found[-1].scores, kind().solve(problems[-1], 0).scores)


def test_what_a_method_is_given_holds_no_truth() -> None:
    assert [field.name for field in dataclasses.fields(FewShotProblem)] == ["support", "labels", "query", "base_mean"]
    problem, _ = task(shots=2, queries=5)
    assert len(problem.labels) == 6


def test_bad_settings_and_batches_are_reported() -> None:
    problem, _ = task()
    with pytest.raises(InvalidInputError, match="there are 1 tasks but 2 seeds"):
        method("SimpleShot")().solve_batch([problem], [0, 1])
    for name, change, message in (
        ("COIN", {"layers": -1}, "layers must be"),
        ("Diff-ResNet", {"strength": 0.0}, "strength must be"),
        ("LabelPropagation", {"alpha": 1.0}, "alpha must be"),
        ("LabelPropagation", {"bandwidth": 0.0}, "bandwidth must be"),
        ("EPNet", {"label_alpha": -0.1}, "label_alpha must be"),
        ("TIM", {"steps": 0}, "steps must be"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            dataclasses.replace(method(name)(), **change)
