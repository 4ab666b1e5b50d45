"""P-NET against its equations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import f1_score

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular.pathway_network import Inputs, PathwayNetwork
from condiff.reproduce.baselines.tabular.pnet import PNet, best_f1_threshold
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.reproduce.datasets import prostate, reactome


def dense_heads(network: PathwayNetwork, x: torch.Tensor, pathways: tuple[sp.csr_array, ...]) -> torch.Tensor:
    """What the heads say, with the sparse weights written into dense matrices where the masks are one."""
    genes = pathways[0].shape[0]
    kernels, biases, heads = network.kernels, network.biases, network.heads
    h = torch.tanh((x * kernels[0]).reshape(len(x), genes, -1).sum(2) + biases[0])
    found = [h @ heads[0] + network.head_biases[0]]
    for layer, mask in enumerate(pathways, start=1):
        # The weights stand in the order of the pathways, then of what belongs to them.
        columns, rows = np.nonzero(mask.toarray().T)
        matrix = torch.zeros(mask.shape).index_put((torch.tensor(rows), torch.tensor(columns)), kernels[layer])
        h = torch.tanh(h @ matrix + biases[layer])
        found.append(h @ heads[layer] + network.head_biases[layer])
    return torch.stack(found)


def random_network(problem: TabularProblem) -> PathwayNetwork:
    torch.manual_seed(1)
    network = PathwayNetwork(problem.n_genes, problem.kinds, problem.pathways)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return network


def test_heads_are_those_of_the_equation(tiny_problem: TabularProblem) -> None:
    network = random_network(tiny_problem)
    x = torch.from_numpy(tiny_problem.features.toarray()).float()
    expected = dense_heads(network, x, tiny_problem.pathways)
    inputs = Inputs.of(tiny_problem.features)
    torch.testing.assert_close(network(inputs), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.scores(inputs), torch.sigmoid(expected).mean(0), rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_the_equation(tiny_problem: TabularProblem) -> None:
    network = random_network(tiny_problem)
    x = torch.from_numpy(tiny_problem.features.toarray()).float()
    weights = torch.linspace(-1, 1, 6 * 60).view(6, 60)
    parameters = list(network.parameters())
    sparse = torch.autograd.grad((network(Inputs.of(tiny_problem.features)) * weights).sum(), parameters)
    dense = torch.autograd.grad((dense_heads(network, x, tiny_problem.pathways) * weights).sum(), parameters)
    for one, two in zip(sparse, dense, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_it_is_trained_as_its_authors_say(tiny_problem: TabularProblem) -> None:
    """Their loss written out, with Keras's penalties, and torch's own Adam; without dropout, which is random."""
    method = PNet(gene_dropout=0.0, pathway_dropout=0.0, training=replace(PNet().training, epochs=60))
    outcome = method.solve(tiny_problem, seed=2)

    torch.manual_seed(2)
    network = PathwayNetwork(tiny_problem.n_genes, tiny_problem.kinds, tiny_problem.pathways)
    x = torch.from_numpy(tiny_problem.features.toarray()).float()
    truth = tiny_problem.labels[tiny_problem.train].float()
    class_weight = torch.where(truth > 0, len(truth) / 2 / truth.sum(), len(truth) / 2 / (1 - truth).sum())
    optimiser = torch.optim.Adam(network.parameters(), lr=0.001)
    for epoch in range(60):
        for group in optimiser.param_groups:
            group["lr"] = 0.001 * 0.25 ** ((1 + epoch) // 50)
        optimiser.zero_grad()
        found = torch.sigmoid(dense_heads(network, x[tiny_problem.train], tiny_problem.pathways))
        loss = torch.zeros(())
        for head, weight in zip(found, (2, 7, 20, 54, 148, 400), strict=True):
            entropy = -(truth * head.log() + (1 - truth) * (1 - head).log())
            loss = loss + weight * (class_weight * entropy).mean()
        loss = loss + 0.001 * sum((kernel**2).sum() for kernel in network.kernels)
        loss = loss + sum(
            cost * (head**2).sum() for head, cost in zip(network.heads, [0.005, *[0.01] * 5], strict=True)
        )
        loss.backward()
        optimiser.step()
    expected = torch.sigmoid(dense_heads(network, x, tiny_problem.pathways)).mean(0)
    torch.testing.assert_close(outcome.scores, expected.detach(), rtol=1e-3, atol=1e-4)
    assert outcome.epochs == 60


def test_weights_start_within_the_limits_of_keras(tiny_problem: TabularProblem) -> None:
    torch.manual_seed(0)
    network = PathwayNetwork(400, 3, (sp.csr_array(np.ones((400, 30))),))
    for kernel in network.kernels:
        limit = np.sqrt(3 / np.sqrt(kernel.numel()))
        assert 0.99 * limit < float(kernel.detach().abs().max()) <= limit
    for head in network.heads:
        limit = np.sqrt(6 / (head.numel() + 1))
        assert 0.8 * limit < float(head.detach().abs().max()) <= limit
    assert not any(bias.detach().any() for bias in [*network.biases, network.head_biases])


def test_the_real_network_has_as_many_parameters_as_in_the_paper(data_root: Path) -> None:
    table = prostate.load()
    network = PathwayNetwork(len(table.genes), len(table.kinds), reactome.load(table.genes).connections)
    assert sum(parameter.numel() for parameter in network.parameters()) == 71_009
    # Genes and five layers of pathways: what reads the inputs, what reads each layer, biases, and a head on each.
    assert [kernel.numel() for kernel in network.kernels] == [27_687, 15_651, 1_396, 1_070, 447, 148]
    assert [bias.numel() for bias in network.biases] == [9_229, 1_387, 1_066, 447, 147, 26]


def test_dropout_acts_in_training_only(tiny_problem: TabularProblem) -> None:
    network, inputs = random_network(tiny_problem), Inputs.of(tiny_problem.features)
    assert not torch.equal(network(inputs, 0.5, 0.1), network(inputs, 0.5, 0.1))
    # The genes' own head reads them before they are dropped.
    assert torch.equal(network(inputs, 0.5, 0.1)[0], network(inputs)[0])
    assert torch.equal(network(inputs, 0.0, 0.5)[1], network(inputs)[1])
    assert torch.equal(network.scores(inputs), network.scores(inputs))


def test_validation_patients_train_only_where_asked_for(tiny_problem: TabularProblem) -> None:
    short = replace(PNet().training, epochs=3)
    labels = tiny_problem.labels.clone()
    labels[tiny_problem.validation] = 1 - labels[tiny_problem.validation]
    other = replace(tiny_problem, labels=labels)
    both = PNet(training=short, with_validation=True, batch=8)
    assert not torch.equal(both.solve(other, 0).scores, both.solve(tiny_problem, 0).scores)
    alone = PNet(training=short)
    assert torch.equal(alone.solve(other, 0).scores, alone.solve(tiny_problem, 0).scores)


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_gives_the_best_f1_score(seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 2, 30)
    scores = np.clip(generator.normal(0.3 + 0.3 * truth, 0.2), 0, 1).astype(np.float32)
    thresholds = np.arange(0.1, 0.9, 0.01)
    values = [f1_score(truth, scores > threshold) for threshold in thresholds]
    found = best_f1_threshold(torch.from_numpy(scores), torch.from_numpy(truth))
    assert found == thresholds[int(np.argmax(values))]


def test_half_is_the_threshold_where_asked_for(tiny_problem: TabularProblem) -> None:
    short = replace(PNet().training, epochs=2)
    assert PNet(best_f1=False, training=short).solve(tiny_problem, 0).threshold == 0.5


def test_pathways_must_fit(tiny_problem: TabularProblem) -> None:
    with pytest.raises(InvalidInputError, match="there are 4 layers of pathways"):
        PNet().solve(replace(tiny_problem, pathways=tiny_problem.pathways[:4]), 0)
    wrong = (tiny_problem.pathways[0], tiny_problem.pathways[2])
    with pytest.raises(InvalidInputError, match="reads 5 units, but has 6 below it"):
        PathwayNetwork(12, 3, wrong)


@pytest.mark.parametrize("bad", [{"batch": 0}, {"gene_dropout": 1.0}, {"pathway_dropout": -0.1}])
def test_bad_settings(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        PNet(**bad)  # type: ignore[arg-type]
