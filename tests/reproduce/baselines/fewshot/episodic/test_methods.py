"""What holds for every method that is trained on episodes, whatever it does."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Sequence

import pytest
import torch
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, episode, network

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic import METHODS, REGISTRY, method
from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod, MetaTraining, Pretraining
from condiff.reproduce.pretraining.base_classes import PretrainedNetwork
from condiff.reproduce.pretraining.episodic import (
    Episode,
    EpisodicNetwork,
    OnEpisodes,
    answers,
    episodic_accuracy,
    seeded,
)
from condiff.reproduce.published import methods as published_methods

#: Methods whose answer to a query depends on the other queries.
TOGETHER = {"TPN", "MAML", "CAN+T"}
#: Methods with weights for each place of a class, or that read the support in its order.
BY_PLACE = {"MAML", "SNAIL", "MatchingNet"}


def test_methods_have_the_names_of_the_paper() -> None:
    assert set(METHODS) <= {each.name for each in published_methods("fewshot")}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dataset", ["omniglot", "cub"])
def test_a_method_is_a_frozen_dataclass_of_plain_settings(name: str, dataset: str) -> None:
    made = method(name).recommended(dataset)
    assert isinstance(made, EpisodicMethod)
    assert json.loads(json.dumps(made.settings())) == json.loads(json.dumps(dataclasses.asdict(made)))
    hash(made)
    assert made.training.augment is not (dataset == "omniglot")


def test_settings_are_changed_by_name() -> None:
    chosen = REGISTRY.chosen("maml,FEAT", "cub", ("training.episodes=7", "FEAT.pretraining.batches=0"))
    assert [each.training.episodes for each in chosen.values()] == [7, 7]
    assert chosen["FEAT"].settings()["pretraining"]["batches"] == 0


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shots", [1, 2])
def test_scores_of_a_task(name: str, shots: int) -> None:
    task = episode(shots=shots)
    scores = network(name, shots=shots).eval()(task.support, task.labels, task.query)
    assert scores.shape == (12, 3)
    assert torch.isfinite(scores).all()


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_queries_does_not_matter(name: str) -> None:
    task, model = episode(), network(name).eval()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    first = model(task.support, task.labels, task.query)
    second = model(task.support, task.labels, task.query[order])
    torch.testing.assert_close(second, first[order], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - TOGETHER))
def test_a_query_is_classified_by_itself(name: str) -> None:
    task, model = episode(), network(name).eval()
    whole = model(task.support, task.labels, task.query)
    alone = model(task.support, task.labels, task.query[4:5])
    torch.testing.assert_close(alone, whole[4:5], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - BY_PLACE))
def test_the_names_of_classes_do_not_matter(name: str) -> None:
    task, model = episode(shots=2), network(name, shots=2).eval()
    names = torch.tensor([2, 0, 1])
    first = model(task.support, task.labels, task.query)
    second = model(task.support, names[task.labels], task.query)
    torch.testing.assert_close(second[:, names], first, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_no_truth_reaches_the_scores(name: str) -> None:
    assert list(inspect.signature(network(name).forward).parameters) == ["support", "labels", "query"]
    task, model = episode(others=4), network(name).eval()
    wrong = dataclasses.replace(task, truth=task.truth.flip(0))
    predicted = [answers(model, each.support, each.labels, each.query) for each in (task, wrong)]
    assert torch.equal(*predicted)


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_loss_again_and_moves_nothing_else(name: str) -> None:
    task, model, state = episode(others=4), network(name).train(), torch.random.get_rng_state()
    found = []
    for _ in range(2):
        with seeded(3, 1):
            found.append(float(model.loss(task).detach()))
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert torch.equal(torch.random.get_rng_state(), state)


@dataclasses.dataclass(frozen=True)
class Lesson:
    """How long and on what a network is trained here; three episodes again and again, with Adam."""

    rounds: int = 10
    rate: float = 3e-3
    noise: float = 1.0
    networks: int = 1


#: MAML takes few steps. LEO's codes overflow at rates far above its own. TPN's length scales may begin near zero, which
#: makes some networks slow: three are averaged, on tasks with less noise.
LESSONS = {"MAML": Lesson(rounds=4), "LEO": Lesson(rate=3e-4), "TPN": Lesson(15, noise=0.2, networks=3)}


@pytest.mark.parametrize("name", METHODS)
def test_training_descends_and_then_new_tasks_are_solved(name: str) -> None:
    lesson = LESSONS.get(name, Lesson())
    losses, accuracies = [], []
    for seed in range(lesson.networks):
        model = network(name, seed=seed)
        before, after = learn(model, lesson)
        losses.append((before, after))
        accuracies.append(episodic_accuracy(model.eval(), map(episode, range(1000, 1006))))
    # Over several seeds, and with first weights moved by 1e-6, at most 0.65 of the loss was left and 0.9 were right.
    assert sum(after for _, after in losses) < 0.8 * sum(before for before, _ in losses)
    if name != "SNAIL":  # it takes thousands of episodes to learn what a task is, and learns these by heart
        assert sum(accuracies) / len(accuracies) > 0.7  # a third by chance


def learn(model: EpisodicNetwork, lesson: Lesson) -> tuple[float, float]:
    """Train, whatever the method's own settings are; the mean loss of the episodes before and after."""
    model.train()
    if isinstance(model, PretrainedNetwork):
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for number in range(20):
            task = episode(number, ways=BASE, noise=lesson.noise)
            optimiser.zero_grad()
            model.base_loss(task.query, task.classes[task.truth]).backward()
            optimiser.step()
    episodes = [episode(number, others=4, noise=lesson.noise) for number in range(3)]
    objective = OnEpisodes(3 * lesson.rounds, lambda first, last: (episodes[n % 3] for n in range(first, last)), {})
    optimiser = torch.optim.Adam(objective.parameter_groups(model), lr=lesson.rate)
    before = loss_of(model, episodes)
    for loss in objective.losses(model, 0):
        optimiser.zero_grad()
        loss.backward()
        objective.mend_gradients(model)
        optimiser.step()
    return before, loss_of(model, episodes)


