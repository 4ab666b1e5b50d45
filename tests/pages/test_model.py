from __future__ import annotations

import re

import numpy as np
import pytest

from condiff.pages.model import confusion
from condiff.pages.model_figures import agreement, limits, point_map, reliability
from condiff.pages.report import Picture
from condiff.uncertainty import Reliability


def described(picture: Picture) -> str:
    found = re.search(r"<desc[^>]*>(.*?)</desc>", picture.image)
    assert found is not None
    return found[1]


def test_confusion_counts() -> None:
    made = confusion(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), ["<a>", "b"])
    assert [[cell.content for cell in row] for row in made.rows] == [["<a>", "1", "1"], ["b", "0", "2"]]
    assert [[cell.style for cell in row[1:]] for row in made.rows] == [["diagonal", ""], ["", "diagonal"]]
    assert [cell.shade for cell in made.rows[0][1:]] == [0.5, 0.5]
    assert "3 of 4" in made.caption


def test_reliability_gives_the_calibration_error_and_how_far_it_is_known() -> None:
    # 10 answers of 0.75, of which 5 are right: off by 0.25.
    made = reliability([Reliability(10, 0.75, 0.5, 0.22, 0.78), Reliability(10, 1.0, 1.0, 0.78, 1.0)])
    said = described(made)
    assert "10 answers of 75 % on average, 50 % of them right (95 % interval 22 to 78)" in said
    assert "10 answers of 100 % on average, 100 % of them right" in said
    assert "no group is off it by more. Expected calibration error 0.125 over 20 held-out labels" in made.caption
    off = reliability([Reliability(100, 0.75, 0.5, 0.4, 0.6)])
    assert "1 of 1 groups are off it by more" in off.caption


def test_a_map_of_many_points_shows_all_labels() -> None:
    generator = np.random.default_rng(0)
    labelled = np.zeros(4000, dtype=bool)
    labelled[:50] = True
    codes = np.arange(4000) % 3
    made = point_map(generator.random((4000, 2)), codes, ["a", "b", "$c$ <d>"], labelled, codes == 9)
    assert made.image.count("stroke-width: 1.6") >= 50
    assert "1,500 of 4,000 points are drawn" in made.caption
    assert "$c$ &lt;d&gt;" in made.image


@pytest.mark.parametrize("strength", [0.5, 1.5, 9.0])
def test_limits_and_agreement(strength: float) -> None:
    said = described(limits(strength, 1.0, 2.0))
    assert f"is {strength:g}; probabilities stay probabilities up to 1, and beyond 2" in said
    assert "mean absolute error 0.5" in described(agreement([1.0, 2.0], [1.5, 2.5]))
