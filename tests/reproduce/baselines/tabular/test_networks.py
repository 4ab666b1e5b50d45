"""MLP and ResNet against their equations, and the parameters that the paper counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from condiff.bases.genewise import GeneWise
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular.method import TabularMethod
from condiff.reproduce.baselines.tabular.mlp import MLP
from condiff.reproduce.baselines.tabular.networks import gene_network
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.reproduce.baselines.tabular.resnet import ResNet
from condiff.training import PROSTATE


def plain(problem: TabularProblem, seed: int, shortcut: bool, epochs: int) -> torch.Tensor:
    """The equation on dense tensors, and torch's own optimiser."""
    torch.manual_seed(seed)
    genes, kinds = problem.n_genes, problem.kinds
    weight = torch.nn.Parameter(torch.nn.init.xavier_normal_(torch.empty(1, genes * kinds)))
    bias = torch.nn.Parameter(torch.zeros(genes))
    inner, outer = torch.nn.Linear(genes, 3), torch.nn.Linear(3, 1)
    past = torch.nn.Linear(genes, 1) if shortcut else None
    parameters = [weight, bias, *inner.parameters(), *outer.parameters(), *(past.parameters() if past else [])]
    x = torch.from_numpy(problem.features.toarray()).float()

    def output() -> torch.Tensor:
        h = (x * weight).reshape(len(x), genes, kinds).sum(2) + bias
        z = outer(torch.relu(inner(h)))
        return torch.sigmoid(z + past(h) if past else z)[:, 0]

    optimiser = torch.optim.SGD(parameters, lr=1.0, weight_decay=5e-4)
    for _ in range(epochs):
        optimiser.zero_grad()
        truth = problem.labels[problem.train].float()
        torch.nn.functional.binary_cross_entropy(output()[problem.train], truth).backward()
        optimiser.step()
    return output().detach()


@pytest.mark.parametrize(("kind", "shortcut"), [(MLP, False), (ResNet, True)])
def test_it_is_the_papers_network_trained_as_the_paper_says(
    kind: type[MLP] | type[ResNet], shortcut: bool, tiny_problem: TabularProblem
) -> None:
    outcome = kind(training=replace(PROSTATE, epochs=25)).solve(tiny_problem, seed=3)
    assert outcome.epochs == 25
    torch.testing.assert_close(outcome.scores, plain(tiny_problem, 3, shortcut, 25), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shortcut", "number"), [(False, 64_610), (True, 73_840)])
def test_the_parameters_are_as_many_as_in_the_paper(
    shortcut: bool, number: int, tiny_problem: TabularProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TabularProblem, "n_genes", 9_229)
    network = gene_network(tiny_problem, 0, shortcut=shortcut, layers=40)
    assert isinstance(network.convection, GeneWise)
    assert sum(parameter.numel() for parameter in network.parameters()) == number


@pytest.mark.parametrize("kind", [MLP, ResNet])
def test_the_graph_of_patients_does_not_exist_for_it(kind: type[TabularMethod], tiny_problem: TabularProblem) -> None:
    few = replace(tiny_problem, test=tiny_problem.test[:1])
    assert torch.equal(kind().solve(few, 0).scores, kind().solve(tiny_problem, 0).scores)


@pytest.mark.parametrize("kind", [MLP, ResNet])
def test_bad_settings(kind: type[MLP]) -> None:
    with pytest.raises(InvalidInputError, match="hidden must be a whole number"):
        kind(hidden=0)
