"""Each method's equation, computed anew in the plainest way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.fewshot.episodic.image_tasks import BASE, SHAPE, episode, network
from torch import Tensor
from torch.nn import functional

from condiff.reproduce.baselines.fewshot.episodic.feat import AdaptedPrototypes
from condiff.reproduce.baselines.fewshot.episodic.gidaris import WeightGenerator
from condiff.reproduce.baselines.fewshot.episodic.maml import MAML, AdaptedNetwork
from condiff.reproduce.baselines.fewshot.episodic.matchingnet import MatchingNetwork
from condiff.reproduce.baselines.fewshot.episodic.relationnet import RelationNetwork
from condiff.reproduce.baselines.fewshot.episodic.snail import CausalAttention, SequenceNetwork, TemporalBlock
from condiff.reproduce.baselines.fewshot.episodic.tpn import PropagationNetwork, neighbour_weights, propagated

TASK = episode(5, shots=2, noise=1.0)


def features(model: torch.nn.Module) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        return model.embed(TASK.support), model.embed(TASK.query)  # type: ignore[operator,return-value]


def test_protonet() -> None:
    model = network("ProtoNet").eval()
    (known,), (asked,) = features(model)
    for query, scores in zip(asked, model(TASK.support, TASK.labels, TASK.query).detach(), strict=True):
        for label in range(3):
            prototype = (known[2 * label] + known[2 * label + 1]) / 2
            assert float(scores[label]) == pytest.approx(-float(((query - prototype) ** 2).sum()), rel=1e-4, abs=1e-4)


def test_matchingnet_without_context_is_attention_by_cosines() -> None:
    model = network("MatchingNet").eval()
    assert isinstance(model, MatchingNetwork)
    with torch.no_grad():
        for value in (*model.context.parameters(), *model.reader.parameters()):
            value.zero_()  # LSTMs that say nothing: g is the feature, and f is too
    (known,), (asked,) = features(model)
    weights = (100 * functional.cosine_similarity(asked[:, None], known[None], dim=-1)).softmax(-1)
    expected = torch.stack([weights[:, TASK.labels == label].sum(-1) for label in range(3)], dim=-1)
    torch.testing.assert_close(
        model(TASK.support, TASK.labels, TASK.query).exp(), expected + 1e-6, rtol=1e-3, atol=1e-4
    )


def test_matchingnet_reads_the_support_step_by_step() -> None:
    model = network("MatchingNet", steps=2).eval()
    assert isinstance(model, MatchingNetwork)
    (known,), (asked,) = features(model)
    context, cell = model.context, model.reader
    # The two-way LSTM, place by place.
    outputs = [torch.zeros(len(known), known.shape[1]) for _ in range(2)]
    for way, (suffix, places) in enumerate((("", range(6)), ("_reverse", range(5, -1, -1)))):
        hidden = memory = torch.zeros(known.shape[1])
        for place in places:
            gates = getattr(context, f"weight_ih_l0{suffix}") @ known[place] + getattr(context, f"bias_ih_l0{suffix}")
            gates = gates + getattr(context, f"weight_hh_l0{suffix}") @ hidden + getattr(context, f"bias_hh_l0{suffix}")
            enter, keep, new, leave = gates.chunk(4)
            memory = keep.sigmoid() * memory + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * memory.tanh()
            outputs[way][place] = hidden
    g = known + outputs[0] + outputs[1]
    torch.testing.assert_close(model.support_context(known), g, rtol=1e-4, atol=1e-5)
    query = asked[3]
    hidden, memory = query, torch.zeros_like(query)
    for _ in range(2):
        read = torch.softmax(g @ hidden, 0) @ g
        gates = cell.weight_ih @ torch.cat([query, read]) + cell.bias_ih + cell.weight_hh @ hidden + cell.bias_hh
        enter, keep, new, leave = gates.chunk(4)
        memory = keep.sigmoid() * memory + enter.sigmoid() * new.tanh()
        hidden = leave.sigmoid() * memory.tanh() + query
    torch.testing.assert_close(model.query_context(asked, g)[3], hidden, rtol=1e-4, atol=1e-5)


def test_relationnet_compares_every_pair() -> None:
    model = network("RelationNet").eval()
    assert isinstance(model, RelationNetwork)
    known, asked = model.maps(TASK.support), model.maps(TASK.query)
    assert known.shape[1:] == (64, 4, 4)  # two of four blocks pool
    scores = model(TASK.support, TASK.labels, TASK.query)
    pair = torch.cat([known[2] + known[3], asked[7]])[None]
    torch.testing.assert_close(scores[7, 1], model.relation(pair)[0, 0], rtol=1e-4, atol=1e-5)
    assert ((scores > 0) & (scores < 1)).all()
    truth = np.eye(3)[TASK.truth.numpy()]
    expected = np.mean((scores.detach().numpy() - truth) ** 2)
    assert float(model.loss(TASK).detach()) == pytest.approx(expected, rel=1e-4)


def test_relationnet_clips_both_parts() -> None:
    model = network("RelationNet").train()
    (1e6 * model.loss(TASK)).backward()
    model.mend_gradients()
    for part in (model.encoder, model.relation):
        norm = torch.cat([value.grad.flatten() for value in part.parameters()]).norm()
        assert float(norm) == pytest.approx(0.5, rel=1e-3)


def test_tpn_propagates_in_closed_form() -> None:
    generator = np.random.default_rng(0)
    rows, known = generator.normal(size=(9, 4)), np.zeros((9, 3))
    known[[0, 1, 2], [0, 1, 2]] = 1.0
    weights = np.exp(-((rows[:, None] - rows[None]) ** 2).mean(-1) / 2)
    nearest = np.argsort(-weights, axis=1)[:, :4]
    kept = np.zeros((9, 9), dtype=bool)
    np.put_along_axis(kept, nearest, True, axis=1)
    weights *= kept | kept.T
    found = neighbour_weights(torch.from_numpy(rows), 4)
    np.testing.assert_allclose(found, weights, rtol=1e-10, atol=1e-12)
    degree = np.diag(weights.sum(1) ** -0.5)
    expected = np.linalg.inv(np.eye(9) - 0.9 * degree @ weights @ degree) @ known
    np.testing.assert_allclose(propagated(found, torch.from_numpy(known), 0.9), expected, rtol=1e-9)
    # The closed form is where F = alpha S F + Y stands still.
    np.testing.assert_allclose(0.9 * degree @ weights @ degree @ expected + known, expected, rtol=1e-9)


def test_tpn_divides_by_length_scales() -> None:
    model = network("TPN").eval()
    assert isinstance(model, PropagationNetwork)
    maps = model.maps(torch.cat([TASK.support, TASK.query]))
    rows = maps.flatten(1) / model.scales(maps)
    known = torch.zeros(len(rows), 3)
    known[torch.arange(6), TASK.labels] = 1.0
    expected = propagated(neighbour_weights(rows, 20), known, 0.99)
    torch.testing.assert_close(model.everyone(TASK.support, TASK.labels, TASK.query), expected, rtol=1e-3, atol=1e-4)
    both = torch.cat([TASK.labels, TASK.truth])
    torch.testing.assert_close(model.loss(TASK), functional.cross_entropy(expected, both), rtol=1e-3, atol=1e-4)


def test_maml_steps_are_plain_descent() -> None:
    model = network("MAML", inner_rate=0.05, test_steps=2).eval()
    assert isinstance(model, AdaptedNetwork)
    moved = model.adapted(TASK.support, TASK.labels)
    assert not [name for name in moved if name.startswith("encoder.blocks.0.1.")]  # normalisation stays
    plain = network("MAML")
    assert isinstance(plain, AdaptedNetwork)
    optimiser = torch.optim.SGD([value for name, value in plain.named_parameters() if name in moved], lr=0.05)
    for _ in range(2):
        optimiser.zero_grad()
        functional.cross_entropy(plain.head(plain.encoder(TASK.support)), TASK.labels).backward()
        optimiser.step()
    for name, value in plain.named_parameters():
        if name in moved:
            torch.testing.assert_close(moved[name], value, rtol=1e-4, atol=1e-6)


def smooth_maml(**changes: object) -> AdaptedNetwork:
    """In double precision, and smooth, so that differences tell derivatives."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AdaptedNetwork(SHAPE, 3, MAML(inner_rate=0.3, steps=2, **changes)).double()  # type: ignore[arg-type]
    for block in model.encoder.blocks:
        block[2], block[3] = torch.nn.Softplus(), torch.nn.AvgPool2d(2)  # type: ignore[index,operator]
    return model.train()


