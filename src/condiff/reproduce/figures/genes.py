"""Leading genes: what each kind of alteration adds to the output, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import COLOURS, panels, plain, save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from condiff.reproduce.genes import Alteration


def gene_bars(alterations: Sequence[Alteration], target: Path) -> None:
    """Write :func:`draw_genes`."""
    save(draw_genes(alterations), target)


def draw_genes(alterations: Sequence[Alteration]) -> Figure:
    """A bar an alteration, the first at the top, coloured by its kind; how many patients have it stands beside it."""
    if not alterations:
        raise InvalidInputError("there are no alterations to show")
    kinds = list(dict.fromkeys(sorted(each.kind for each in alterations)))
    colours = dict(zip(kinds, COLOURS * len(kinds), strict=False))
    figure, [[axes]] = panels(1, 1, (6.4, 1.3 + 0.26 * len(alterations)), grid="x")
    for height, each in enumerate(alterations):
        axes.barh(
            height,
            100 * each.effect,
            xerr=100 * each.spread,
            height=0.72,
            color=colours[each.kind],
            alpha=0.9,
            error_kw={"ecolor": "0.25", "elinewidth": 1.0, "capsize": 2.0},
        )
        end = 100 * (each.effect + (each.spread if each.effect >= 0 else -each.spread))
        axes.annotate(
            f"{each.patients:,}",
            (end, height),
            (4 if each.effect >= 0 else -4, 0),
            textcoords="offset points",
            ha="left" if each.effect >= 0 else "right",
            va="center",
            fontsize=7.5,
            color="0.35",
        )
    axes.axvline(0.0, color="0.35", linewidth=0.8)
    axes.set_yticks(range(len(alterations)), [plain(each.gene) for each in alterations], style="italic", fontsize=8.5)
    axes.set_ylim(len(alterations) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.1)
    axes.set_xlabel("added to the probability of a metastatic cancer, mean over all patients (points)")
    about = "beside each bar: patients who have it; whiskers: standard deviation over initialisations"
    axes.set_title(about, loc="right", fontsize=8, color="0.35")
    _legend(figure, colours)
    return figure


def _legend(figure: Figure, colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, alpha=0.9, label=plain(kind)) for kind, colour in colours.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
