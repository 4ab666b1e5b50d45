"""TADAM: its conditions, its metric and its auxiliary loss computed anew, and what is trained."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, SHAPE, episode
from torch import Tensor
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import MetaTraining
from condiff.reproduce.baselines.fewshot.episodic.tadam import TADAM, ConditionedNetwork, Conditioning, Residual
from condiff.reproduce.pretraining.episodic import Episode, OnEpisodes, seeded
from condiff.reproduce.runs import Condition

TASK = episode(5, shots=2, others=6, noise=1.0)


def network(*, multiplier: float = 0.0, **changes: Any) -> ConditionedNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = dataclasses.replace(TADAM(), **changes).build(SHAPE, 3, 1, BASE)
    assert isinstance(found, ConditionedNetwork)
    with torch.no_grad():
        for part in found.conditions:
            part.scale_multiplier.fill_(multiplier)
            part.shift_multiplier.fill_(-multiplier)
    return found


def scores_of(model: ConditionedNetwork, task: Episode) -> Tensor:
    scores: Tensor = model(task.support, task.labels, task.query)
    return scores


def test_the_residual_networks() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = Residual(4, 3), torch.randn(4)
    weights = [layer.weight.detach().double().numpy() for layer in model.layers]
    biases = [np.array([0.1, -0.2, 0.3, 0.4]) * number for number in range(3)]
    with torch.no_grad():
        for layer, bias in zip(model.layers, biases, strict=True):
            layer.bias.copy_(torch.from_numpy(bias))

    def swish(values: Any) -> Any:
        return values / (1 + np.exp(-values))

    first = swish(weights[0] @ x.double().numpy() + biases[0])
    second = swish(weights[1] @ first + biases[1] + first)
    expected = weights[2] @ second + biases[2] + second
    np.testing.assert_allclose(model(x).detach(), expected, rtol=1e-5, atol=1e-6)


def test_a_condition_scales_and_shifts_channels() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        part, maps, task = Conditioning(4, 2), torch.randn(2, 4, 3, 3), torch.randn(4)
    torch.testing.assert_close(part(maps, task), maps)  # multipliers begin at zero
    with torch.no_grad():
        part.scale_multiplier.fill_(0.5)
        part.shift_multiplier.fill_(-2.0)
    scales, shifts, found = part.scales(task), part.shifts(task), part(maps, task)
    for channel in range(4):
        expected = (1 + 0.5 * scales[channel]) * maps[:, channel] - 2.0 * shifts[channel]
        torch.testing.assert_close(found[:, channel], expected)


def by_hand(model: ConditionedNetwork, image: Tensor, task: Tensor | None) -> Tensor:
    """Features of one image, layer by layer."""
    maps = image[None]
    for block, part in zip(model.encoder.blocks, model.conditions, strict=True):
        convolve, norm = block[0], block[1]
        maps = functional.conv2d(maps, convolve.weight, convolve.bias, padding=1)[0]
        rows = []
        for channel in range(64):
            deviation = math.sqrt(float(norm.running_var[channel]) + norm.eps)
            values = (maps[channel] - norm.running_mean[channel]) / deviation
            values = values * norm.weight[channel] + norm.bias[channel]
            rows.append(values)
        maps = torch.stack(rows)
        if task is not None:
            scale = 1 + part.scale_multiplier * part.scales(task)
            maps = scale.view(-1, 1, 1) * maps + (part.shift_multiplier * part.shifts(task)).view(-1, 1, 1)
        maps = functional.max_pool2d(maps.relu(), 2)[None]
    return maps[0].mean((1, 2))


@torch.no_grad()
def test_features_are_conditioned_on_the_mean_of_the_prototypes() -> None:
    model = network(multiplier=0.7, scale=3.0)
    model.train().loss(TASK)  # so that the averages are of something
    model.eval()
    plain = [by_hand(model, image, None) for image in TASK.support]
    task = sum((plain[2 * c] + plain[2 * c + 1]) / 2 for c in range(3)) / 3
    assert isinstance(task, Tensor)
    known = [by_hand(model, image, task) for image in TASK.support]
    scores = scores_of(model, TASK)
    for number in (0, 4, 11):
        asked = by_hand(model, TASK.query[number], task)
        for label in range(3):
            prototype = (known[2 * label] + known[2 * label + 1]) / 2
            expected = -3.0 * math.sqrt(float(((asked - prototype) ** 2).sum()))
            assert float(scores[number, label]) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert not torch.allclose(torch.stack(known), torch.stack(plain), rtol=1e-2)


@torch.no_grad()
def test_without_multipliers_it_is_the_nearest_prototype() -> None:
    model = network(scale=2.0).eval()
    known, asked = model.embed(TASK.support, TASK.query)
    expected = -2.0 * torch.cdist(asked, known.view(3, 2, -1).mean(1))
    torch.testing.assert_close(scores_of(model, TASK), expected, rtol=1e-3, atol=1e-4)
    # A tiny scale tells nothing; whatever the scale is, the answers are the same.
    faint = network(scale=1e-6).eval()
    assert float(functional.cross_entropy(scores_of(faint, TASK), TASK.truth)) == pytest.approx(math.log(3), abs=1e-4)
    assert torch.equal(scores_of(faint, TASK).argmax(-1), expected.argmax(-1))


def test_an_image_that_is_its_own_prototype_has_finite_gradients() -> None:
    task = episode(3, shots=1, others=4)
    same = dataclasses.replace(task, query=task.support, truth=task.labels)
    model = network(multiplier=0.5).train()
    model.loss(same).backward()
    assert all(value.grad is None or torch.isfinite(value.grad).all() for value in model.parameters())


def test_the_parts_of_the_loss() -> None:
    found = {}
    for chance in (0.0, 1.0):
        model = network(multiplier=0.5, chance=chance, chance_decay=1.0, penalty=0.4).eval()
        found[chance] = float(model.loss(TASK).detach())
    main = float(functional.cross_entropy(scores_of(model, TASK), TASK.truth).detach())
    assert found[0.0] == pytest.approx(main + 0.4 * 8 * 0.25 / 2, rel=1e-4)  # eight multipliers
    assert TASK.others is not None and TASK.other_classes is not None
    total = 0.0
    images = [*zip(TASK.support, TASK.classes[TASK.labels], strict=True)]
    images += [*zip(TASK.others, TASK.other_classes, strict=True)]
    for image, label in images:
        scores = model.base.weight @ model.embed(image[None])[0][0] + model.base.bias
        total -= float(scores.log_softmax(-1)[label].detach()) / len(images)
    assert found[1.0] - found[0.0] == pytest.approx(total, rel=1e-3)


def test_the_auxiliary_loss_becomes_rarer() -> None:
    model = network(training=MetaTraining(episodes=40), chance=0.9, chance_decay=0.5, chance_drops=4)
    chances = []
    for number in range(40):
        model.seen.fill_(number)
        chances.append(model.chance)
    assert chances == [0.9] * 10 + [0.45] * 10 + [0.225] * 10 + [0.1125] * 10
    usual = network()
    usual.seen.fill_(9_999)
    assert usual.chance == pytest.approx(0.9**20)  # 0.9 at first, which falls nineteen times
    # As often as it is probable.
    model = network(chance=0.3, chance_decay=1.0, penalty=0.0).eval()
    plain = float(functional.cross_entropy(scores_of(model, TASK), TASK.truth).detach())
    with torch.no_grad():
        drawn = []
        for number in range(60):
            with seeded(0, number):
                drawn.append(float(model.loss(TASK)) > plain + 0.1)
    assert 0.1 < np.mean(drawn) < 0.5


def test_episodes_are_counted_in_training_and_kept_with_the_weights() -> None:
    model = network()
    objective = OnEpisodes(3, lambda first, last: (episode(n, others=4) for n in range(first, last)), {})
    for loss in objective.losses(model.train(), 0):
        loss.backward()
    assert int(model.seen) == 3
    with torch.no_grad():
        model.eval().loss(TASK)
        scores_of(model.train(), TASK)
    assert int(model.seen) == 3
    again = network()
    again.load_state_dict(model.state_dict())
    assert int(again.seen) == 3


def test_what_the_gradients_reach() -> None:
    model = network(chance=1.0).train()
    model.loss(TASK).backward()
    for name, value in model.named_parameters():
        # The TEN waits for its multipliers to leave zero; normalisation takes out what the filters' biases add.
        waits = name.startswith("conditions.") and not name.endswith("_multiplier")
        if not name.endswith(".0.bias"):
            assert (float(value.grad.abs().max()) == 0) is waits, name
    model = network(multiplier=0.5, chance=0.0).train()
    model.loss(TASK).backward()
    for name, value in model.named_parameters():
        assert (value.grad is None) is name.startswith("base."), name
        if name.startswith("conditions.") or name == "scale":
            assert float(value.grad.abs().max()) > 0, name


def test_the_task_reaches_the_encoder_through_its_conditions() -> None:
    model = network(multiplier=0.5).eval()
    (plain,) = model.embed(TASK.support)
    plain.retain_grad()
    scores = model.scores(plain, TASK.support, TASK.labels, TASK.query)
    functional.cross_entropy(scores, TASK.truth).backward()
    assert plain.grad is not None and float(plain.grad.abs().max()) > 0


def test_what_decays_and_what_is_clipped() -> None:
    model = network(chance=1.0).train()
    decaying, kept = model.parameter_groups()
    assert "weight_decay" not in decaying and kept["weight_decay"] == 0.0
    names = {id(value): name for name, value in model.named_parameters()}
    assert len(decaying["params"]) + len(kept["params"]) == len(names)
    decays = {names[id(value)] for value in decaying["params"]}
    assert "encoder.blocks.0.0.weight" in decays and "conditions.3.scales.layers.2.weight" in decays
    assert not decays & {"base.weight", "scale", "encoder.blocks.0.1.weight", "conditions.0.scale_multiplier"}
    optimiser = model.settings.training.schedule(100).make_optimiser(model.parameter_groups())
    assert [group["weight_decay"] for group in optimiser.param_groups] == [5e-4, 0.0]
    (1e6 * model.loss(TASK)).backward()
    model.mend_gradients()
    for name in ("encoder.blocks.1.0.weight", "base.weight", "scale", "conditions.3.scale_multiplier"):
        assert float(model.get_parameter(name).grad.norm()) == pytest.approx(1.0, rel=1e-3), name  # each by itself


def test_orders_and_names_do_not_matter() -> None:
    model = network(multiplier=0.5).eval()
    first = scores_of(model, TASK)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    second = model(TASK.support, TASK.labels, TASK.query[order])
    torch.testing.assert_close(second, first[order], rtol=1e-3, atol=1e-4)
    alone = model(TASK.support, TASK.labels, TASK.query[4:5])
    torch.testing.assert_close(alone, first[4:5], rtol=1e-3, atol=1e-4)
    names = torch.tensor([2, 0, 1])
    renamed = model(TASK.support, names[TASK.labels], TASK.query)
    torch.testing.assert_close(renamed[:, names], first, rtol=1e-3, atol=1e-4)


def test_recommended_settings() -> None:
    shapes = {}
    for shots in (1, 5, 10):
        training = TADAM.recommended("cub", Condition(shots=shots)).training
        shapes[shots] = training.per_step, training.queries
    assert shapes == {1: (5, 2), 5: (2, 6), 10: (1, 13)}
    assert TADAM.recommended("cub") == TADAM()
    assert TADAM().training.schedule(100).milestones == (50, 58, 67)
    assert not TADAM.recommended("omniglot").training.augment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 0.0}, "scale must be"),
        ({"layers": 0}, "layers must be"),
        ({"penalty": -1.0}, "penalty must be"),
        ({"chance": 1.5}, "chance must be"),
        ({"chance_decay": float("nan")}, "chance_decay must be"),
        ({"chance_drops": 0}, "chance_drops must be"),
    ],
)
def test_bad_settings_are_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataclasses.replace(TADAM(), **change)
