"""What every solver of the graph heat equation is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from condiff.graph import Laplacian


class Solver(ABC):
    """Carries ``u`` along ``u' = -strength L u`` for ``layers`` units of time.

    Solvers hold their own settings (a tolerance, say) and no state: one instance serves any graph, and the result is
    differentiable in ``u``, in ``strength`` when that is a tensor, and in the weights of the Laplacian.
    """

    #: Whether a large strength can make the solution grow or leave the range of its initial values.
    limited: bool = False

    @abstractmethod
    def __call__(self, laplacian: Laplacian, u: Tensor, strength: float | Tensor, layers: int) -> Tensor:
        """Return ``u`` after ``layers`` units of time; its shape is (n,) or (..., n, c)."""
