"""LEO: its codes, its steps and its losses computed anew, and what is trained."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, SHAPE, episode
from torch import Tensor
from torch.distributions import Normal
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.leo import LEO, LatentNetwork
from condiff.reproduce.pretraining.episodic import seeded
from condiff.reproduce.runs import Condition

TASK = episode(5, shots=2, noise=1.0)


def network(**changes: Any) -> LatentNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = dataclasses.replace(LEO(), **changes).build(SHAPE, 3, 1, BASE)
    assert isinstance(found, LatentNetwork)
    return found


def arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().double().numpy() for tensor in tensors]


def softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_the_codes_of_a_class_are_means_over_pairs() -> None:
    model = network(latents=8).eval()
    (known,) = model.fixed(TASK.support)
    assert torch.allclose(known.norm(dim=-1), torch.ones(6))
    found = model.codes(known, TASK.labels).detach().numpy()
    x, encode, first, second, third = arrays(known, *model.linear[:4])
    told = np.zeros((6, 16))
    for i in range(6):
        for j in range(6):
            pair = np.concatenate([encode @ x[i], encode @ x[j]])
            told[i] += third @ np.maximum(second @ np.maximum(first @ pair, 0), 0) / 6
    for i, label in enumerate(TASK.labels.tolist()):
        np.testing.assert_allclose(found[i], (told[2 * label] + told[2 * label + 1]) / 2, rtol=1e-4, atol=1e-6)


def test_the_steps_are_plain_descent_on_the_support() -> None:
    model = network(latents=8, steps=2, fine_steps=3, inner_rate=0.5, fine_rate=0.2).eval()
    with torch.no_grad():  # a rate for every coordinate
        model.rates *= torch.linspace(0.5, 1.5, 8)
        model.fine_rates *= torch.linspace(0.5, 1.5, 64)
    known, asked = model.fixed(TASK.support, TASK.query)
    x, queries, codes, decode, rates, fine_rates = arrays(
        known, asked, model.codes(known, TASK.labels)[:, :8], model.decode.weight[:64], model.rates, model.fine_rates
    )
    truth = np.eye(3)[TASK.labels.numpy()]

    def logits(rows: Any, weights: Any) -> Any:
        """The mean over both weights of a class."""
        scores = np.zeros((len(rows), 3))
        for weight, label in zip(weights, TASK.labels.tolist(), strict=True):
            scores[:, label] += rows @ weight / 2
        return scores

    def slopes(weights: Any) -> Any:
        """Of the sum of cross-entropies, by each image's own weights."""
        wrong = softmax(logits(x, weights)) - truth
        return np.stack([wrong[:, label] @ x / 2 for label in TASK.labels.tolist()])

    for _ in range(2):
        codes = codes - rates * (slopes(codes @ decode.T) @ decode)
    weights = codes @ decode.T
    for _ in range(3):
        weights = weights - fine_rates * slopes(weights)
    scores = model(TASK.support, TASK.labels, TASK.query).detach()
    np.testing.assert_allclose(scores, logits(queries, weights), rtol=1e-3, atol=1e-5)
    with torch.no_grad():  # as in tests, where no gradients are kept
        torch.testing.assert_close(model(TASK.support, TASK.labels, TASK.query), scores)


def test_a_decoder_of_zeros_leaves_a_step_from_zero() -> None:
    model = network(fine_steps=1, fine_rate=0.3).eval()
    with torch.no_grad():
        model.decode.weight.zero_()
    known, asked = model.fixed(TASK.support, TASK.query)
    # All classes are as probable before the step: w_c = rate * (sum of the class - a third of the sum of all) / shots.
    sums = known.view(3, 2, -1).sum(1)
    expected = asked @ (0.3 * (sums - known.sum(0) / 3) / 2).mT
    torch.testing.assert_close(model(TASK.support, TASK.labels, TASK.query), expected, rtol=1e-4, atol=1e-6)