def test_maml_differentiates_through_its_steps() -> None:
    task = [part.double() if part.is_floating_point() else part for part in (TASK.support, TASK.labels, TASK.query)]
    model = smooth_maml()
    generator = torch.Generator().manual_seed(1)
    direction = {
        name: torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in model.named_parameters()
    }

    def loss() -> Tensor:
        return functional.cross_entropy(model(*task), TASK.truth)

    loss().backward()
    slope = sum(float((value.grad * direction[name]).sum()) for name, value in model.named_parameters())
    first = smooth_maml(first_order=True)
    functional.cross_entropy(first(*task), TASK.truth).backward()
    rough = sum(float((value.grad * direction[name]).sum()) for name, value in first.named_parameters())
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            for name, value in model.named_parameters():
                value += sign * (1e-6 if sign == 1 else 2e-6) * direction[name]
        ends.append(float(loss().detach()))
    measured = (ends[0] - ends[1]) / 2e-6
    assert slope == pytest.approx(measured, rel=1e-4)
    assert abs(rough - measured) > 1e-2 * abs(measured)  # what the second derivatives are for


def test_feat_adapts_prototypes_to_each_other() -> None:
    model = network("FEAT").eval()
    assert isinstance(model, AdaptedPrototypes)
    known, asked = (model.maps(images).amax(dim=(2, 3)) for images in (TASK.support, TASK.query))
    prototypes = known.view(3, 2, -1).mean(1)
    part = model.adapt
    q, k, v = (each(prototypes) for each in (part.query, part.key, part.value))
    read = torch.softmax(q @ k.T / math.sqrt(64), -1) @ v
    adapted = functional.layer_norm(prototypes + part.out(read), (64,), part.norm.weight, part.norm.bias)
    expected = -(torch.cdist(asked, adapted) ** 2) / 64
    torch.testing.assert_close(model(TASK.support, TASK.labels, TASK.query), expected, rtol=1e-3, atol=1e-4)
    rows, classes = torch.cat([known, asked]), torch.cat([TASK.labels, TASK.truth])
    centres = torch.stack([part(rows[classes == label][None])[0].mean(0) for label in range(3)])
    second = functional.cross_entropy(-(torch.cdist(rows, centres) ** 2) / 16, classes)
    first = functional.cross_entropy(expected, TASK.truth)
    torch.testing.assert_close(model.loss(TASK), first + second, rtol=1e-3, atol=1e-4)


