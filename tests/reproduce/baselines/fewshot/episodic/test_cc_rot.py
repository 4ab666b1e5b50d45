"""The cosine classifier with rotations: both losses, novel classes, and what Omniglot takes away."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, SHAPE, check_order_and_names, episode
from torch import Tensor
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.cc_rot import CCRot, RotationNetwork, turned
from condiff.reproduce.pretraining.episodic import Episode

TASK = episode(5, shots=2, noise=1.0)


def made(**changes: object) -> RotationNetwork:
    """The network with weights of the seed 0."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = dataclasses.replace(CCRot(), **changes).build(SHAPE, 3, 1, BASE)
    assert isinstance(model, RotationNetwork)
    return model


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(sum(first * second) / math.sqrt(sum(first**2)) / math.sqrt(sum(second**2)))


def negative_log_share(logits: list[float], label: int) -> float:
    return math.log(sum(math.exp(value) for value in logits)) - logits[label]


def losses_image_by_image(model: RotationNetwork, task: Episode, turns: range) -> tuple[float, float]:
    """Both losses, each image turned and classified by itself: classes in the given ``turns``, rotations in all."""
    weights = model.base.weights.detach().double().numpy()
    head = model.rotation[-1]
    directions = head.weights.detach().double().numpy()
    classes, rotations = [], []
    for images, labels in ((task.support, task.labels), (task.query, task.truth)):
        for image, label in zip(images.numpy(), labels.tolist(), strict=True):
            for turn in range(4):
                with torch.no_grad():
                    maps = model.maps(torch.from_numpy(np.rot90(image, turn, axes=(1, 2)).copy())[None])
                    found = model.rotation[:2](maps).double().numpy()[0]
                row = maps.double().numpy().ravel()
                if turn in turns:
                    logits = [float(model.base.scale.detach()) * cosine(row, weight) for weight in weights]
                    classes.append(negative_log_share(logits, int(task.classes[label])))
                pooled = found.sum(axis=(1, 2)) / (found.shape[1] * found.shape[2])
                logits = [float(head.scale.detach()) * cosine(pooled, weight) for weight in directions]
                rotations.append(negative_log_share(logits, turn))
    return float(np.mean(classes)), float(np.mean(rotations))


def rotation_loss(model: RotationNetwork, images: Tensor) -> float:
    with torch.no_grad():
        logits = model.rotation(model.maps(turned(images)))
    return float(functional.cross_entropy(logits, torch.arange(4).repeat_interleave(len(images))))


@pytest.mark.parametrize(("all_rotations", "turns"), [(True, range(4)), (False, range(1))])
def test_the_loss_is_of_classes_and_of_rotations(all_rotations: bool, turns: range) -> None:
    model = made(alpha=0.7, scale=6.0, all_rotations=all_rotations).eval()
    classes, rotations = losses_image_by_image(model, TASK, turns)
    assert float(model.loss(TASK).detach()) == pytest.approx(classes + 0.7 * rotations, rel=1e-4)
    assert rotation_loss(model, torch.cat([TASK.support, TASK.query])) == pytest.approx(rotations, rel=1e-4)


def test_images_are_turned_by_quarters() -> None:
    images = torch.arange(8.0).view(2, 1, 2, 2)
    found = turned(images)
    assert torch.equal(found[:2], images)
    assert found[2].tolist() == [[[1.0, 3.0], [0.0, 2.0]]]
    assert found[4].tolist() == [[[3.0, 2.0], [1.0, 0.0]]]
    assert found[7].tolist() == [[[6.0, 4.0], [7.0, 5.0]]]


def test_novel_classes_are_told_by_the_mean_of_directions() -> None:
    model = made(scale=6.0).eval()
    with torch.no_grad():
        known, asked = (model.encoder(images).double().numpy() for images in (TASK.support, TASK.query))
        scores = model(TASK.support, TASK.labels, TASK.query).numpy()
    for label in range(3):
        first, second = known[2 * label], known[2 * label + 1]
        weights = (first / np.linalg.norm(first) + second / np.linalg.norm(second)) / 2
        expected = [6 * cosine(row, weights) for row in asked]
        np.testing.assert_allclose(scores[:, label], expected, rtol=1e-4, atol=1e-5)


def test_an_only_example_has_the_highest_score_there_is() -> None:
    model, task = made().eval(), episode(0)
    scores = model(task.support, task.labels, task.support).detach()
    torch.testing.assert_close(scores.diag(), torch.full((3,), 10.0), rtol=1e-5, atol=1e-5)
    assert torch.equal(scores.argmax(-1), task.labels)


