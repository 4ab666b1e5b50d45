from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from condiff.bases.backbones import Backbone, backbone, unit_range
from condiff.bases.backbones.checkpoints import describe, load_backbone, load_record
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.pretraining.augmentation import Augmentation
from condiff.reproduce.pretraining.backbone import Classification, multi_step
from condiff.reproduce.pretraining.epochs import Schedule, epoch_generator, fit_in_epochs
from condiff.training.settings import Training

PLAIN = Augmentation(16, (1.0, 1.0), (1.0, 1.0), flip=False, jitter=0.0)


def stripes(count: int = 24) -> tuple[Any, Any]:
    """Horizontal, vertical and no stripes, with noise."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % 3
    images = generator.integers(0, 60, (count, 16, 16, 1))
    images[labels == 0, ::4] += 150
    images[labels == 1, :, ::4] += 150
    return images.astype(np.uint8), labels.astype(np.int64)


def parts(augmentation: Augmentation | None = None, **options: Any) -> tuple[Backbone, Classification]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = backbone("conv4", in_channels=1, size=16)
        chosen = augmentation or Augmentation(16, (0.5, 1.0))
        return network, Classification(*stripes(), 64, chosen, **({"batch_size": 8, "seed": 1} | options))


def trained(folder: Path, epochs: int = 4, stop_after: int | None = None, **options: Any) -> Any:
    network, objective = parts()
    scores = iter([0.5, 0.8, 0.8, 0.6, 0.7, 0.1])

    class Stopped(Exception):
        pass

    done = len(load_record(folder).epochs) if (folder / "backbone.json").is_file() else 0
    for _ in range(done):
        next(scores)

    def on_epoch(entry: dict[str, Any]) -> None:
        if entry["epoch"] + 1 == stop_after:
            raise Stopped

    schedule = Schedule(multi_step(epochs), options.pop("validate_every", 1))
    try:
        return fit_in_epochs(
            network,
            describe(network),
            objective,
            lambda _: next(scores),
            schedule,
            folder,
            on_epoch=on_epoch,
            **options,
        )
    except Stopped:
        return None


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_stopped_training_ends_with_the_same_bytes(tmp_path: Path, stop_after: int) -> None:
    trained(tmp_path / "whole")
    assert trained(tmp_path / "parts", stop_after=stop_after) is None
    assert len(load_record(tmp_path / "parts").epochs) == stop_after
    trained(tmp_path / "parts")
    assert content(tmp_path / "parts") == content(tmp_path / "whole")


def test_the_first_best_epoch_is_kept(tmp_path: Path) -> None:
    record = trained(tmp_path)
    assert (record.best_epoch, record.best_accuracy) == (1, 0.8)
    assert sorted(content(tmp_path)) == ["backbone.json", "best-0002.safetensors", "state-0004.safetensors"]
    early = tmp_path / "early"
    trained(early, stop_after=2)
    kept, after_two = load_backbone(tmp_path).state_dict(), load_file(early / "state-0002.safetensors")
    for name, value in kept.items():
        assert torch.equal(value, after_two[f"network.{name}"])


def test_measurements_may_be_rare_but_the_last_epoch_has_one(tmp_path: Path) -> None:
    record = trained(tmp_path, epochs=5, validate_every=2)
    assert ["accuracy" in entry for entry in record.epochs] == [False, True, False, True, True]


def test_one_epoch_is_plain_descent_on_every_batch() -> None:
    network, objective = parts(PLAIN, label_smoothing=0.1)
    images, labels = stripes()
    other, same = parts(PLAIN, label_smoothing=0.1)
    for model in (network, other):
        model.train()
    order = torch.randperm(24, generator=epoch_generator(1, 0))
    for loss, chosen in zip(objective.losses(network, 0), order.split(8), strict=True):
        inputs = other.normalise(unit_range(torch.from_numpy(images[chosen.numpy()])))
        logs = same.head(other(inputs)).log_softmax(dim=1)
        smooth = 0.9 * nn.functional.one_hot(torch.from_numpy(labels)[chosen], 3) + 0.1 / 3
        torch.testing.assert_close(loss, -(smooth * logs).sum(dim=1).mean(), rtol=1e-4, atol=1e-4)


def test_classes_are_learnt(tmp_path: Path) -> None:
    network, objective = parts(PLAIN)

    def accuracy(model: Backbone) -> float:
        images, labels = stripes()
        with torch.no_grad():
            answers = objective.head(model(model.prepare(torch.from_numpy(images)))).argmax(dim=1)
        return float((answers.numpy() == labels).mean())

    steps: list[tuple[int, int, float]] = []
    record = fit_in_epochs(
        network,
        describe(network),
        objective,
        accuracy,
        Schedule(multi_step(6)),
        tmp_path,
        on_step=lambda *step: steps.append(step),
    )
    assert [step[:2] for step in steps] == [(epoch, step) for epoch in range(6) for step in (1, 2, 3)]
    assert np.mean([step[2] for step in steps[:3]]) == pytest.approx(record.epochs[0]["loss"])
    assert record.best_accuracy == 1.0
    assert record.epochs[-1]["loss"] < 0.75 * record.epochs[0]["loss"]


def test_learning_rates_fall_at_half_and_three_quarters() -> None:
    schedule = multi_step(100)
    assert schedule == Training("sgd", 0.1, 0.9, 5e-4, 100, (50, 75), 0.1, None)
    assert multi_step(1).milestones == ()


def test_a_single_left_over_image_joins_the_batch_before() -> None:
    network, objective = parts(PLAIN, batch_size=23)
    assert len(list(objective.losses(network, 0))) == 1


def test_other_settings_do_not_go_on(tmp_path: Path) -> None:
    trained(tmp_path, stop_after=1)
    with pytest.raises(InvalidInputError, match="training with other settings"):
        trained(tmp_path, epochs=5)
    with pytest.raises(InvalidInputError, match="data was"):
        trained(tmp_path, data={"dataset": "other"})
    network, objective = parts(batch_size=6)
    with pytest.raises(InvalidInputError, match="batch_size was 8, now 6"):
        fit_in_epochs(network, describe(network), objective, lambda _: 0.0, Schedule(multi_step(4)), tmp_path)


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="is not a condiff backbone"):
        trained(tmp_path)
    assert sorted(content(tmp_path)) == ["thesis.txt"]


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"has no backbone.json"):
        load_backbone(tmp_path)
    trained(tmp_path, epochs=1)
    path, weights = tmp_path / "backbone.json", tmp_path / "best-0001.safetensors"
    text, tensors = path.read_text(), weights.read_bytes()
    weights.write_bytes(tensors[:-8])
    with pytest.raises(InvalidFileError, match=r"best-0001.safetensors is missing, truncated or changed"):
        load_backbone(tmp_path)
    weights.write_bytes(tensors)
    path.write_text(text.replace('"conv4"', '"resnet18"'))
    with pytest.raises(InvalidFileError, match="changed after it was written"):
        load_backbone(tmp_path)
    path.write_text("{")
    with pytest.raises(InvalidFileError, match="not JSON"):
        load_backbone(tmp_path)
    path.write_text(json.dumps({"format": "other"}))
    with pytest.raises(InvalidFileError, match="does not describe a condiff backbone"):
        load_backbone(tmp_path)
    path.write_text(json.dumps({"format": "condiff-backbone", "schema": 99}))
    with pytest.raises(InvalidFileError, match="schema 99"):
        load_backbone(tmp_path)


def test_a_training_before_its_first_measurement_has_no_weights_to_use(tmp_path: Path) -> None:
    trained(tmp_path, stop_after=1, validate_every=2)
    with pytest.raises(InvalidFileError, match="no best weights yet"):
        load_backbone(tmp_path)


def test_divergence_is_reported(tmp_path: Path) -> None:
    network, objective = parts()
    schedule = Schedule(multi_step(3, learning_rate=1e30))
    with pytest.raises(InvalidInputError, match="in epoch 0: lower the learning rate"):
        fit_in_epochs(network, describe(network), objective, lambda _: 0.0, schedule, tmp_path / "d")


@pytest.mark.parametrize("options", [{"batch_size": 1}, {"label_smoothing": 1.0}])
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        parts(**options)
