"""Weights predicted from activations: the mapping, and what it is trained on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, SHAPE, check_order_and_names, episode
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.qiao import PredictedWeights, Qiao
from condiff.reproduce.pretraining.episodic import Episode, seeded

TASK = episode(5, shots=2, noise=1.0)


def made(mean_share: float = 0.3, *, random: bool = True) -> PredictedWeights:
    """The network with weights of the seed 0; ``random``: its mapping off its beginning, and large activations.

    Those make losses differ much between statistics that differ little.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qiao(mean_share=mean_share).build(SHAPE, 3, 1, BASE)
        assert isinstance(model, PredictedWeights)
        if random:
            with torch.no_grad():
                model.encoder.blocks[-1][1].weight *= 50
                for value in model.mapping.parameters():
                    value += 0.3 * torch.randn(value.shape)
    return model


def activations(model: PredictedWeights, images: torch.Tensor) -> np.ndarray:
    """The mean of the last maps, with the fixed encoder."""
    was_training = model.training
    with torch.no_grad():
        maps = model.eval().maps(images).double().numpy()
    model.train(was_training)
    assert maps.shape[1:] == (64, 2, 2)  # 16 pixels are halved three times: the last maximum is not there
    return maps.sum(axis=(2, 3)) / 4


def predicted(model: PredictedWeights, statistic: np.ndarray) -> np.ndarray:
    """The mapping, unit by unit."""
    first, _, second = model.mapping
    state = [part.detach().double().numpy() for part in (first.weight, first.bias, second.weight, second.bias)]
    x = statistic / np.sqrt((statistic**2).sum())
    hidden = [max(0.0, sum(row[j] * x[j] for j in range(64)) + shift) for row, shift in zip(*state[:2], strict=True)]
    out = [sum(row[j] * hidden[j] for j in range(64)) + shift for row, shift in zip(*state[2:], strict=True)]
    return np.array(out) / np.sqrt(sum(value**2 for value in out))


def cross_entropy(model: PredictedWeights, statistics: list[np.ndarray], task: Episode) -> float:
    weights = np.stack([predicted(model, statistic) for statistic in statistics])
    logits = activations(model, task.query) @ weights.T
    chosen = logits[np.arange(len(logits)), task.truth.numpy()]
    return float(np.mean(np.log(np.exp(logits).sum(1)) - chosen))


def loss_of(model: PredictedWeights, task: Episode, number: int = 0) -> float:
    with seeded(3, number):
        return float(model.loss(task).detach())


def test_scores_are_activations_times_predicted_weights() -> None:
    model = made().eval()
    known, asked = activations(model, TASK.support), activations(model, TASK.query)
    scores = model(TASK.support, TASK.labels, TASK.query).detach()
    for label in range(3):
        weights = predicted(model, (known[2 * label] + known[2 * label + 1]) / 2)
        np.testing.assert_allclose(scores[:, label], asked @ weights, rtol=1e-4, atol=1e-5)


def test_the_mapping_begins_as_the_direction_of_the_mean() -> None:
    model = made(random=False).eval()
    known, asked = activations(model, TASK.support), activations(model, TASK.query)
    means = known.reshape(3, 2, 64).mean(1)
    expected = asked @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    np.testing.assert_allclose(model(TASK.support, TASK.labels, TASK.query).detach(), expected, rtol=1e-4, atol=1e-5)


