from __future__ import annotations

from pathlib import Path

import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.figures import draw_genes, gene_bars
from condiff.reproduce.genes import Alteration

pytest.importorskip("matplotlib")

FOUND = [
    Alteration("AR", "high amplification", 0.09, 0.01, 127),
    Alteration("TP53", "mutation", 0.04, 0.005, 1189),
    Alteration("OBSCN", "deep deletion", -0.02, 0.01, 92),
    Alteration("$G$", "mutation", 0.001, 0.0, 3),
]


def test_every_alteration_is_a_bar_from_the_top() -> None:
    [axes] = draw_genes(FOUND).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["AR", "TP53", "OBSCN", r"\$G\$"]
    bars = sorted(axes.patches, key=lambda bar: bar.get_y())
    assert [bar.get_width() for bar in bars] == pytest.approx([9.0, 4.0, -2.0, 0.1])
    top, bottom = axes.get_ylim()[1], axes.get_ylim()[0]
    assert top < 0 < len(FOUND) - 1 < bottom


def test_kinds_have_their_colours_and_numbers_stand_outside() -> None:
    figure = draw_genes(FOUND)
    [axes] = figure.axes
    bars = sorted(axes.patches, key=lambda bar: bar.get_y())
    assert bars[1].get_facecolor() == bars[3].get_facecolor() != bars[0].get_facecolor()
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["deep deletion", "high amplification", "mutation"]
    assert [text.get_text() for text in axes.texts] == ["127", "1,189", "92", "3"]
    assert [text.xy[0] for text in axes.texts] == pytest.approx([10.0, 4.5, -3.0, 0.1])
    assert [text.get_ha() for text in axes.texts] == ["left", "left", "right", "left"]


def test_it_is_written(tmp_path: Path) -> None:
    gene_bars(FOUND, tmp_path / "genes.png")
    first = (tmp_path / "genes.png").read_bytes()
    gene_bars(FOUND, tmp_path / "genes.png")
    assert (tmp_path / "genes.png").read_bytes() == first


def test_nothing_to_show() -> None:
    with pytest.raises(InvalidInputError, match="no alterations"):
        draw_genes([])
