"""Explanations against their definitions: sums that must come out, and gradients that are integrated by points."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.bases import residual_network
from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.estimators.attribution import contributions, explain, integrated_gradients
from condiff.graph.weights import kernel_graph
from condiff.model import COIN
from condiff.reproduce.baselines.tabular.coin import AveragedCOIN
from condiff.reproduce.protocols import prostate

GENES, KINDS, N = 7, 3, 16


def network(seed: int = 0, *, shortcut: bool = True, layers: int = 5, scale: float = 1.5) -> COIN:
    torch.manual_seed(seed)
    model = COIN(GeneWise(GENES, KINDS, shortcut=shortcut), Diffusion(layers, 0.1), head="sigmoid").double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=scale)
    return model


def patients(seed: int = 0) -> sp.csr_array:
    dense = np.random.default_rng(seed).random((N, GENES * KINDS)) < 0.3
    dense[3] = False
    return sp.csr_array(dense.astype(float))


def tensor(x: sp.csr_array) -> torch.Tensor:
    return torch.from_numpy(x.toarray())


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), shortcut=st.booleans(), scale=st.floats(0.01, 4.0))
def test_rows_sum_to_what_the_alterations_changed(seed: int, shortcut: bool, scale: float) -> None:
    model, x = network(seed, shortcut=shortcut, scale=scale), patients(seed)
    found = integrated_gradients(model, x)
    with torch.no_grad():
        change = (model.base(tensor(x)) - model.base(torch.zeros(1, GENES * KINDS, dtype=torch.float64)))[:, 0]
    np.testing.assert_allclose(found.sum(axis=1), change, atol=1e-12)
    assert not found.toarray()[x.toarray() == 0].any()


@pytest.mark.parametrize("seed", range(4))
def test_they_are_the_gradients_along_the_way(seed: int) -> None:
    model, x = network(seed, scale=1.0), patients(seed)
    steps = 20_000
    places = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    for row in (0, 5):
        way = (places[:, None] * tensor(x)[row]).requires_grad_()
        gradient = torch.autograd.grad(model.base(way).sum(), way)[0].mean(0)
        expected = gradient * tensor(x)[row]
        np.testing.assert_allclose(integrated_gradients(model, x).toarray()[row], expected, atol=2e-5)


def test_some_way_crosses_a_kink() -> None:
    # Otherwise the closed form would not have been tried.
    base = network(0, scale=1.0).convection
    assert isinstance(base, GeneWise)
    with torch.no_grad():
        none, all_of_it = (
            base.inner(base.first_layer(each)) > 0 for each in (0 * tensor(patients()), tensor(patients()))
        )
    assert (none != all_of_it).any()


def test_contributions_sum_to_the_output_before_the_sigmoid() -> None:
    for shortcut in (True, False):
        model, x = network(2, shortcut=shortcut), patients()
        found, constant = contributions(model, x)
        with torch.no_grad():
            expected = model.convection(tensor(x))[:, 0]
        np.testing.assert_allclose(found.sum(axis=1) + constant, expected, atol=1e-12)
        inputs = tensor(x).requires_grad_()
        gradient = torch.autograd.grad(model.convection(inputs).sum(), inputs)[0]
        np.testing.assert_allclose(found.toarray(), (gradient * inputs).detach(), atol=1e-12)


def test_a_patient_without_alterations_has_nothing_to_explain() -> None:
    model, x = network(), patients()
    assert integrated_gradients(model, x)[[3]].nnz == 0
    [found] = explain(model, x, kernel_graph(np.eye(N), 4, 2), [3])
    assert found.before == found.reference


def test_explanations_are_complete_through_the_diffusion() -> None:
    model, x = network(1, layers=7), patients()
    graph = kernel_graph(x.toarray() + np.random.default_rng(0).normal(scale=0.1, size=x.shape), 5, 3)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        after, before = model(tensor(x), graph)[:, 0], model.base(tensor(x))[:, 0]
        found = explain(model, x, graph, range(N))
        # The same by plain autograd through all layers, from everybody without alterations, on many points.
        places = ((torch.arange(4_000, dtype=torch.float64) + 0.5) / 4_000)[:, None, None]
    for explanation, expected, alone in zip(found, after, before, strict=True):
        assert explanation.after == pytest.approx(float(expected), abs=1e-12)
        assert explanation.before == pytest.approx(float(alone), abs=1e-12)
        assert explanation.reference + explanation.inputs.sum() == pytest.approx(float(expected), abs=1e-12)
        assert explanation.before + explanation.pulls.sum() == pytest.approx(float(expected), abs=1e-12)
        np.testing.assert_allclose(explanation.genes(KINDS), explanation.inputs.reshape(GENES, KINDS).sum(1))
    inputs = (places * tensor(x)).requires_grad_()
    operator = graph.laplacian(torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        output = model.diffusion(torch.sigmoid(model.convection(inputs)), operator)[:, 4].sum()
    gradient = torch.autograd.grad(output, inputs)[0].mean(0)
    np.testing.assert_allclose(found[4].inputs, (gradient * tensor(x)).sum(0), atol=1e-4)


def test_pulls_are_towards_the_others_by_how_strongly_they_are_joined() -> None:
    model, x = network(3, layers=1), patients()
    graph = kernel_graph(x.toarray() + np.random.default_rng(0).normal(scale=0.1, size=x.shape), 5, 3)
    [found] = explain(model, x, graph, [2])
    with torch.no_grad():
        u = model.base(tensor(x))[:, 0].numpy()
    # One layer: the strength, times the weight, times how much they differ.
    np.testing.assert_allclose(found.pulls, 0.1 * graph.weights.toarray()[2] * (u - u[2]), atol=1e-12)
    assert found.pulls[2] == 0


@pytest.mark.parametrize(
    "model",
    [
        COIN(residual_network(GENES * KINDS, 1), Diffusion(1, 0.1), head="sigmoid"),
        COIN(GeneWise(GENES, KINDS, out_features=2), Diffusion(1, 0.1), head="sigmoid"),
        COIN(GeneWise(GENES, KINDS), Diffusion(1, 0.1), head="identity"),
    ],
)
def test_other_networks_are_refused(model: COIN) -> None:
    with pytest.raises(InvalidInputError, match="GeneWise base, one output and a sigmoid"):
        integrated_gradients(model, patients())
    with pytest.raises(InvalidInputError):
        explain(model, patients(), kernel_graph(np.eye(N), 4, 2), [0])


def test_other_widths_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="20 columns, but the network has 7 genes"):
        contributions(network(), patients()[:, 1:])


def test_a_real_prediction_is_explained_to_the_last_digit(data_root: Path) -> None:
    table = prostate.load()
    problem = prostate.problem(table, prostate.splits(1)[0])
    fitted = AveragedCOIN(pretrainings=1).fit(problem, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        [found] = explain(fitted.network, table.features, fitted.graph, [int(problem.test[0])])
        with torch.no_grad():
            expected = float(fitted.network(problem.x_csr, fitted.graph)[problem.test[0], 0])
    assert found.after == pytest.approx(expected, abs=1e-4)
    assert found.reference + found.inputs.sum() == pytest.approx(found.after, abs=1e-10)
    assert found.before + found.pulls.sum() == pytest.approx(found.after, abs=1e-10)
    # Patients that are in the graph of nobody pull nobody.
    assert not found.pulls[problem.validation].any()
