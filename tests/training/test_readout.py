"""The diffusion at the labelled items, by held rows and by products, and its adjoint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.training.kinds import N, ring

from condiff.diffusion import SOLVERS, Diffusion
from condiff.errors import InvalidInputError, StepSizeError, StepSizeWarning
from condiff.graph import Graph
from condiff.training import readout
from condiff.training.readout import OwnClasses, Products, Readout, Rows, diffusion_rows

NODES = torch.tensor([0, 4, 5, 11, 17, 17, 23, 29])


def test_rows_are_those_of_the_matrix_power() -> None:
    operator, unit = ring().laplacian(torch.float64), torch.eye(N, dtype=torch.float64)
    power = torch.linalg.matrix_power(unit - 0.3 * operator(unit), 6)
    torch.testing.assert_close(diffusion_rows(Diffusion(6, 0.3), operator, NODES), power[NODES], rtol=0, atol=1e-12)


def test_rows_are_made_in_parts_where_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, nodes = ring().laplacian(torch.float64), torch.arange(N)
    at_once = diffusion_rows(Diffusion(6, 0.3), operator, nodes)
    monkeypatch.setattr(readout, "LARGEST_ROWS", 0)  # then 64 at a time, of 90
    torch.testing.assert_close(diffusion_rows(Diffusion(6, 0.3), operator, nodes), at_once, rtol=0, atol=1e-14)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("way", ["rows", "products"])
def test_reading_is_the_diffusion_and_its_gradient(solver: str, way: str) -> None:
    operator, diffusion = ring().laplacian(torch.float64), Diffusion(4, 0.3, solver=solver)
    made: Readout = Products(diffusion, operator, NODES)
    if way == "rows":
        made = Rows(diffusion_rows(diffusion, operator, NODES))
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(2, N, 5, generator=generator, dtype=torch.float64)
    gradient = torch.randn(2, len(NODES), 5, generator=generator, dtype=torch.float64)
    leaf = u.clone().requires_grad_()
    read = diffusion(leaf, operator)[:, NODES]
    torch.testing.assert_close(made.forward(u), read.detach(), rtol=0, atol=1e-9)
    (expected,) = torch.autograd.grad(read, leaf, gradient, retain_graph=True)
    torch.testing.assert_close(made.adjoint(gradient), expected, rtol=0, atol=1e-9)
    # The gradient of a loss that reads the first items alone.
    first = torch.cat([gradient[:, :3], torch.zeros_like(gradient[:, 3:])], dim=1)
    (expected,) = torch.autograd.grad(read, leaf, first)
    torch.testing.assert_close(made.adjoint(gradient[:, :3]), expected, rtol=0, atol=1e-9)


def test_a_directed_graph_has_no_rows() -> None:
    operator = Graph.of(np.triu(np.random.default_rng(0).random((N, N)), 1)).laplacian(torch.float64)
    with pytest.raises(InvalidInputError, match="symmetric"):
        diffusion_rows(Diffusion(2, 0.1), operator, NODES)


def test_a_step_past_the_limit_is_warned_of_or_refused() -> None:
    operator = ring().laplacian(torch.float64)
    with pytest.warns(StepSizeWarning, match="past the stability limit"):
        diffusion_rows(Diffusion(2, 50.0), operator, NODES)
    with pytest.raises(StepSizeError):
        Products(Diffusion(2, 50.0, strict=True), operator, NODES)


def test_own_classes_are_those_of_all_rows_and_so_is_their_gradient() -> None:
    operator, classes = ring().laplacian(torch.float64), torch.tensor([2, 0, 2, 4, 0, 0, 4, 2])  # none of 1 and 3
    rows = diffusion_rows(Diffusion(4, 0.3), operator, NODES)
    whole, own = Rows(rows), OwnClasses(rows, classes, 5)
    u = torch.randn(2, N, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slopes = torch.randn(2, len(NODES), 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    places = classes[None, :, None].expand(2, -1, 1)
    torch.testing.assert_close(own.forward(u), whole.forward(u).gather(-1, places))
    gradient = torch.zeros(2, len(NODES), 5, dtype=torch.float64).scatter_(-1, places, slopes)
    torch.testing.assert_close(own.adjoint(slopes), whole.adjoint(gradient))