def loss_of(model: EpisodicNetwork, episodes: Sequence[Episode]) -> float:
    with seeded(0, 0):
        return sum(float(model.loss(each).detach()) for each in episodes) / len(episodes)


def test_a_schedule_in_epochs() -> None:
    halved = MetaTraining(episodes=1000, drop_every=300).schedule(100)
    assert (halved.epochs, halved.milestones, halved.decay) == (10, (3, 6, 9), 0.5)
    assert MetaTraining(episodes=600, drop_at=(1 / 3, 5 / 6)).schedule(100).milestones == (2, 5)
    assert MetaTraining(episodes=50, drop_every=20, drop_at=(0.1,)).schedule(100).milestones == ()
    assert Pretraining(batches=800).schedule(100).milestones == (6,)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("MAML", {"steps": 0}, "steps must be"),
        ("MAML", {"inner_rate": 0.0}, "inner_rate must be"),
        ("TPN", {"alpha": 1.0}, "alpha must be"),
        ("MetaoptNet", {"head": "tree"}, "head must be"),
        ("MetaoptNet", {"penalty": -1.0}, "penalty must be"),
        ("FEAT", {"dropout": 1.0}, "dropout must be"),
        ("SNAIL", {"filters": 0}, "filters must be"),
        ("RelationNet", {"hidden": 0}, "hidden must be"),
    ],
)
def test_bad_settings_are_reported(name: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataclasses.replace(method(name)(), **change)


@pytest.mark.parametrize("change", [{"episodes": 0}, {"drop_at": (1.5,)}, {"ways": 0}, {"learning_rate": 0.0}])
def test_bad_schedules_are_reported(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        dataclasses.replace(MetaTraining(), **change)
