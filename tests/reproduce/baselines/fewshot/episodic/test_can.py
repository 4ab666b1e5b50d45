"""CAN+T: attention pair by pair, both losses position by position, and the rounds that enlarge the support."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, SHAPE, episode
from torch import Tensor
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.can import CAN, CrossAttention, CrossAttentionNetwork
from condiff.reproduce.pretraining.episodic import Episode, seeded

TASK = episode(5, shots=2, noise=1.0)
#: As many positions have the maps of the equations below.
POSITIONS = 5
Array = NDArray[np.float64]


def network(**changes: object) -> CrossAttentionNetwork:
    with seeded(0, 0):
        found = replace(CAN(), **changes).build(SHAPE, 3, 1, BASE)  # type: ignore[arg-type]
    assert isinstance(found, CrossAttentionNetwork)
    return found


def on_maps(**changes: object) -> CrossAttentionNetwork:
    """A network that is given maps instead of images, as if it had been trained, in double precision."""
    model = network(**changes)
    with seeded(0, 1), torch.no_grad():
        model.attend = CrossAttention(POSITIONS, 2, model.settings.temperature)
        norm = model.attend.norm
        norm.running_mean.normal_(std=0.1)  # type: ignore[union-attr]
        norm.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]
        norm.weight.uniform_(0.5, 2.0)
        norm.bias.normal_()
    model.positions = lambda support, query: (support, query)  # type: ignore[method-assign]
    return model.double().eval()


def maps(queries: int = 12) -> Episode:
    """A task of maps, (64, positions), of which those of a class have something in common."""
    generator = torch.Generator().manual_seed(2)
    labels, truth = torch.arange(3).repeat_interleave(2), torch.arange(queries) % 3
    common = torch.randn(3, 64, POSITIONS, generator=generator, dtype=torch.float64)
    own = torch.randn(6 + queries, 64, POSITIONS, generator=generator, dtype=torch.float64)
    rows = 0.3 * common[torch.cat([labels, truth])] + own
    return Episode(rows[:6], labels, rows[6:], truth, torch.tensor([4, 0, 5]))


def numbers(value: Tensor | None) -> Array:
    assert value is not None
    found: Array = value.detach().numpy()
    return found


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def attention(part: CrossAttention, one: Array, two: Array) -> Array:
    """Of the positions of ``one``, (channels, positions), by those of ``two``, in evaluation."""
    places, norm = range(POSITIONS), part.norm
    correlation = np.array([[cosine(one[:, i], two[:, j]) for j in places] for i in places])
    hidden = numbers(part.narrow.weight) @ correlation.mean(0) + numbers(part.narrow.bias)
    hidden = (hidden - numbers(norm.running_mean)) / np.sqrt(numbers(norm.running_var) + norm.eps)
    hidden = np.maximum(hidden * numbers(norm.weight) + numbers(norm.bias), 0)
    kernel = numbers(part.widen.weight) @ hidden + numbers(part.widen.bias)
    raised = np.exp([sum(correlation[i, j] * kernel[j] for j in places) / POSITIONS / 0.025 for i in places])
    found: Array = 1 + raised / raised.sum()
    return found


def pairs(model: CrossAttentionNetwork, task: Episode) -> list[list[tuple[Array, Array]]]:
    """Attended maps of every query, and in it of every class; the support has the labels 0, 0, 1, 1, 2, 2."""
    known, part = numbers(task.support), model.attend
    means = [(known[2 * label] + known[2 * label + 1]) / 2 for label in range(3)]
    return [
        [(mean * attention(part, mean, query), query * attention(part, query, mean)) for mean in means]
        for query in numbers(task.query)
    ]


def cross_entropy(logits: Array, label: int) -> float:
    return float(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label])


def test_maps_keep_their_positions() -> None:
    for size, side in ((16, 8), (28, 7), (84, 5)):
        built = CAN().build((1, size, size), 5, 1, 4)
        assert built.maps(torch.zeros(1, 1, size, size)).shape[2:] == (side, side)
    plain = CAN(side=1).build((1, 28, 28), 5, 1, 4)
    assert plain.maps(torch.zeros(1, 1, 28, 28)).shape[2:] == (1, 1)


def test_support_and_queries_are_not_confused() -> None:
    model = network().eval()
    known, asked = model.positions(TASK.support, TASK.query)
    assert known.shape == (6, 64, 64) and asked.shape == (12, 64, 64)
    torch.testing.assert_close(asked[3], model.maps(TASK.query[3:4])[0].flatten(1), rtol=1e-4, atol=1e-5)


def test_scores_pair_by_pair() -> None:
    model, task = on_maps(share=0.0), maps()
    found = numbers(model(task.support, task.labels, task.query))
    for query, each in enumerate(pairs(model, task)):
        for label, (of_class, of_query) in enumerate(each):
            expected = 7 * cosine(of_class.mean(1), of_query.mean(1))
            assert found[query, label] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_both_losses_position_by_position() -> None:
    model, task = on_maps(), maps()
    weight, bias = numbers(model.base.weight), numbers(model.base.bias)
    of_task, of_base = [], []
    for each, truth in zip(pairs(model, task), task.truth.tolist(), strict=True):
        for place in range(POSITIONS):
            logits = np.array([7 * cosine(of_class.mean(1), of_query[:, place]) for of_class, of_query in each])
            of_task.append(cross_entropy(logits, truth))
            own = each[truth][1][:, place]
            of_base.append(cross_entropy(weight @ own + bias, int(task.classes[truth])))
    expected = np.mean(of_base) + 0.5 * np.mean(of_task)
    assert float(model.loss(task).detach()) == pytest.approx(expected, rel=1e-9)


def test_even_attention_compares_the_means_of_maps() -> None:
    even, uneven, task = on_maps(share=0.0, temperature=1e9), on_maps(share=0.0), maps()
    means = task.support.mean(-1).view(3, 2, -1).mean(1)
    expected = 7 * functional.cosine_similarity(task.query.mean(-1)[:, None], means[None], dim=-1)
    torch.testing.assert_close(even(task.support, task.labels, task.query), expected, rtol=1e-6, atol=1e-6)
    assert not torch.allclose(uneven(task.support, task.labels, task.query), expected, atol=0.1)


def test_sure_queries_join_the_support() -> None:
    model, task = on_maps(share=5 / 12), maps()
    scores = first = model.scores(task.support, task.labels, task.query)
    for joined in (5, 10):  # a third round would need 15 of the 12
        confidence, predicted = (part.tolist() for part in scores.max(-1))
        rows, names = list(task.support), task.labels.tolist()
        for place in sorted(range(12), key=lambda place: -confidence[place])[:joined]:
            rows.append(task.query[place])
            names.append(predicted[place])
        scores = model.scores(torch.stack(rows), torch.tensor(names), task.query)
    found = model(task.support, task.labels, task.query)
    torch.testing.assert_close(found, scores, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(found, first, atol=0.1)


def test_as_many_queries_join_as_published() -> None:
    model, task, joined = on_maps(), maps(75), []
    plain = model.scores

    def counted(known: Tensor, labels: Tensor, asked: Tensor) -> Tensor:
        joined.append(len(labels))
        return plain(known, labels, asked)

    model.scores = counted  # type: ignore[method-assign]
    model(task.support, task.labels, task.query)
    model(task.support, task.labels, task.query[:1])
    assert joined == [6, 6 + 35, 6 + 70, 6, 6 + 1]


def test_queries_and_classes_in_another_order() -> None:
    model, task, names = on_maps(), maps(), torch.tensor([2, 0, 1])
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    first = model(task.support, task.labels, task.query)
    torch.testing.assert_close(model(task.support, task.labels, task.query[order]), first[order])
    torch.testing.assert_close(model(task.support, names[task.labels], task.query)[:, names], first)


def test_gradients_reach_everything() -> None:
    model = network().train()
    model.loss(TASK).backward()
    for name, value in model.named_parameters():
        assert value.grad is not None and torch.isfinite(value.grad).all(), name
    for part in (model.encoder, model.attend.narrow, model.attend.widen, model.base):
        assert max(float(value.grad.abs().max()) for value in part.parameters()) > 1e-8  # type: ignore[union-attr]
    # Only the classes of the task are scored, but the head learns which ones they are not.
    assert (model.base.weight.grad.abs().sum(1) > 0).all()  # type: ignore[union-attr]


def test_settings_of_the_authors() -> None:
    assert CAN.recommended("mini") == CAN()
    assert CAN().training.schedule(1000).milestones == (7, 8, 9)
    assert CAN.recommended("tiered").training.drop_at == (1 / 4, 1 / 2, 3 / 4)
    assert not CAN.recommended("omniglot").training.augment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 0.0}, "scale must be"),
        ({"temperature": math.inf}, "temperature must be"),
        ({"reduction": 0}, "reduction must be"),
        ({"side": 0}, "side must be"),
        ({"balance": -1.0}, "balance must be"),
        ({"share": 1.5}, "share must be"),
        ({"share": math.nan}, "share must be"),
    ],
)
def test_bad_settings_are_reported(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        replace(CAN(), **change)  # type: ignore[arg-type]
