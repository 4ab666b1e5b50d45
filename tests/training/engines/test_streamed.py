"""What is particular to batches of nodes: every way to read the diffusion, and what is kept of it."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from tests.training.kinds import KINDS, chosen, few_features, labels, ring
from torch import Tensor, nn

from condiff.bases import Residual
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, steps
from condiff.model import COIN
from condiff.training import Problem, Training, fit
from condiff.training.engines import streamed

ADAM = Training("adam", 0.02, weight_decay=1e-3, epochs=25, patience=None)
STREAMED = [name for name, (_, engines) in KINDS.items() if "streamed" in engines.split()]


@pytest.fixture(params=["held rows", "products", "compiled products"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small batches, and each way to read the diffusion; the compiled one reorders the nodes too."""
    monkeypatch.setattr(streamed, "BATCH", 7)
    if request.param != "held rows":
        monkeypatch.setattr(streamed, "HELD_SHARE", 0.0)
    if request.param == "compiled products":
        pytest.importorskip("numba", reason="numba is not installed")
        monkeypatch.setattr(steps, "COMPILED_FROM", 1)
    return str(request.param)


@pytest.mark.parametrize("name", STREAMED)
def test_every_way_gives_the_references_numbers(name: str, way: str) -> None:
    make, _ = KINDS[name]
    for one, other in zip(fit(make(torch.float64), "streamed"), fit(make(torch.float64), "reference"), strict=True):
        assert one.best_epoch == other.best_epoch
        torch.testing.assert_close(one.outputs, other.outputs, rtol=0, atol=1e-8)
        for own, its in zip(one.model.parameters(), other.model.parameters(), strict=True):
            torch.testing.assert_close(own, its, rtol=0, atol=1e-8)


def problem(operator: Laplacian, diffusion: Diffusion | None = None, **changes: Any) -> Problem:
    torch.manual_seed(0)
    model = COIN(Residual(5, 3, width=8), diffusion or Diffusion(6, 0.3)).double()
    given = {"train": chosen()[:8], "settings": ADAM} | changes
    return Problem(model, few_features(), operator, labels(), **given)


def test_rows_are_made_once_for_an_operator_and_anew_for_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "HELD_SHARE", 1.0)
    made: list[Tensor] = []
    real = streamed.diffusion_rows

    def counted(*arguments: Any) -> Tensor:
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr(streamed, "diffusion_rows", counted)
    operator, diffusion = ring().laplacian(torch.float64), Diffusion(6, 0.3)
    for _ in range(2):
        fit(problem(operator, diffusion), "streamed")
    assert len(made) == 1
    fit(problem(operator, diffusion, train=chosen()[:8].flip(0)), "streamed")
    assert len(made) == 2
    fit(problem(operator, train=chosen()[:8].flip(0)), "streamed")
    assert len(made) == 3
    gone = [weakref.ref(rows) for rows in made]
    made.clear()
    del operator
    gc.collect()
    assert all(reference() is None for reference in gone)


def test_the_gradient_is_that_of_differences() -> None:
    """One step of gradient descent of rate 1 is the gradient; compared with differences of the loss."""
    operator = ring().laplacian(torch.float64)
    settings = Training("sgd", 1.0, weight_decay=0.0, epochs=1, patience=None)
    task = problem(operator, settings=settings, sample_weight=torch.arange(1.0, 9))
    start = copy.deepcopy(task.model)
    model = fit(task, "streamed").model

    def loss(moved: COIN) -> float:
        with torch.no_grad():
            u = moved(few_features(), operator)[task.items.nodes]
        return float(-(task.items.weight * u.gather(1, task.items.target[:, None])[:, 0].log()).sum())

    for name, before in start.named_parameters():
        gradient = (before - dict(model.named_parameters())[name]).detach().flatten()
        for place in (0, gradient.numel() // 2, gradient.numel() - 1):
            sides = []
            for step in (1e-5, -1e-5):
                moved = copy.deepcopy(start)
                dict(moved.named_parameters())[name].data.view(-1)[place] += step
                sides.append(loss(moved))
            assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(float(gradient[place]), abs=1e-8)


def test_a_base_that_mixes_nodes_is_refused() -> None:
    task = problem(ring().laplacian(torch.float64))
    noisy = COIN(nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)), Diffusion(2, 0.1)).double()
    with pytest.raises(InvalidInputError, match="every node by itself"):
        fit(task.replace(model=noisy), "streamed")
