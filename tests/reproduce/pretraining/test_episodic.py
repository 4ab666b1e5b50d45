from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, episode, network

from condiff.reproduce.pretraining.base_classes import OnBaseClasses, PretrainedNetwork
from condiff.reproduce.pretraining.episodic import EpisodicNetwork, OnEpisodes, episodic_accuracy, seeded
from condiff.reproduce.pretraining.epochs import Schedule, fit_in_epochs
from condiff.training.settings import Training


def objective(episodes: int = 6, **options: Any) -> OnEpisodes:
    def draw(first: int, last: int) -> Any:
        return (episode(number, others=3) for number in range(first, last))

    return OnEpisodes(episodes, draw, {"made": "up"}, **({"per_epoch": 2, "seed": 1} | options))


def trained(folder: Path, name: str, stop_after: int | None = None) -> Any:
    class Stopped(Exception):
        pass

    def on_epoch(entry: dict[str, Any]) -> None:
        if entry["epoch"] + 1 == stop_after:
            raise Stopped

    def validate(model: EpisodicNetwork) -> float:
        return episodic_accuracy(model, map(episode, range(50, 52)))

    schedule = Schedule(Training("adam", 1e-3, weight_decay=0.0, epochs=3, milestones=(2,), patience=None))
    try:
        return fit_in_epochs(network(name), {"name": name}, objective(), validate, schedule, folder, on_epoch=on_epoch)
    except Stopped:
        return None


# Dropout and groups of parameters; statistics that are not averaged; a random order; a fixed encoder.
@pytest.mark.parametrize("name", ["FEAT", "MAML", "SNAIL", "Gidaris"])
def test_a_stopped_training_ends_with_the_same_bytes(tmp_path: Path, name: str) -> None:
    whole = trained(tmp_path / "whole", name)
    state = torch.random.get_rng_state()
    assert trained(tmp_path / "parts", name, stop_after=1) is None
    torch.rand(3)  # whatever else is drawn meanwhile
    trained(tmp_path / "parts", name)
    torch.random.set_rng_state(state)
    files = [{path.name: path.read_bytes() for path in (tmp_path / each).iterdir()} for each in ("whole", "parts")]
    assert files[0] == files[1]
    assert len(whole.epochs) == 3


def test_a_step_is_the_mean_over_its_episodes() -> None:
    losses = list(objective(5, per_epoch=5, per_step=2).losses(network("ProtoNet").eval(), 0))
    single = list(objective(5, per_epoch=5).losses(network("ProtoNet").eval(), 0))
    assert [len(losses), len(single)] == [3, 5]  # the last step has what is left
    expected = [single[0] / 2 + single[1] / 2, single[2] / 2 + single[3] / 2, single[4]]
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected))


def test_epochs_are_parts_of_the_episodes() -> None:
    parts = objective(5, per_epoch=2)
    model = network("ProtoNet").eval()
    assert parts.epochs == 3
    together = [float(loss.detach()) for epoch in range(3) for loss in parts.losses(model, epoch)]
    whole = [float(loss.detach()) for loss in objective(5, per_epoch=5).losses(model, 0)]
    assert together == whole


def test_base_classes_are_told_apart() -> None:
    model = network("FEAT")
    assert isinstance(model, PretrainedNetwork)

    def draw(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        task = episode(number, ways=BASE)
        return task.query, task.classes[task.truth]

    batches = OnBaseClasses(12, draw, {}, per_epoch=12)
    optimiser = torch.optim.Adam(batches.parameter_groups(model), lr=3e-3)
    losses = []
    for loss in batches.losses(model.train(), 0):
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert len(losses) == 12
    assert losses[-1] < 0.5 * losses[0]
    assert OnBaseClasses(250, draw, {}).epochs == 3


def test_seeds_are_of_the_block_alone() -> None:
    state = torch.random.get_rng_state()
    drawn = []
    for seed, number in ((0, 0), (0, 0), (0, 1), (1, 0)):
        with seeded(seed, number):
            drawn.append(float(torch.rand(1)))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3