def test_draws_and_their_divergence() -> None:
    model = network().train()
    law = torch.tensor([0.3, -0.2, 0.1, 0.4, 0.2, -3.0])
    mean, spread = law[:3], torch.tensor([0.4, 0.2, -3.0]).exp() - 1 + 0.05
    spread[2] = 1e-10  # what would be negative
    with seeded(1, 2):
        sample, divergence = model.drawn(law, 0.05)
    with seeded(1, 2):
        noise = torch.randn(3)
    torch.testing.assert_close(sample, mean + spread * noise)
    ours = Normal(mean.double(), spread.double())
    exact = mean.double() + spread.double() * noise.double()
    expected = (ours.log_prob(exact) - Normal(0.0, 1.0).log_prob(exact)).mean()
    assert float(divergence) == pytest.approx(float(expected), rel=1e-4)
    # Over many draws it is the divergence in closed form.
    wide = law[[0, 1, 3, 4]].expand(200_000, 4)
    with seeded(1, 3):
        many = float(model.drawn(wide, 0.05)[1])
    closed = (spread[:2].square() + mean[:2].square() - 1) / 2 - spread[:2].log()
    assert many == pytest.approx(float(closed.mean()), abs=0.01)
    sample, divergence = model.eval().drawn(law, 0.05)
    assert torch.equal(sample, mean) and float(divergence) == 0


def test_the_parts_of_the_loss() -> None:
    weights = {"divergence": 0.7, "code_penalty": 0.3, "weight_penalty": 0.01, "orthogonality": 2.0}
    model = network(latents=8, dropout=0.0, **weights).train()
    known, asked = model.fixed(TASK.support, TASK.query)
    with seeded(0, 1):
        found = model.loss(TASK)
    with seeded(0, 1):
        _, divergence = model.drawn(model.codes(known, TASK.labels))
    with seeded(0, 1):
        made = model.adapted(known, TASK.labels)
    expected = functional.cross_entropy(asked @ made.weights.view(3, 2, -1).mean(1).mT, TASK.truth)
    expected = expected + 0.7 * divergence + 0.3 * made.moved
    squares = sum(float((each**2).sum()) for each in arrays(*model.linear))
    (rows,) = arrays(model.decode.weight.mT)
    total = 0.0
    for i in range(8):
        for j in range(8):
            cosine = rows[i] @ rows[j] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[j])
            total += (cosine - (i == j)) ** 2 / 64
    assert float(found.detach()) == pytest.approx(float(expected.detach()) + 0.005 * squares + 2 * total, rel=1e-4)


def test_the_penalty_of_codes_pulls_the_first_ones_alone() -> None:
    slopes = {}
    for weight in (0.0, 100.0):
        model = network(code_penalty=weight).train()
        with seeded(0, 1):
            model.loss(TASK).backward()
        slopes[weight] = model.rates.grad, model.encode.weight.grad
    torch.testing.assert_close(slopes[0.0][0], slopes[100.0][0])  # where the codes end is taken as fixed
    assert not torch.allclose(slopes[0.0][1], slopes[100.0][1])


def test_one_step_moves_the_codes_by_what_is_penalised() -> None:
    model = network(latents=8, steps=1, dropout=0.0).train()
    (known,) = model.fixed(TASK.support)
    with seeded(0, 1):
        begun, _ = model.drawn(model.codes(known, TASK.labels))
        first = model.decoded(begun, TASK.labels)
        loss = functional.cross_entropy(model.logits(known, first, TASK.labels), TASK.labels, reduction="sum")
    (slope,) = torch.autograd.grad(loss, begun)
    with seeded(0, 1):
        moved = model.adapted(known, TASK.labels).moved
    torch.testing.assert_close(moved, (model.rates * slope).square().mean(), rtol=1e-4, atol=1e-8)


def test_training_differentiates_through_all_steps() -> None:
    # Without the divergence, whose slopes are too steep for differences where a deviation is tiny.
    model = network(latents=6, steps=2, fine_steps=2, fine_rate=0.3, divergence=0.0).double().train()
    task = dataclasses.replace(TASK, support=TASK.support.double(), query=TASK.query.double())
    trained = model.parameter_groups()[0]["params"]
    generator = torch.Generator().manual_seed(1)
    ways = [torch.randn(value.shape, generator=generator, dtype=value.dtype) for value in trained]

    def loss() -> Tensor:
        with seeded(0, 7):
            return model.loss(task)

    loss().backward()
    slope = sum(float((value.grad * way).sum()) for value, way in zip(trained, ways, strict=True))
    ends = []
    for moved in (1e-6, -2e-6):
        with torch.no_grad():
            for value, way in zip(trained, ways, strict=True):
                value += moved * way
        ends.append(float(loss().detach()))
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-3)