def test_novel_tasks_use_neither_base_weights_nor_the_rotation_head() -> None:
    model = made().eval()
    before = model(TASK.support, TASK.labels, TASK.query)
    with torch.no_grad():
        for value in (model.base.weights, *model.rotation.parameters()):
            value.zero_()
    assert torch.equal(model(TASK.support, TASK.labels, TASK.query), before)


def test_all_is_trained_among_all_base_classes() -> None:
    model = made().train()
    model.loss(TASK).backward()
    for group in model.parameter_groups():
        assert all(value.grad is not None for value in group["params"])
    assert len(model.parameter_groups()[0]["params"]) == len(list(model.parameters()))
    assert (model.base.weights.grad.abs().amax(-1) > 0).all()  # the three that the episode does not show, too
    assert all(float(value.grad.abs().max()) > 0 for value in model.rotation[-1].parameters())


def test_both_losses_teach_the_encoder() -> None:
    slopes = []
    for alpha in (0.0, 1.0, 2.0):
        model = made(alpha=alpha).train()
        model.loss(TASK).backward()
        slopes.append(model.encoder.blocks[0][0].weight.grad)
        assert bool(model.rotation[0][0].weight.grad.any()) is (alpha > 0)
    assert float(slopes[0].abs().max()) > 1e-4  # of classes alone
    assert float((slopes[1] - slopes[0]).abs().max()) > 1e-4
    torch.testing.assert_close(slopes[2] - slopes[1], slopes[1] - slopes[0], rtol=1e-2, atol=1e-4)


def test_rotations_cannot_be_told_where_all_are_upright() -> None:
    # As Omniglot's base classes: every drawing is there in all four positions, so each image is turned in four ways.
    model = made().train()
    drawings = episode(0, queries=1).query
    every = turned(drawings)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        assert rotation_loss(model, every) >= math.log(4) - 1e-5
        optimiser.zero_grad()
        logits = model.rotation(model.maps(turned(drawings)))
        functional.cross_entropy(logits, torch.arange(4).repeat_interleave(len(drawings))).backward()
        optimiser.step()
    assert rotation_loss(model, drawings) < 1.0  # while those that are upright in one position only are recognised


def test_neither_the_order_of_queries_nor_the_names_of_classes_matter() -> None:
    check_order_and_names(made().eval(), TASK)


def test_the_loss_knows_a_base_class_by_its_number() -> None:
    # Tasks call their classes as they like; the loss is of base classes.
    model, names = made().eval(), torch.tensor([2, 0, 1])
    renamed = dataclasses.replace(
        TASK, labels=names[TASK.labels], truth=names[TASK.truth], classes=TASK.classes[names.argsort()]
    )
    torch.testing.assert_close(model.loss(renamed), model.loss(TASK))
    moved = dataclasses.replace(TASK, classes=(TASK.classes + 1) % BASE)
    assert abs(float((model.loss(moved) - model.loss(TASK)).detach())) > 1e-3


def test_training_lowers_both_losses() -> None:
    model, held_out = made().train(), episode(1000, ways=BASE, queries=1)

    def errors() -> tuple[float, float]:
        found = losses_image_by_image(model.eval(), held_out, range(1))
        model.train()
        return found

    before = errors()
    # Without momentum: the encoder's averages would lag behind its weights in so few steps.
    optimiser = torch.optim.SGD(model.parameter_groups(), lr=0.1)
    for number in range(15):
        optimiser.zero_grad()
        model.loss(episode(number, ways=BASE, queries=1)).backward()
        optimiser.step()
    after = errors()
    assert after[0] < before[0] - 0.3
    assert after[1] < before[1] - 0.3


def test_settings() -> None:
    drawings, birds = CCRot.recommended("omniglot"), CCRot.recommended("cub")
    assert (drawings.all_rotations, birds.all_rotations) == (False, True)
    assert (drawings.training.augment, birds.training.augment) == (False, True)
    schedule = dataclasses.replace(birds.training, episodes=26_000).schedule(1000)
    rates = [schedule.learning_rate_at(epoch) for epoch in (0, 19, 20, 22, 23, 25)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -1.0}, "alpha must be"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"scale": 0.0}, "scale must be"),
        ({"scale": float("inf")}, "scale must be"),
    ],
)
def test_bad_settings_are_reported(change: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataclasses.replace(CCRot(), **change)