def test_gidaris_generates_weights() -> None:
    model = network("Gidaris").eval()
    assert isinstance(model, WeightGenerator)
    (known,), (asked,) = features(model)
    assert float(known.min()) < 0  # no last ReLU
    z = functional.normalize(known, dim=-1)
    base = functional.normalize(model.weights, dim=-1)
    for label in range(3):
        read = []
        for example in z[2 * label : 2 * label + 2]:
            near = functional.cosine_similarity(model.asking(example)[None], model.keys, dim=-1)
            read.append(torch.softmax(10 * near, 0) @ base)
        weights = model.average * z[2 * label : 2 * label + 2].mean(0) + model.attended * torch.stack(read).mean(0)
        expected = 10 * functional.cosine_similarity(asked, weights[None], dim=-1)
        scores = model(TASK.support, TASK.labels, TASK.query)[:, label]
        torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-4)


def test_gidaris_hides_the_classes_that_play_novel_ones() -> None:
    model, task = network("Gidaris").train(), episode(3, others=6)
    assert isinstance(model, WeightGenerator)
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    model.loss(task).backward()
    assert all(torch.equal(value, before[name]) for name, value in model.encoder.state_dict().items())
    assert all(value.grad is None for value in model.encoder.parameters())
    assert model.keys.grad is not None and model.weights.grad is not None
    hidden = set(task.classes.tolist())
    for label in range(BASE):
        moved = float(model.keys.grad[label].abs().max()) + float(model.weights.grad[label].abs().max())
        assert (moved == 0) is (label in hidden)


def test_snail_never_looks_ahead() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 7, 5, generator=generator)
    later = x.clone()
    later[:, 4:] = torch.randn(2, 3, 5, generator=generator)
    for block in (TemporalBlock(5, 7, 6), CausalAttention(5, 8, 4)):
        first, second = block(x), block(later)
        torch.testing.assert_close(first[:, :4], second[:, :4])
        assert not torch.allclose(first[:, 4:], second[:, 4:])
    block = TemporalBlock(5, 7, 6)
    assert block.dilations == [2, 4, 8]
    assert block(x).shape == (2, 7, 5 + 3 * 6)
    layer, place = block.layers[0], 5
    gates = layer.weight[:, :, 0] @ x[1, place - 2] + layer.weight[:, :, 1] @ x[1, place] + layer.bias
    moved, gate = gates.chunk(2)
    torch.testing.assert_close(block(x)[1, place, 5:11], moved.tanh() * gate.sigmoid(), rtol=1e-4, atol=1e-5)


def test_snail_attention_is_a_mean_over_the_past() -> None:
    block, x = CausalAttention(5, 8, 4), torch.randn(1, 6, 5, generator=torch.Generator().manual_seed(1))
    keys, query = block.key(x[0, :4]), block.query(x[0, 3])
    expected = torch.softmax(keys @ query / math.sqrt(8), 0) @ block.value(x[0, :4])
    torch.testing.assert_close(block(x)[0, 3, 5:], expected, rtol=1e-4, atol=1e-5)


def test_snail_gives_no_label_to_the_query() -> None:
    model = network("SNAIL", shots=2).eval()
    assert isinstance(model, SequenceNetwork)
    seen: list[Tensor] = []
    handle = model.blocks.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(TASK.support, TASK.labels, TASK.query)
    handle.remove()
    assert seen[0].shape == (12, 7, 64 + 3)
    assert not seen[0][:, -1, 64:].any()
    assert torch.equal(seen[0][0, :6, 64:].argmax(-1), TASK.labels)
