"""The diffusion as a torch module."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from condiff.diffusion.chebyshev import Chebyshev
from condiff.diffusion.euler import Euler
from condiff.diffusion.exact import Exact
from condiff.diffusion.implicit import Implicit
from condiff.diffusion.power import Power
from condiff.diffusion.solver import Solver
from condiff.diffusion.stability import check_step, max_diagonal
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, laplacian

#: Every solver by its name; a new one is one file and one line here.
SOLVERS: dict[str, type[Solver]] = {
    "euler": Euler,
    "exact": Exact,
    "chebyshev": Chebyshev,
    "implicit": Implicit,
    "power": Power,
}


class Diffusion(nn.Module):
    """Diffuse ``u`` over a graph: ``layers`` layers of ``strength`` each.

    Parameters
    ----------
    layers
        Number of layers, K.
    strength
        Diffusion strength of one layer, or ``"auto"``: the largest that keeps probabilities valid on the graph at hand.
    solver
        A name of :data:`SOLVERS` or a solver with settings of its own. ``euler`` is the paper's.
    dropout
        Probability with which entries of ``u`` are dropped before each layer in training.
    learnable
        Train the strength along with the rest; it starts from ``strength`` and stays positive.
    strict
        Raise instead of warn where an explicit step is past a certified limit.

    Shapes
    ------
    ``u`` is (n, c), or (..., n, c) for a batch; the result has the same shape.
    """

    def __init__(
        self,
        layers: int = 20,
        strength: float | Literal["auto"] = "auto",
        *,
        solver: str | Solver = "euler",
        dropout: float = 0.0,
        learnable: bool = False,
        strict: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(layers, int | np.integer) or layers < 0:
            raise InvalidInputError(f"layers must be a whole number, 0 or more, not {layers!r}")
        if not 0 <= dropout < 1:
            raise InvalidInputError(f"dropout must be at least 0 and below 1, not {dropout}")
        if strength != "auto" and not (isinstance(strength, int | float | np.number) and 0 < strength < math.inf):
            raise InvalidInputError(f"strength must be a positive number or 'auto', not {strength!r}")
        if strength == "auto" and learnable:
            raise InvalidInputError("a learnable strength needs a number to start from, not 'auto'")
        if solver not in SOLVERS if isinstance(solver, str) else not isinstance(solver, Solver):
            raise InvalidInputError(f"unknown solver {solver!r}; the solvers are {', '.join(SOLVERS)}")
        self.layers = int(layers)
        self.strength: float | Literal["auto"] = "auto" if strength == "auto" else float(strength)
        self.solver = SOLVERS[solver]() if isinstance(solver, str) else solver
        self.dropout = nn.Dropout(dropout)
        self.strict = strict
        self.log_strength = nn.Parameter(torch.tensor(float(strength)).log()) if learnable else None

    def strength_on(self, operator: Laplacian) -> float | Tensor:
        """The strength of a layer on this graph: learned, given, or the positivity limit."""
        if self.log_strength is not None:
            return self.log_strength.exp()
        if self.strength == "auto":
            largest = max_diagonal(operator)
            return 1.0 / largest if largest > 0 else 1.0
        return float(self.strength)

    def forward(self, u: Tensor, graph: Any) -> Tensor:
        """Diffuse ``u`` over ``graph``: a Laplacian, a Graph, or the matrix L as a tensor."""
        operator = laplacian(graph, u.dtype, u.device)
        strength = self.strength_on(operator)
        if self.solver.limited and self.strength != "auto" and self.layers:
            value = float(strength.detach()) if isinstance(strength, Tensor) else strength
            check_step(operator, value, strict=self.strict)
        if self.dropout.p == 0.0 or not self.training:
            return self.solver(operator, u, strength, self.layers)
        for _ in range(self.layers):
            u = self.solver(operator, self.dropout(u), strength, 1)
        return u

    def extra_repr(self) -> str:
        return f"layers={self.layers}, strength={self.strength}, solver={type(self.solver).__name__.lower()}"