def test_the_length_of_a_statistic_does_not_matter() -> None:
    model, statistics = made(), torch.rand(4, 64, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(model.predicted(7 * statistics), model.predicted(statistics))
    torch.testing.assert_close(model.predicted(statistics).norm(dim=-1), torch.ones(4))


def test_classes_known_by_their_means() -> None:
    # Two episodes with classes in common: a mean is over all examples that have been shown of its class.
    model, tasks = made(mean_share=1.0).train(), [episode(number, ways=4, shots=2, noise=1.0) for number in (0, 1)]
    shown: dict[int, list[np.ndarray]] = {}
    for task in tasks:
        for row, label in zip(activations(model, task.support), task.labels, strict=True):
            shown.setdefault(int(task.classes[label]), []).append(row)
        means = [sum(shown[int(label)]) / len(shown[int(label)]) for label in task.classes]
        assert loss_of(model, task) == pytest.approx(cross_entropy(model, means, task), rel=1e-4)
        found = model.drawn_statistics(torch.zeros(8, 64), task)
        np.testing.assert_allclose(found, np.stack(means), rtol=1e-4, atol=1e-4)
    assert {len(rows) for rows in shown.values()} == {2, 4}


def test_classes_known_by_one_example() -> None:
    model = made(mean_share=0.0).train()
    for task in (episode(0, noise=1.0), episode(1, noise=1.0)):
        examples = list(activations(model, task.support))
        assert loss_of(model, task) == pytest.approx(cross_entropy(model, examples, task), rel=1e-4)
    means = model.sums[task.classes] / model.counts[task.classes, None]
    assert abs(cross_entropy(model, list(means.double().numpy()), task) - loss_of(model, task)) > 1e-3


def test_statistics_are_drawn_class_by_class() -> None:
    model, task = made(mean_share=0.3), episode(0, shots=3)
    loss_of(model, task)
    known = torch.from_numpy(activations(model, task.support)).float()
    means = model.sums[task.classes] / model.counts[task.classes, None]
    seen = np.zeros((3, 4))
    with seeded(0, 0):
        for _ in range(200):
            for label, statistic in enumerate(model.drawn_statistics(known, task)):
                options = torch.cat([means[label, None], known[3 * label : 3 * label + 3]])
                near = (options - statistic).abs().amax(-1)
                assert float(near.min()) < 1e-6
                seen[label, int(near.argmin())] += 1 / 200
    np.testing.assert_allclose(seen[:, 0], 0.3, atol=0.12)
    np.testing.assert_allclose(seen[:, 1:], 0.7 / 3, atol=0.12)


def test_only_the_mapping_is_trained_on_episodes() -> None:
    model = made().train()
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    model.loss(TASK).backward()
    assert all(torch.equal(value, before[name]) for name, value in model.encoder.state_dict().items())
    assert model.encoder.training
    trained = {id(value) for group in model.parameter_groups() for value in group["params"]}
    for name, value in model.named_parameters():
        assert (value.grad is not None) is name.startswith("mapping.") is (id(value) in trained)
    assert all(float(value.grad.abs().max()) > 0 for value in model.mapping.parameters())


def test_the_first_stage_trains_encoder_and_head() -> None:
    model = made().train()
    rows = model.embed(TASK.query)[0]
    expected = functional.cross_entropy(rows @ model.base.weight.T + model.base.bias, TASK.truth)
    loss = model.base_loss(TASK.query, TASK.truth)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    loss.backward()
    for name, value in model.named_parameters():
        assert (value.grad is None) is name.startswith("mapping.")
    assert not model.sums.any()  # of an encoder that still moves


def test_a_stopped_training_has_its_means() -> None:
    model = made(mean_share=1.0).train()
    loss_of(model, episode(0))
    again = made(mean_share=1.0).train()
    again.load_state_dict(model.state_dict())
    assert loss_of(again, episode(1)) == loss_of(model, episode(1))


def test_neither_the_order_of_queries_nor_the_names_of_classes_matter() -> None:
    check_order_and_names(made().eval(), TASK)


def test_training_lowers_the_loss() -> None:
    model = made(random=False).train()
    held_out = [episode(number, noise=0.5) for number in range(100, 103)]

    def error() -> float:
        model.eval()
        with torch.no_grad():
            losses = [functional.cross_entropy(model(t.support, t.labels, t.query), t.truth) for t in held_out]
        model.train()
        return float(torch.stack(losses).mean())

    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for number in range(10):
        task = episode(number, ways=BASE)
        optimiser.zero_grad()
        model.base_loss(task.query, task.classes[task.truth]).backward()
        optimiser.step()
    before = error()
    optimiser = torch.optim.SGD(model.parameter_groups(), lr=0.1, momentum=0.9)
    for number in range(20):
        optimiser.zero_grad()
        with seeded(0, number):
            model.loss(episode(number, ways=BASE, queries=1, noise=0.5)).backward()
        optimiser.step()
    assert error() < before - 0.2


def test_settings() -> None:
    drawings, birds = Qiao.recommended("omniglot"), Qiao.recommended("cub")
    assert (drawings.training.augment, birds.training.augment) == (False, True)
    assert (birds.training.ways, birds.training.shots, birds.training.queries) == (80, 1, 1)
    Qiao(mean_share=1.0)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_bad_settings_are_reported(share: float) -> None:
    with pytest.raises(InvalidInputError, match="mean_share must be"):
        dataclasses.replace(Qiao(), mean_share=share)
