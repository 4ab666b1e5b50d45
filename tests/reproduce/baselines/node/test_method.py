"""The common trainer: stopping, decay groups, penalty, optimiser, determinism."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.resolvent import ResolventCOIN
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node import METHODS, method
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork, train, zero_bias
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import Training


class Linear(NodeNetwork):
    """Logistic regression on the features, small enough to follow by hand."""

    def __init__(self, problem: NodeProblem) -> None:
        super().__init__()
        self.x = problem.x_dense
        self.weight = nn.Parameter(torch.randn(problem.n_features, problem.n_classes))
        self.bias = nn.Parameter(torch.randn(problem.n_classes))

    def forward(self) -> Tensor:
        return torch.log_softmax(self.x @ self.weight + self.bias, -1)


class OnlyWeightDecays(Linear):
    def decayed(self) -> Iterable[nn.Parameter]:
        return (self.weight,)


class Penalised(Linear):
    def penalty(self) -> Tensor:
        return 0.3 * self.weight.square().sum() + self.bias.square().sum()


class Script(NodeNetwork):
    """Scores of the validation nodes that follow a script, one row of confidences an epoch."""

    def __init__(self, problem: NodeProblem, confidences: list[float]) -> None:
        super().__init__()
        self.problem, self.confidences = problem, confidences
        self.epoch = nn.Parameter(torch.tensor(0.0))
        self.register_buffer("number", torch.tensor(0))

    def forward(self) -> Tensor:
        if self.training:
            self.number += 1
        right = torch.tensor(self.confidences)[min(int(self.number), len(self.confidences)) - 1]
        labels = self.problem.labels.clamp(min=0)
        scores = torch.where(nn.functional.one_hot(labels, 2).bool(), right, 1 - right).log()
        return scores + 0 * self.epoch


def by_hand(network: Linear, problem: NodeProblem, optimiser: torch.optim.Optimizer, epochs: int) -> None:
    for _ in range(epochs):
        optimiser.zero_grad()
        output = network()[problem.train]
        (nn.functional.nll_loss(output, problem.labels[problem.train]) + network.penalty()).backward()
        optimiser.step()


def pair(kind: type[Linear], problem: NodeProblem) -> tuple[Linear, Linear]:
    networks = []
    for _ in range(2):
        torch.manual_seed(3)
        networks.append(kind(problem))
    return networks[0], networks[1]


# Too few epochs for validation to get worse, so that the last weights are the best ones.
FIVE = Training("adam", 0.05, weight_decay=0.02, epochs=5, patience=None)


@pytest.mark.parametrize("kind", [Linear, Penalised])
def test_steps_are_those_of_torch_adam(tiny_problem: NodeProblem, kind: type[Linear]) -> None:
    ours, theirs = pair(kind, tiny_problem)
    outcome = train(ours, tiny_problem, FIVE)
    by_hand(theirs, tiny_problem, torch.optim.Adam(theirs.parameters(), lr=0.05, weight_decay=0.02), 5)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
    torch.testing.assert_close(outcome.scores, theirs().detach())
    assert outcome.epochs == 5


def test_the_penalty_changes_the_result(tiny_problem: NodeProblem) -> None:
    with_penalty, without = pair(Penalised, tiny_problem)[0], pair(Linear, tiny_problem)[0]
    assert not torch.allclose(
        train(with_penalty, tiny_problem, FIVE).scores, train(without, tiny_problem, FIVE).scores, atol=1e-3
    )


def test_weight_decay_acts_on_its_group_only(tiny_problem: NodeProblem) -> None:
    strong = Training("sgd", 0.1, weight_decay=2.0, epochs=1, patience=None)
    grouped, everything = pair(OnlyWeightDecays, tiny_problem)[0], pair(Linear, tiny_problem)[0]
    start = everything.bias.detach().clone()
    train(grouped, tiny_problem, strong)
    train(everything, tiny_problem, strong)
    torch.testing.assert_close(grouped.weight, everything.weight)
    torch.testing.assert_close(grouped.bias - everything.bias, 0.2 * start)


def test_stops_after_patience_and_restores_the_best_weights(tiny_problem: NodeProblem) -> None:
    network = Script(tiny_problem, [0.6, 0.7, 0.9, 0.8, 0.8, 0.8, 0.95])
    outcome = train(network, tiny_problem, Training("adam", 0.01, weight_decay=0.0, epochs=100, patience=3))
    assert outcome.epochs == 6, "three epochs without progress after the third"
    assert int(network.number) == 3
    assert outcome.scores.exp().max() == pytest.approx(0.9)


def test_runs_all_epochs_without_patience(tiny_problem: NodeProblem) -> None:
    network = Script(tiny_problem, [0.9, 0.8])
    outcome = train(network, tiny_problem, Training("adam", 0.01, weight_decay=0.0, epochs=60, patience=None))
    assert outcome.epochs == 60
    assert int(network.number) == 1


def test_validation_sees_no_dropout_and_training_does(tiny_problem: NodeProblem) -> None:
    modes: list[tuple[bool, Tensor]] = []

    class Spy(Linear):
        def at(self, nodes: Tensor) -> Tensor:
            modes.append((self.training, nodes))
            return super().at(nodes)

    train(Spy(tiny_problem), tiny_problem, dataclasses.replace(FIVE, epochs=2))
    assert [mode for mode, _ in modes] == [True, False, True, False]
    assert all(nodes is (tiny_problem.train if mode else tiny_problem.validation) for mode, nodes in modes)


@pytest.mark.parametrize("name", ["MLP", "GCN", "GraphSAGE", "GAT", "SGC", "APPNP"])
def test_methods_of_this_family(tiny_problem: NodeProblem, name: str) -> None:
    found = method(name).recommended("rings")
    assert isinstance(found, NetworkMethod)
    found = dataclasses.replace(found, training=dataclasses.replace(found.training, epochs=4))
    one, again, other = (found.solve(tiny_problem, seed) for seed in (7, 7, 8))
    assert one.scores.numpy().tobytes() == again.scores.numpy().tobytes()
    assert one.scores.numpy().tobytes() != other.scores.numpy().tobytes()
    assert one.scores.shape == (12, 2)
    torch.testing.assert_close(one.scores.exp().sum(-1), torch.ones(12))

    torch.manual_seed(0)
    network = found.network(tiny_problem)
    network.train()
    nn.functional.nll_loss(network.at(tiny_problem.train), tiny_problem.labels[tiny_problem.train]).backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("name", ["MLP", "GCN", "GraphSAGE", "GAT", "SGC", "APPNP"])
def test_scores_of_some_nodes_are_those_among_all(tiny_problem: NodeProblem, name: str) -> None:
    network = method(name).recommended("rings").network(tiny_problem)  # type: ignore[attr-defined]
    network.eval()
    for nodes in (tiny_problem.train, tiny_problem.validation, torch.tensor([11, 0])):
        for _ in range(2):
            torch.testing.assert_close(network.at(nodes), network()[nodes])


def test_settings_are_plain_and_make_the_method_again(tiny_problem: NodeProblem) -> None:
    for name in ("MLP", "GCN", "GraphSAGE", "GAT", "SGC", "APPNP"):
        for dataset in ("cora", "citeseer", "pubmed", "another"):
            found = method(name).recommended(dataset)
            settings = found.settings()
            again = type(found)(**{**settings, "training": Training(**settings["training"])})
            assert again == found
    assert {"MLP", "GCN", "GraphSAGE", "GAT", "SGC", "APPNP"} <= set(METHODS)


def test_bad_settings_are_named() -> None:
    check_counts(hidden=1)
    check_probabilities(dropout=0.0)
    for bad in (0, -1, 1.5):
        with pytest.raises(InvalidInputError, match=f"hidden must be a whole number of at least 1, not {bad}"):
            check_counts(hidden=bad)  # type: ignore[arg-type]
    for bad in (-0.1, 1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="dropout must be at least 0 and below 1"):
            check_probabilities(dropout=bad)


def test_a_bias_that_begins_at_zero_is_moved_by_gradients_and_not_by_rounding() -> None:
    bias = zero_bias(3)
    (bias * torch.tensor([1e-8, -0.25, 1e-4])).sum().backward()
    assert bias.grad is not None
    torch.testing.assert_close(bias.grad, torch.tensor([0.0, -0.25, 1e-4]))


def test_labels_as_many_of_each_class_leave_the_first_step_to_the_weights(tiny_problem: NodeProblem) -> None:
    network = ResolventCOIN().network(tiny_problem)
    nn.functional.nll_loss(network.at(tiny_problem.train), tiny_problem.labels[tiny_problem.train]).backward()
    weight, bias = (parameter.grad for parameter in network.parameters())
    assert weight is not None and bias is not None
    assert weight.abs().max() > 1e-4
    assert torch.equal(bias, torch.zeros_like(bias))
