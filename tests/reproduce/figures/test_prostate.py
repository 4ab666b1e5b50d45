from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reproduce.made_up import PROSTATE, run

from condiff.errors import InvalidInputError
from condiff.pages.canvas import HIGHLIGHT, save
from condiff.reproduce.curves import PLACES, curve_points
from condiff.reproduce.figures import draw_curves, draw_genes
from condiff.reproduce.genes import Alteration


def runs(names: tuple[str, ...] = ("SVM", "ResNet", "COIN"), splits: int = 3):
    found = []
    for place, name in enumerate(names):
        for split in range(splits):
            generator = np.random.default_rng(10 * place + split)
            truth = generator.integers(0, 2, 100)
            points = curve_points(truth, truth + generator.normal(size=100))
            metrics = {"roc_auc": 0.5 + 0.1 * place, "auprc": 0.4 + 0.1 * place, **points}
            found.append(run(name, **PROSTATE, metrics=metrics, split=split))
    return found


def test_both_curves_are_the_means_of_the_runs() -> None:
    made = runs()
    figure = draw_curves(made)
    roc, prc = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["ROC", "precision and recall"]
    own = [each.metrics for each in made if each.method == "COIN"]
    [line] = [line for line in roc.lines if line.get_color() == HIGHLIGHT]
    expected = np.mean([[points[f"roc_{place:02d}"] for place in PLACES] for points in own], axis=0)
    np.testing.assert_allclose(line.get_ydata(), [0, *expected, 1])
    np.testing.assert_allclose(line.get_xdata(), [0, *(place / 100 for place in PLACES), 1])
    [line] = [line for line in prc.lines if line.get_color() == HIGHLIGHT]
    expected = np.mean([[points[f"prc_{place:02d}"] for place in PLACES] for points in own], axis=0)
    np.testing.assert_allclose(line.get_ydata(), expected)


def test_bands_are_of_the_methods_in_colour_and_stay_between_none_and_all() -> None:
    for axes in draw_curves(runs()).axes:
        assert len(axes.collections) == 2  # ResNet and COIN
        for band in axes.collections:
            heights = band.get_paths()[0].vertices[:, 1]
            assert heights.min() >= 0
            assert heights.max() <= 1
    assert all(len(axes.collections) == 3 for axes in draw_curves(runs(), shown=("SVM", "ResNet", "COIN")).axes)


def test_the_legend_has_the_areas_and_colour_comes_first() -> None:
    [legend] = draw_curves(runs()).legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["ResNet (0.600 / 0.500)", "COIN (0.700 / 0.600)", "SVM (0.500 / 0.400)"]


def test_what_the_band_is_is_said() -> None:
    assert "one standard deviation over 3 splits" in draw_curves(runs()).get_suptitle()
    assert "band" not in draw_curves(runs(splits=1)).get_suptitle()


def test_runs_without_points_of_curves() -> None:
    assert len(draw_curves([*runs(("COIN",)), run("SVM", task="prostate")]).axes[1].lines) == 1
    with pytest.raises(InvalidInputError, match="no run has the points of its curves"):
        draw_curves([run()])


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
    save(draw_genes(FOUND), tmp_path / "genes.png")
    first = (tmp_path / "genes.png").read_bytes()
    save(draw_genes(FOUND), tmp_path / "genes.png")
    assert (tmp_path / "genes.png").read_bytes() == first


def test_nothing_to_show() -> None:
    with pytest.raises(InvalidInputError, match="no alterations"):
        draw_genes([])
