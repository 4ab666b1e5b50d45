"""What is particular to gene-wise networks; the numbers are compared in test_engines.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Graph, kernel_graph
from condiff.graph.weights import distance_graph
from condiff.model import COIN
from condiff.training import PROSTATE, Problem, Training, fit

N, GENES, KINDS = 40, 30, 3
TRAIN = torch.tensor([1, 4, 9, 16, 25, 36, 2, 30])
ADAM = Training("adam", 0.02, weight_decay=1e-3, epochs=25, patience=None)


def table() -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(0).random((N, GENES * KINDS)) < 0.06, dtype=np.float64)


def graph() -> Graph:
    return kernel_graph(np.random.default_rng(0).normal(size=(N, 3)), 6, 3)


def problem(layers: int, dtype: torch.dtype = torch.float64, **changes: Any) -> Problem:
    torch.manual_seed(0)
    model = COIN(GeneWise(GENES, KINDS), Diffusion(layers, 0.1), head="sigmoid").to(dtype)
    target = np.random.default_rng(2).integers(0, 2, N)
    given = {"x": table(), "graph": graph() if layers else None, "target": target, "train": TRAIN}
    return Problem(model, **(given | {"settings": PROSTATE} | changes))


@pytest.mark.parametrize(
    ("layers", "dtype", "atol"), [(0, torch.float32, 1e-4), (8, torch.float64, 1e-8), (8, torch.float32, 1e-4)]
)
def test_the_papers_schedule_to_its_end(layers: int, dtype: torch.dtype, atol: float) -> None:
    fast, plain = (fit(problem(layers, dtype), engine) for engine in ("genewise", "reference"))
    assert len(fast.losses) == 300
    assert fast.losses[-1] < 0.3 * fast.losses[0]
    torch.testing.assert_close(fast.diffused, plain.diffused, rtol=0, atol=atol)


def test_patients_that_the_diffusion_does_not_reach_are_not_read() -> None:
    half = np.arange(0, N, 2)  # even patients are joined, odd ones are not
    joined = distance_graph(np.abs(np.subtract.outer(np.arange(N), np.arange(N))), 6, 3, among=half)
    other = table().tolil()
    other[1::2] = 1.0
    shared = {"graph": joined, "train": [0, 8, 20, 34], "settings": ADAM}
    one, two = (fit(problem(3, x=x, **shared)).model for x in (table(), sp.csr_array(other)))
    assert all(torch.equal(*pair) for pair in zip(one.parameters(), two.parameters(), strict=True))


def test_an_input_that_no_training_patient_has_only_decays() -> None:
    task = problem(0)
    before = task.model.convection.weight.detach().clone().flatten()
    absent = np.flatnonzero(table()[TRAIN.numpy()].sum(axis=0) == 0)
    assert 0 < absent.size < GENES * KINDS
    after = fit(task).model.convection.weight.detach().flatten()
    rates = [PROSTATE.learning_rate * 0.1 ** sum(epoch >= m for m in PROSTATE.milestones) for epoch in range(300)]
    factor = float(np.prod([1 - rate * PROSTATE.weight_decay for rate in rates]))
    torch.testing.assert_close(after[absent], factor * before[absent], rtol=1e-12, atol=0)
    present = np.setdiff1d(np.arange(GENES * KINDS), absent)
    assert float((after[present] - factor * before[present]).abs().min()) > 1e-6


def test_what_it_cannot_do_is_refused() -> None:
    task = problem(5, settings=ADAM)
    plain = COIN(GeneWise(GENES, shortcut=False), Diffusion(5, 0.1), head="sigmoid").double()
    for others, message in (
        ([task, task.replace(model=plain)], "not alike but for their weights"),
        ([task.replace(validation=[3], settings=Training())], "validation nodes stop the fit early"),
        ([task.replace(graph=Graph.of(np.triu(np.ones((N, N)))))], "not symmetric"),
        ([task, problem(5, settings=ADAM)], "different features"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            fit(others, "genewise")
    with pytest.raises(InvalidInputError, match="89 columns, but the network has 30 genes"):
        problem(5, x=table()[:, 1:])
