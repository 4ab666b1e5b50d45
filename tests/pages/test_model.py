from __future__ import annotations

import re

import numpy as np
import pytest

from condiff.pages.model import confusion
from condiff.pages.model_figures import agreement, limits, point_map, reliability
from condiff.pages.report import Picture


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


def test_reliability_gives_the_calibration_error() -> None:
    # 10 answers of 0.75, of which 5 are right: off by 0.25.
    made = reliability(np.array([0] * 5 + [1] * 5), np.tile([0.75, 0.25], (10, 1)))
    assert "10 answers of 75 % on average, 50 % of them right" in described(made)
    assert "Expected calibration error 0.250" in made.caption


def test_certain_answers_have_a_bin() -> None:
    assert "2 answers of 100 % on average, 100 %" in described(reliability(np.array([0, 0]), np.array([[1.0, 0]] * 2)))


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
