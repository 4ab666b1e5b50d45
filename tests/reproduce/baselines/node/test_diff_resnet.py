"""The diffusion residual network against a dense recomputation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph.sparse import SparseMatrix
from condiff.kernels import dropout as dropped_kernels
from condiff.reproduce.baselines.node import diff_resnet
from condiff.reproduce.baselines.node.diff_resnet import DiffResNet, _Network
from condiff.reproduce.baselines.node.problem import NodeProblem


def whole(network: _Network) -> list[Tensor]:
    """The parameters, with the blocks of the residual block's weights side by side."""
    return [torch.cat(list(network.blocks), 1), network.bias, network.classes, network.classes_bias]


def gradients(network: _Network) -> list[Tensor]:
    blocks = torch.cat([block.grad for block in network.blocks if block.grad is not None], 1)
    return [blocks, *(each.grad for each in whole(network)[1:] if each.grad is not None)]


def dense_step(problem: NodeProblem, step_size: float) -> NDArray[np.float64]:
    looped = problem.graph.weights.toarray() + np.eye(problem.n_nodes)
    weights = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))
    return np.asarray(np.eye(problem.n_nodes) - step_size * (np.diag(weights.sum(1)) - weights))


def test_a_validation_serves_the_next_epoch_and_no_other_weights(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    network = DiffResNet(layers=2, dropout=0.0).network(tiny_problem)
    with torch.no_grad():
        network.eval()()
    ready = network._ready[1]
    network.train()().sum().backward()
    served = gradients(network)
    assert ready and not network._ready[1]
    network.zero_grad()
    network().sum().backward()
    for one, other in zip(served, gradients(network), strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        before = network.eval()()
        network.blocks[0].add_(1.0)
    assert (network.train()() - before).abs().max() > 0.1


@pytest.mark.parametrize(("step_size", "layers"), [(0.25, 1), (0.4, 5)])
def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem, step_size: float, layers: int) -> None:
    network = DiffResNet(step_size=step_size, layers=layers).network(tiny_problem).eval()
    weight, bias, classes, classes_bias = (value.detach().double().numpy() for value in whole(network))
    x = tiny_problem.features.toarray()
    x = x + np.maximum(x @ weight + bias, 0)
    for _ in range(layers):
        x = dense_step(tiny_problem, step_size) @ x
    outputs = np.exp(x @ classes + classes_bias)
    np.testing.assert_allclose(network().exp().detach(), outputs / outputs.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("changes", [{"step_size": 0.0}, {"layers": 0}])
def test_without_diffusion_it_is_a_residual_network(tiny_problem: NodeProblem, changes: dict[str, float]) -> None:
    network = DiffResNet(**changes).network(tiny_problem).eval()  # type: ignore[arg-type]
    weight, bias, classes, classes_bias = whole(network)
    x = tiny_problem.x_dense
    x = x + torch.relu(x @ weight + bias)
    torch.testing.assert_close(network(), torch.log_softmax(x @ classes + classes_bias, -1))


def test_dropout_comes_before_every_step_of_torch(tiny_problem: NodeProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks of three features, so that eight of them make three blocks.
    drawn: list[Tensor] = []
    original = diff_resnet._random_bytes

    def remember(shape: torch.Size) -> Tensor:
        drawn.append(original(shape).clone())
        return drawn[-1].clone()

    monkeypatch.setattr(diff_resnet.kernels, "available", lambda: False)
    monkeypatch.setattr(diff_resnet, "_random_bytes", remember)
    torch.manual_seed(0)
    network = _Network(tiny_problem, DiffResNet(layers=2, dropout=0.25), width=3).train()
    scores = network()
    scores[:, 0].sum().backward()
    found = gradients(network)

    first, second = (torch.cat([drawn[2 * block + layer] for block in range(3)], dim=1) >= 64 for layer in range(2))
    step = torch.from_numpy(dense_step(tiny_problem, 0.25)).float()
    weight, bias, classes, classes_bias = whole(network)
    x = tiny_problem.x_dense
    x = x + torch.relu(x @ weight + bias)
    for mask in (first, second):
        x = step @ (x * mask / 0.75)
    expected = torch.log_softmax(x @ classes + classes_bias, -1)
    torch.testing.assert_close(scores, expected)
    parameters = [weight, bias, classes, classes_bias]
    for ours, theirs in zip(found, torch.autograd.grad(expected[:, 0].sum(), parameters), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert theirs.abs().sum() > 0


def compiled_masks(key: int, layers: int, n_nodes: int, least: int) -> list[Tensor]:
    """What the compiled loop keeps, layer by layer: a diffusion that does nothing shows the product of its masks."""
    nothing = SparseMatrix.of(np.eye(n_nodes))
    masks = [torch.ones(n_nodes, 64)]
    for count in range(1, layers + 1):
        u = torch.ones(n_nodes, 64)
        pattern = nothing.pattern
        matrix = pattern.crow_indices.numpy(), pattern.col_indices.numpy(), nothing.values.numpy()
        # One layer alone, under the counter that it has in the full run.
        shifted = np.uint64((key + 8 * (count - 1) * n_nodes * 0x9E3779B97F4A7C15) % 2**64)
        dropped_kernels.forward(*matrix, u.numpy(), np.empty((n_nodes, 64), np.float32), 1, shifted, least)
        masks.append(u)
    return masks[1:]


def test_dropout_comes_before_every_compiled_step(tiny_problem: NodeProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    key = 123456789
    monkeypatch.setattr(diff_resnet, "_random_key", lambda: np.uint64(key))
    torch.manual_seed(0)
    network = DiffResNet(layers=2, dropout=0.25).network(tiny_problem).train()
    scores = network()
    scores[:, 0].sum().backward()
    found = gradients(network)
    masks = compiled_masks(key, 2, tiny_problem.n_nodes, 64)
    assert not torch.equal(*masks)
    step = torch.from_numpy(dense_step(tiny_problem, 0.25)).float()
    weight, bias, classes, classes_bias = whole(network)
    x = tiny_problem.x_dense
    x = x + torch.relu(x @ weight + bias)
    for mask in masks:
        x = step @ (x * mask[:, : x.shape[1]] / 0.75)
    expected = torch.log_softmax(x @ classes + classes_bias, -1)
    torch.testing.assert_close(scores, expected)
    parameters = [weight, bias, classes, classes_bias]
    for ours, theirs in zip(found, torch.autograd.grad(expected[:, 0].sum(), parameters), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert theirs.abs().sum() > 0


@pytest.mark.parametrize("least", [64, 90, 200])
def test_compiled_masks_are_random(least: int) -> None:
    one, two, three = (mask.numpy() for mask in compiled_masks(7, 3, 2000, least))
    rate, error = 1 - least / 256, 5 * np.sqrt(least / 256 * (1 - least / 256) / one.size)
    for mask in (one, two, three):
        assert abs(mask.mean() - rate) < error
        # Neither the nodes nor the columns have a bias of their own.
        assert np.abs(mask.mean(0) - rate).max() < 5 * error * np.sqrt(64)
        assert np.abs(mask.mean(1) - rate).max() < 5.5 * np.sqrt(rate * (1 - rate) / 64) + 1e-9
    assert abs((one * two).mean() - rate**2) < 2 * error
    assert abs((one[1:] * one[:-1]).mean() - rate**2) < 2 * error
    assert abs((one[:, 1:] * one[:, :-1]).mean() - rate**2) < 2 * error


def test_random_bytes_are_uniform() -> None:
    torch.manual_seed(0)
    numbers = diff_resnet._random_bytes(torch.Size((1001, 101)))
    assert numbers.shape == (1001, 101)
    counts = torch.bincount(numbers.flatten().long(), minlength=256)
    assert abs(counts - counts.float().mean()).max() < 6 * counts.float().mean() ** 0.5


def test_solves_the_same_with_the_same_seed(tiny_problem: NodeProblem) -> None:
    method = DiffResNet(layers=5, training=dataclasses.replace(DiffResNet().training, epochs=40))
    one, again, other = (method.solve(tiny_problem, seed) for seed in (5, 5, 6))
    assert one.scores.numpy().tobytes() == again.scores.numpy().tobytes() != other.scores.numpy().tobytes()
    assert one.scores.argmax(-1)[tiny_problem.validation].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("settings", [{"step_size": -1.0}, {"layers": -1}, {"dropout": 1.0}])
def test_bad_settings(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        DiffResNet(**settings)  # type: ignore[arg-type]
