"""Training on an image set's episodes, and novel tasks from its images."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.reproduce.datasets.made_images import split_folder

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic import REGISTRY
from condiff.reproduce.episodes import Sizes, draw_episodes
from condiff.reproduce.pretraining import trained_methods as episodic
from condiff.reproduce.pretraining.augmentation import Augmentation
from condiff.reproduce.pretraining.image_episodes import ImageEpisodes, Pixels, as_images, base_batch
from condiff.reproduce.pretraining.train import train_backbone
from condiff.reproduce.pretraining.trained_methods import Assignment, finished, fitting_sizes, load, load_trained, train
from condiff.reproduce.protocols import fewshot
from condiff.reproduce.runner import sweep
from condiff.reproduce.store import Store


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(episodic, "PER_EPOCH", 2)
    monkeypatch.setattr(episodic, "VALIDATION_TASKS", 2)
    monkeypatch.setattr(fewshot, "BLOCK", 2)
    load.cache_clear()
    load_trained.cache_clear()


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    from condiff.readers import image_folder
    from condiff.readers.images import Frame

    monkeypatch.setattr(image_folder, "FRAME", Frame(18, 16))
    return str(split_folder(tmp_path / "colours"))


def assignment(colours: str, name: str = "ProtoNet", *changes: str, initial: str | None = None) -> Assignment:
    method = REGISTRY.chosen(name, "colours", ("training.episodes=3", *changes))[name]
    return Assignment(colours, name, method, 2, 1, initial)


def test_episodes_as_images(colours: str) -> None:
    base = load(colours, "base")
    pixels = Pixels(base, lambda images: images)
    drawn = draw_episodes(base, Sizes(2, 1, 2), 3)
    for task, classes, support, query in zip(
        as_images(pixels, drawn), drawn.classes, drawn.support, drawn.query, strict=True
    ):
        expected = torch.from_numpy(base.crops(support)).permute(0, 3, 1, 2) / 255
        torch.testing.assert_close(task.support, expected)
        assert task.query.shape == (4, 3, 16, 16)
        np.testing.assert_array_equal(classes[task.truth], base.labels[query])
        assert task.others is None


def test_an_episode_is_known_by_its_number(colours: str) -> None:
    pixels = Pixels(load(colours, "base"), lambda images: images, Augmentation(16, (0.5, 1.0)))
    source = ImageEpisodes(pixels, Sizes(2, 1, 2), seed=4)
    whole, part = list(source.draw(0, 4)), list(source.draw(2, 4))
    for first, second in zip(whole[2:], part, strict=True):
        assert torch.equal(first.support, second.support)
        assert torch.equal(first.query, second.query)
    assert not torch.equal(whole[0].support, whole[1].support)
    images, labels = base_batch(pixels, 6, 3, 0)
    assert images.shape == (6, 3, 16, 16)
    assert torch.equal(images, base_batch(pixels, 6, 3, 0)[0])
    assert not torch.equal(images, base_batch(pixels, 6, 4, 0)[0])
    assert set(labels.tolist()) <= {0, 1}


def test_further_images_are_of_further_classes(colours: str) -> None:
    base = load(colours, "base")
    three = replace(base, labels=np.arange(8) % 4, classes=("a", "b", "c", "d"))
    source = ImageEpisodes(Pixels(three, lambda images: images), Sizes(2, 1, 1), others=5)
    for task in source.draw(0, 4):
        assert task.other_classes is not None and task.others is not None
        assert len(task.others) == 5
        assert not set(task.other_classes.tolist()) & set(task.classes.tolist())


def test_tasks_are_no_larger_than_a_set(colours: str) -> None:
    assert fitting_sizes(load(colours, "base"), 60, 1, 15) == Sizes(2, 1, 3)


def test_a_training_is_kept(colours: str) -> None:
    told: list[str] = []
    given = assignment(colours)
    first = train(given, told.append)
    assert told[-1].startswith("ProtoNet: 3 of 3 episodes, validation accuracy")
    assert first.seconds > 0
    files = {path: path.read_bytes() for path in given.folder.rglob("*") if path.is_file()}
    again = train(given, told.append)
    assert {path: path.read_bytes() for path in given.folder.rglob("*") if path.is_file()} == files
    assert again.record.files == first.record.files == finished(given).record.files
    assert len(told) == len(first.record.epochs)  # nothing was trained again


def test_a_key_is_of_all_that_decides(colours: str, tmp_path: Path) -> None:
    given = assignment(colours)
    others = [
        assignment(colours, "ProtoNet", "training.learning_rate=0.01"),
        assignment(colours, "ProtoNet", "training.episodes=4"),
        assignment(colours, "TPN"),
        replace(given, shots=2),
        replace(given, seed=1),
    ]
    assert len({each.key for each in (given, *others)}) == 6
    assert assignment(colours).key == given.key
    (Path(colours) / "images" / "red" / "0.png").write_bytes(
        (Path(colours) / "images" / "green" / "0.png").read_bytes()
    )
    load.cache_clear()
    assert assignment(colours).key != given.key


def test_two_stages(colours: str) -> None:
    given = assignment(colours, "FEAT", "pretraining.batches=3", "pretraining.batch_size=4")
    told: list[str] = []
    train(given, told.append)
    assert [line.split(",")[0] for line in told] == [
        "FEAT: 2 of 3 batches of base classes",
        "FEAT: 3 of 3 batches of base classes",
        "FEAT: 2 of 3 episodes",
        "FEAT: 3 of 3 episodes",
    ]
    assert {path.name for path in given.folder.iterdir()} == {"base", "episodes", "seconds.json"}


def test_a_trained_backbone_to_begin_from(colours: str, tmp_path: Path) -> None:
    folder = tmp_path / "conv4"
    train_backbone(colours, "conv4", folder, epochs=1, batch_size=4, validation_tasks=2)
    begun = assignment(colours, "FEAT", "pretraining.batches=3", initial=str(folder))
    from condiff.bases.backbones.checkpoints import load_backbone

    kept = load_backbone(folder).state_dict()
    own = begun.network().encoder.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in own.items())
    assignment(colours, "MAML", initial=str(folder)).network()  # without averages
    train(begun)
    assert not (begun.folder / "base").exists()  # the first stage is done
    assert begun.key != assignment(colours, "FEAT", "pretraining.batches=3").key
    train_backbone(colours, "conv4", tmp_path / "large", epochs=1, size=20, batch_size=4, validation_tasks=2)
    with pytest.raises(InvalidInputError, match="conv4 for 3 of 16: train that one"):
        assignment(colours, initial=str(tmp_path / "large")).network()


def test_novel_tasks_in_blocks(colours: str, tmp_path: Path) -> None:
    sizes = {"ways": 2, "queries": 3, "tasks": 3, "episodes": 3}
    options = fewshot.FewShotOptions(method="ProtoNet", dataset=colours, episodic=True, **sizes)
    jobs = fewshot.FewShot().jobs(options)
    assert [(job.seed, len(job.split)) for job in jobs] == [(0, 2), (2, 1)]
    assert jobs[0].case.dataset == "colours"
    assert jobs[0].case.condition == fewshot.condition_of(Sizes(2, 1, 3), "conv4", episodic=True)
    assert pickle.loads(pickle.dumps(jobs[0])).key == jobs[0].key
    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(1) as pool:
        fewshot.FewShot().prepare(jobs, pool, lambda line: None)
        runs = [progress.run for progress in sweep(jobs, store, pool, {})]
        assert next(iter(sweep(jobs, store, pool, {}))).held == 2
    assert sum(run.metrics["tasks"] for run in runs) == 3
    assert runs[0].metrics["training_episodes"] == 3
    assert runs[0].metrics["training_seconds"] > 0
    network, right = load_trained(fewshot.assignment(jobs[0])), []
    pixels = Pixels(load(colours, "novel"), network.encoder.normalise)
    for task in as_images(pixels, jobs[0].split):
        scores = network(task.support, task.labels, task.query)
        right.append(100 * float((scores.argmax(-1) == task.truth).float().mean()))
    assert runs[0].metrics["accuracy"] == pytest.approx(np.mean(right))
    table = fewshot.training_table(runs)["training.md"]
    title = "colours, conv4, trained on episodes, 2-way 1-shot, 3 queries per class"
    assert f"| {title} | ProtoNet | 3 |" in table
    assert fewshot.training_table([]) == {}


def test_what_is_asked_for(colours: str) -> None:
    sizes = {"ways": 2, "queries": 3, "tasks": 4, "episodes": 3}
    options = fewshot.FewShotOptions(
        method="MAML,protonet", changes=("MAML.steps=2",), dataset=colours, backbone="conv4", episodic=True, **sizes
    )
    found = fewshot.FewShot().jobs(options)
    assert len(found) == 4
    settings = {job.key.method: job.key.settings for job in found}
    assert settings["MAML"]["steps"] == 2
    assert {each["training"]["episodes"] for each in settings.values()} == {3}
    assert options.here_only
