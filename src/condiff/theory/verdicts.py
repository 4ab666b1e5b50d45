"""What a check of an axiom says: the measured figure, the evidence and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

#: The six axioms in the paper's order, with the heading of their column.
AXIOMS = {
    "comparison": "comparison",
    "markov": "Markov",
    "linearity": "linearity",
    "locality": "locality",
    "spatial": "spatial regularity",
    "temporal": "temporal regularity",
}
#: How fast a constant may seem to grow as times and shifts shrink: as the power -0.25 of them, at most.
GROWTH_LIMIT = 0.25
# Figures below this are shown as no more than this.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Evidence:
    """The worst case found.

    Attributes
    ----------
    f, g
        The functions in words; ``g`` is empty where one suffices.
    point
        Coordinates of the point, or the number of the node.
    times
        (s, t) of the operator, or (r, s, t) of the three.
    detail
        What happened there.
    functions
        The functions themselves: callables over R^d, or arrays (n, channels) over the nodes.
    """

    f: str
    point: tuple[float, ...]
    times: tuple[float, ...]
    detail: str = ""
    g: str = ""
    functions: tuple[Any, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class AxiomCheck:
    """The verdict on one axiom.

    Attributes
    ----------
    axiom
        A key of :data:`AXIOMS`.
    holds
        The verdict.
    value
        The measured violation (zero is perfect), or the measured constant of a regularity axiom.
    kind
        Which of the two.
    tolerance
        What the violation may be; for a constant, the power with which it may grow as times and shifts shrink.
    evidence
        The worst case found.
    growth
        The power with which the constant grew, None for a violation.
    exact
        Whether no worse case exists (matrices of graph operators), or it is only the worst that the search found.
    """

    axiom: str
    holds: bool
    value: float
    kind: Literal["violation", "constant"]
    tolerance: float
    evidence: Evidence
    growth: float | None = None
    exact: bool = False

    @property
    def cell(self) -> str:
        """Verdict and figure, for a table."""
        figure = _figure(self.value)
        if self.kind == "constant":
            return f"C = {figure}" if self.holds else f"**fails**: grows as t^-{self.growth or 0:.2g}"
        return figure if self.holds else f"**fails**: {figure}"

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain JSON values."""
        row = {part.name: getattr(self, part.name) for part in fields(self)}
        worst = {part.name: getattr(self.evidence, part.name) for part in fields(self.evidence)}
        row["evidence"] = {key: value for key, value in worst.items() if key != "functions"}
        return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}

    def __str__(self) -> str:
        worst = self.evidence
        verdict = "holds" if self.holds else "FAILS"
        bound = f"tolerance {self.tolerance:g}"
        if self.kind == "constant":
            bound = f"grows as power {max(self.growth or 0.0, 0.0):.2f} of 1/t, at most {self.tolerance:g}"
        parts = [f"f: {worst.f}"] + ([f"g: {worst.g}"] if worst.g else [])
        parts += [f"at {_point(worst.point)}", f"times {_point(worst.times)}"] + (
            [worst.detail] if worst.detail else []
        )
        search = "exact" if self.exact else "found by search"
        return (
            f"{AXIOMS[self.axiom]}: {verdict}, {self.kind} {_figure(self.value)} ({bound}; {search})\n  "
            + "\n  ".join(parts)
        )


@dataclass(frozen=True)
class AxiomTable(Sequence[AxiomCheck]):
    """The six verdicts on an operator; prints as text, and as a row of Markdown with :meth:`markdown`."""

    name: str
    rows: tuple[AxiomCheck, ...]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return next(row for row in self.rows if row.axiom == key)
        return self.rows[key]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[AxiomCheck]:
        return iter(self.rows)

    @property
    def holds(self) -> bool:
        """Whether all six hold."""
        return all(row.holds for row in self.rows)

    @property
    def broken(self) -> tuple[str, ...]:
        """The axioms that do not hold."""
        return tuple(row.axiom for row in self.rows if not row.holds)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"name": self.name, "holds": self.holds, "axioms": [row.to_dict() for row in self.rows]}

    def markdown(self) -> str:
        """A table of one row."""
        return tables_markdown([self])

    def __str__(self) -> str:
        return "\n".join([self.name, *(str(row) for row in self.rows)])


def tables_markdown(tables: Sequence[AxiomTable]) -> str:
    """Operators down, axioms across, measured figures in the cells."""
    heading = f"| example | {' | '.join(AXIOMS.values())} |"
    lines = [heading, "| --- |" + " --- |" * len(AXIOMS)]
    lines += [f"| {table.name} | {' | '.join(row.cell for row in table)} |" for table in tables]
    return "\n".join(lines)


def violation(axiom: str, value: float, tolerance: float, evidence: Evidence, *, exact: bool = False) -> AxiomCheck:
    """A check whose figure should be zero."""
    value = max(0.0, value)
    return AxiomCheck(axiom, value <= tolerance, value, "violation", tolerance, evidence, exact=exact)


def constant(
    axiom: str, values: Sequence[float], scales: Sequence[float], evidence: Evidence, *, exact: bool = False
) -> AxiomCheck:
    """A check whose figure should stay bounded: ``values`` measured at the shrinking ``scales``."""
    floor = 1e-6  # what rounding makes of a zero, divided by the smallest scales
    # At the largest scale a flow may be near its end already; the last two show whether the constant settles.
    before, last = max(values[-2], floor), max(values[-1], floor)
    growth = math.log(last / before) / math.log(scales[-2] / scales[-1]) if math.isfinite(last) else math.inf
    value = max(values)
    holds = math.isfinite(value) and growth <= GROWTH_LIMIT
    return AxiomCheck(axiom, holds, value, "constant", GROWTH_LIMIT, evidence, growth, exact)


def _figure(value: float) -> str:
    if value == 0 or value >= 0.001:
        return f"{value:.3g}"
    # How little rounding leaves of a zero depends on the processor.
    return f"{value:.0e}" if value >= _ROUNDING else f"< {_ROUNDING:.0e}"


def _point(point: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in point) + ")"
