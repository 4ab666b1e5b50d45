"""What all pictures share: colours, bare axes, and how a picture becomes a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.files import atomic_path

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable with every common colour vision, in print too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
OURS, HIGHLIGHT = COLOURS[:2]

#: By suffix, what would make the same picture differ from one day or version to another.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def require_matplotlib() -> None:
    """Say what to install where matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("pictures need matplotlib: pip install 'condiff[plot]'") from error


def plain(text: str) -> str:
    """A name from outside as it is: between two dollars matplotlib would see a formula."""
    return text.replace("$", r"\$")


def panels(
    rows: int, columns: int, size: tuple[float, float], *, grid: Literal["x", "y", "both"] = "y", **share: Any
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with bare axes, row by row."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    if columns > 1:
        figure.set_layout_engine("constrained", wspace=0.04)
    FigureCanvasAgg(figure)
    found: list[list[Axes]] = figure.subplots(rows, columns, squeeze=False, **share).tolist()
    for axes in (axes for row in found for axes in row):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis=grid, color="0.9")
        axes.set_axisbelow(True)
    return figure, found


def save(figure: Figure, target: Path) -> None:
    """Write the whole picture or nothing; the same picture gives the same bytes."""
    import matplotlib

    kind = target.suffix.lstrip(".").lower()
    if kind not in _METADATA:
        raise InvalidInputError(f"a picture is a {', '.join(_METADATA)} file: {target.name} is none of them")
    with matplotlib.rc_context({"svg.hashsalt": "condiff"}), atomic_path(target) as temporary:
        figure.savefig(temporary, format=kind, metadata=_METADATA[kind])
