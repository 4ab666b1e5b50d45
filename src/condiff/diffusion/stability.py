"""The certificate of a graph: how large a diffusion step may be, and what happens past that."""

from __future__ import annotations

import math
import warnings
import weakref
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.linalg import eigvalsh_tridiagonal
from scipy.sparse.linalg import splu

from condiff.errors import StepSizeError, StepSizeWarning
from condiff.graph import DenseLaplacian, Graph, Laplacian, SparseLaplacian, laplacian

# Up to this size the upper bound is proved by a factorisation, which in the worst case fills a dense matrix.
_FACTORISE_UP_TO = 3000
_LANCZOS_STEPS = 200
# The chance, over the random start, that the Lanczos bound is too low.
_FAILURE_PROBABILITY = 1e-9


@dataclass(frozen=True)
class Certificate:
    """Step-size limits of explicit diffusion on one graph.

    Attributes
    ----------
    n_nodes
        Number of nodes.
    max_diagonal
        The largest ``L_ii``, the weight of a node towards all others.
    lambda_max
        The largest eigenvalue as found: a Rayleigh quotient, so never above the true one. NaN for a directed graph.
    lambda_max_bound
        An upper bound on it, and ``evidence`` says why it holds.
    evidence
        ``factorisation`` (``bound I - L`` is positive definite), ``eigenvalues``, ``lanczos`` (holds with probability
        1 - 1e-9), ``gershgorin``, or ``directed`` where only the positivity limit is certified.
    """

    n_nodes: int
    max_diagonal: float
    lambda_max: float
    lambda_max_bound: float
    evidence: str

    @property
    def stability_limit(self) -> float:
        """The largest strength at which no mode grows: 2 / lambda_max."""
        if self.evidence == "directed":
            return self.positivity_limit
        return 2.0 / self.lambda_max_bound if self.lambda_max_bound > 0 else math.inf

    @property
    def positivity_limit(self) -> float:
        """The largest strength that keeps values in their range, so that probabilities stay valid: 1 / max L_ii."""
        return 1.0 / self.max_diagonal if self.max_diagonal > 0 else math.inf

    def problem(self, strength: float) -> str | None:
        """What an explicit step of this strength breaks, in one line, or None."""
        if strength <= self.positivity_limit * (1 + 1e-6):
            return None
        advice = f"strength='auto' takes {self.positivity_limit:.4g}, with more layers for the same diffusion time"
        if strength <= self.stability_limit:
            return (
                f"strength {strength:.4g} is past the positivity limit {self.positivity_limit:.4g} of this graph "
                f"(stability limit {self.stability_limit:.4g}): outputs may become negative; {advice}"
            )
        return (
            f"strength {strength:.4g} is past the stability limit {self.stability_limit:.4g} of this graph (positivity "
            f"limit {self.positivity_limit:.4g}): some modes grow with every layer; {advice}"
        )

    def check(self, strength: float, *, strict: bool = False) -> None:
        """Warn where an explicit step of this strength is past a limit, or raise with ``strict``."""
        message = self.problem(strength)
        if message is None:
            return
        if strict:
            raise StepSizeError(message)
        warnings.warn(message, StepSizeWarning, stacklevel=3)

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain JSON values; what has no finite value is None."""
        values = asdict(self) | {"stability_limit": self.stability_limit, "positivity_limit": self.positivity_limit}
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


# With the version of the weights that it was measured on, which rises when they are changed in place.
_known: weakref.WeakKeyDictionary[Graph | Laplacian, tuple[int, Certificate]] = weakref.WeakKeyDictionary()
_warned: weakref.WeakKeyDictionary[Laplacian, set[float]] = weakref.WeakKeyDictionary()


def max_diagonal(operator: Laplacian) -> float:
    """The largest ``L_ii``, whose inverse is the positivity limit."""
    return float(operator.diagonal.detach().max())


def certify(graph: Graph | Laplacian | torch.Tensor) -> Certificate:
    """Compute the certificate of a graph's Laplacian; one graph or Laplacian object is measured only once."""
    if not isinstance(graph, Graph | Laplacian):
        return _measure(laplacian(graph, torch.float64))
    version = graph.version if isinstance(graph, Laplacian) else 0
    if graph not in _known or _known[graph][0] != version:
        _known[graph] = version, _measure(graph if isinstance(graph, Laplacian) else graph.laplacian(torch.float64))
    return _known[graph][1]