def test_what_is_trained_and_what_is_fixed() -> None:
    model = network().train()
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    model.loss(TASK).backward()
    assert all(torch.equal(value, before[name]) for name, value in model.encoder.state_dict().items())
    assert model.encoder.training
    trained = {id(value) for value in model.parameter_groups()[0]["params"]}
    for name, value in model.named_parameters():
        fixed = name.startswith(("encoder.", "base."))
        assert (value.grad is None) is fixed and (id(value) in trained) is not fixed
        assert fixed or float(value.grad.abs().max()) > 0
    model.base_loss(TASK.query, TASK.classes[TASK.truth]).backward()
    assert all(value.grad is not None for value in (*model.encoder.parameters(), *model.base.parameters()))


def test_gradients_are_clipped() -> None:
    model = network().train()
    (1e6 * model.loss(TASK)).backward()
    model.encode.weight.grad = torch.zeros_like(model.encode.weight)
    model.encode.weight.grad[0, :2] = torch.tensor([50.0, 0.05])  # entries first: the small one keeps its share
    model.mend_gradients()
    for value in model.parameter_groups()[0]["params"]:
        assert float(value.grad.norm()) <= 0.1 + 1e-6
    first, second = model.encode.weight.grad[0, :2].tolist()
    assert second / first == pytest.approx(0.5, rel=1e-4)


def test_maps_shrink_where_the_steps_overflow() -> None:
    model = network().train()
    with torch.no_grad():
        model.decode.weight *= 1e4
    loss = model.loss(TASK)
    loss.backward()
    assert not loss.isfinite()
    model.mend_gradients()
    for weight in model.linear:
        assert (
            float(functional.cosine_similarity(weight.grad.flatten(), weight.detach().flatten(), dim=0)) > 0.9
        )  # clipped
        assert 0 < float(weight.grad.norm()) <= 0.1 + 1e-6
    assert not model.rates.grad.any() and not model.fine_rates.grad.any()


def test_orders_and_names_do_not_matter() -> None:
    model = network().eval()
    first = model(TASK.support, TASK.labels, TASK.query)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(TASK.support, TASK.labels, TASK.query[order]), first[order], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(model(TASK.support, TASK.labels, TASK.query[4:5]), first[4:5], rtol=1e-3, atol=1e-5)
    names = torch.tensor([2, 0, 1])
    renamed = model(TASK.support, names[TASK.labels], TASK.query)
    torch.testing.assert_close(renamed[:, names], first, rtol=1e-3, atol=1e-5)
    mixed = torch.tensor([3, 0, 5, 1, 4, 2])  # the support in another order
    shuffled = model(TASK.support[mixed], TASK.labels[mixed], TASK.query)
    torch.testing.assert_close(shuffled, first, rtol=1e-3, atol=1e-5)


def test_recommended_settings() -> None:
    one, five = (LEO.recommended("cub", Condition(shots=shots)) for shots in (1, 5))
    assert one == LEO()
    assert (five.training.learning_rate, five.divergence, five.dropout) == (4.102361e-4, 0.466387, 0.300299)
    assert LEO.recommended("tiered", Condition(shots=5)).orthogonality == 2.481216e-2
    assert not LEO.recommended("omniglot").training.augment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latents": 0}, "latents must be"),
        ({"steps": 0}, "steps must be"),
        ({"fine_steps": 0}, "fine_steps must be"),
        ({"inner_rate": 0.0}, "inner_rate must be"),
        ({"fine_rate": float("nan")}, "fine_rate must be"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"divergence": -1.0}, "divergence must be"),
        ({"orthogonality": float("inf")}, "orthogonality must be"),
    ],
)
def test_bad_settings_are_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataclasses.replace(LEO(), **change)
