"""The equation as a regulariser, against differences in time and a solution that it must accept."""

from __future__ import annotations

import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.equation import Equation, EquationCOIN
from condiff.reproduce.baselines.node.problem import NodeProblem


def test_the_residual_is_that_of_the_equation(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    network = Equation(hidden=5, strength=3.0).network(tiny_problem).double()
    network.x, network.walk = (
        each.with_values(each.values.double()) for each in (tiny_problem.x, tiny_problem.propagation)
    )  # type: ignore[assignment]
    network.degree = network.walk.to_dense().sum(1, keepdim=True)  # type: ignore[operator,union-attr]
    with torch.no_grad():
        network.speed.normal_(generator=torch.Generator().manual_seed(0))  # type: ignore[operator,union-attr]

        def u(time: float) -> torch.Tensor:
            return torch.softmax(network.second(network.hidden(time)), -1)  # type: ignore[operator]

        change = (u(0.4 + 1e-5) - u(0.4 - 1e-5)) / 2e-5
        walk = network.walk.to_dense()  # type: ignore[operator,union-attr]
        laplacian = torch.diag(walk.sum(1)) - walk
        torch.testing.assert_close(network.residual(0.4), change + 3 * laplacian @ u(0.4), atol=1e-8, rtol=1e-6)  # type: ignore[operator]


def test_a_constant_solves_the_equation_and_no_weight_asks_for_nothing(tiny_problem: NodeProblem) -> None:
    network = Equation(hidden=5).network(tiny_problem)
    with torch.no_grad():
        network.second.weight.zero_()  # type: ignore[operator,union-attr]
        assert float(network.penalty()) == pytest.approx(0, abs=1e-10)
    assert Equation(weight=0.0).network(tiny_problem).penalty() == 0.0


def test_neighbours_are_drawn_together(tiny_problem: NodeProblem) -> None:
    def roughness(weight: float) -> float:
        u = Equation(hidden=8, weight=weight).solve(tiny_problem, 0).scores.exp()
        edges = tiny_problem.graph.weights.tocoo()
        rows, columns = (torch.from_numpy(part).long() for part in edges.coords)
        return float((u[rows] - u[columns]).square().sum())

    assert roughness(1.0) < 0.9 * roughness(0.0)


def test_negative_settings_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="must not be negative"):
        Equation(weight=-1.0)


def test_beside_diffusion_layers_the_same_residual_is_asked_for(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    alone = Equation(hidden=5).network(tiny_problem).eval()
    beside = EquationCOIN(hidden=5, layers=3).network(tiny_problem).eval()
    beside.load_state_dict(alone.state_dict())
    torch.testing.assert_close(beside.residual(0.3), alone.residual(0.3))  # type: ignore[operator]
    walk, u = tiny_problem.propagation.to_dense(), alone().exp()
    laplacian = torch.diag(walk.sum(1)) - walk
    for _ in range(3):
        u = u - 0.35 * laplacian @ u
    torch.testing.assert_close(beside(), u.log())
    with pytest.raises(InvalidInputError, match="layers"):
        EquationCOIN(layers=0)
