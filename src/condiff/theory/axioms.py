"""Check the six axioms on a family of operators: a table of measured constants, evidence and verdicts."""

from __future__ import annotations

from condiff.errors import InvalidInputError
from condiff.theory import function_axioms as over_space
from condiff.theory.function_axioms import Box
from condiff.theory.graph_axioms import GraphAxioms
from condiff.theory.operators import FunctionOperator, GraphOperator, Operator
from condiff.theory.verdicts import AxiomTable


def check_axioms(
    operator: Operator,
    *,
    name: str | None = None,
    box: tuple[float, float] = (-2.0, 2.0),
    tolerance: float = 1e-6,
    seed: int = 0,
) -> AxiomTable:
    """Measure the six axioms on an operator.

    Parameters
    ----------
    operator
        On functions over R^d, or on the nodes of a graph.
    name
        What the table calls it; the class by default.
    box
        For R^d: the smallest and largest coordinate of the points that are tried.
    tolerance
        Largest violation that still counts as none, relative to functions between -1 and 1: the error of the
        operator's own quadrature, say, or of its sampling.
    seed
        Of the search.

    Returns
    -------
    AxiomTable
        Comparison principle, Markov property, linearity with constants, locality, spatial and temporal regularity.
        A search can only find violations, never exclude them; figures marked exact are exact at the times tried.

    Examples
    --------
    >>> from condiff.theory import FunctionOperator, check_axioms
    >>> shift = FunctionOperator.of(lambda f, x, t, s: f(x + (t - s)), dimension=1)
    >>> check_axioms(shift, name="shift").holds
    True
    """
    if not 0 < tolerance < 1:
        raise InvalidInputError(f"tolerance must lie between 0 and 1, not {tolerance}")
    called = type(operator).__name__ if name is None else name
    if isinstance(operator, GraphOperator):
        checks = GraphAxioms(operator, tolerance, seed)
        return AxiomTable(
            called,
            (
                checks.comparison(),
                checks.markov(),
                checks.linearity(),
                checks.locality(),
                checks.spatial(),
                checks.temporal(),
            ),
        )
    if not isinstance(operator, FunctionOperator):
        raise InvalidInputError(
            f"cannot check {type(operator).__name__}; make an operator of a function with FunctionOperator.of"
        )
    if not box[0] < box[1]:
        raise InvalidInputError(f"box must be a smaller and a larger coordinate, not {box}")
    place = Box(operator.dimension, *map(float, box))
    return AxiomTable(
        called,
        (
            over_space.comparison(operator, place, tolerance, seed),
            over_space.markov(operator, place, tolerance, seed),
            over_space.linearity(operator, place, tolerance, seed),
            over_space.locality(operator, place, tolerance, seed),
            over_space.spatial(operator, place, seed),
            over_space.temporal(operator, place, seed),
        ),
    )