def check_step(operator: Laplacian, strength: float, *, strict: bool) -> None:
    """Warn where an explicit step is past a limit, once for each operator and strength, or raise with ``strict``."""
    if operator.device.type == "meta":  # shapes without numbers: there is nothing to measure
        return
    if strength * max_diagonal(operator) <= 1.0 + 1e-6:  # the certificate is worth its eigenvalue only past this
        return
    warned = _warned.setdefault(operator, set())
    if strict or strength not in warned:
        warned.add(strength)
        certify(operator).check(strength, strict=strict)


def _measure(operator: Laplacian) -> Certificate:
    n, largest = operator.n_nodes, max_diagonal(operator)
    if not operator.symmetric:
        return Certificate(n, largest, math.nan, 2 * largest, "directed")
    if isinstance(operator, DenseLaplacian):
        weights = operator.weights.detach().double()
        matrix = torch.diag_embed(weights.sum(-1)) - weights
        value = float(torch.linalg.eigvalsh(matrix).max())
        return Certificate(n, largest, value, value * (1 + 1e-12), "eigenvalues")
    assert isinstance(operator, SparseLaplacian)
    operator = operator.to(dtype=torch.float64).detach()
    found, steps = _lanczos(operator)
    gershgorin = 2 * largest
    if n <= _FACTORISE_UP_TO:
        bound = min(found * (1 + 1e-6), gershgorin)
        if bound == gershgorin or _is_definite(operator, bound):
            return Certificate(n, largest, found, bound, "factorisation" if bound < gershgorin else "gershgorin")
    # Kuczynski and Wozniakowski (1992), theorem 4.2: from a random start, k Lanczos steps err by more than the
    # fraction e with a probability of at most 1.648 sqrt(n) exp(-sqrt(e) (2 k - 1)).
    error = (math.log(1.648 * math.sqrt(n) / _FAILURE_PROBABILITY) / (2 * steps - 1)) ** 2
    bound = found / (1 - error) if error < 1 else gershgorin
    if bound < gershgorin:
        return Certificate(n, largest, found, bound, "lanczos")
    return Certificate(n, largest, found, gershgorin, "gershgorin")


def _lanczos(operator: SparseLaplacian) -> tuple[float, int]:
    """The largest Ritz value and the number of steps; the start is random but always the same."""
    n = operator.n_nodes
    generator = torch.Generator().manual_seed(0)
    current = torch.randn(n, generator=generator, dtype=torch.float64).to(operator.device)[:, None]
    current = current / current.norm()
    previous, beta = torch.zeros_like(current), 0.0
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    # Without reorthogonalisation copies of converged values appear, which leaves the largest one where it is.
    for _ in range(min(_LANCZOS_STEPS, n)):
        image = operator.product(current) - beta * previous
        alpha = float((image * current).sum())
        image = image - alpha * current
        diagonal.append(alpha)
        beta = float(image.norm())
        if beta <= 1e-12 * max(1.0, abs(alpha)):
            break
        off_diagonal.append(beta)
        previous, current = current, image / beta
    size = len(diagonal)
    values = eigvalsh_tridiagonal(np.array(diagonal), np.array(off_diagonal[: size - 1])) if size > 1 else diagonal
    return max(0.0, float(values[-1])), size


def _is_definite(operator: SparseLaplacian, bound: float) -> bool:
    """Whether ``bound I - L`` is positive definite: all pivots of its symmetric elimination are positive."""
    n = operator.n_nodes
    weights = sp.csr_array(
        (operator.weights.cpu().numpy(), operator.col_indices.cpu().numpy(), operator.crow_indices.cpu().numpy()),
        shape=(n, n),
    )
    degree = np.asarray(weights.sum(axis=1)).ravel()
    shifted = sp.csc_array(sp.diags_array(bound - degree) + (weights + weights.T) * 0.5)
    try:
        factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # exactly singular
        return False
    same_pivots = bool(np.array_equal(factors.perm_r, factors.perm_c))
    return same_pivots and bool((factors.U.diagonal() > 0).all())
