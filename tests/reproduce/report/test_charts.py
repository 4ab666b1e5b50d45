from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condiff.pages.model_charts import agreement, confusion, limits, point_map, reliability
from condiff.reproduce.metrics import metric
from condiff.reproduce.report.charts import Box, Sample, box_plots, boxes_along, line_chart, time_and_score

ACCURACY = metric("accuracy")
SPACE = "{http://www.w3.org/2000/svg}"


def read(figure: str) -> ElementTree.Element:
    return ElementTree.fromstring(figure)


def described(figure: str) -> str:
    found = read(figure).find(f".//{SPACE}desc")
    assert found is not None
    return found.text or ""


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_a_box_holds_every_value_once(values: list[float]) -> None:
    box = Box.of(values)
    assert box.first <= box.median <= box.third
    reach = 1.5 * (box.third - box.first)
    inside = [value for value in values if box.first - reach <= value <= box.third + reach]
    assert len(inside) + len(box.outliers) == len(values)
    assert all(not box.low <= value <= box.high or value in inside for value in box.outliers)


def test_box_plots_tell_best_and_worst() -> None:
    samples = [
        Sample("COIN", (82.0, 83.0, 84.0), 82.2, 1.2),
        Sample("GCN <b>", (80.0, 81.0, 81.5), 81.6, None),
        *(Sample(f"m{i}", (79.0 + i, 80.0 + i)) for i in range(4)),
        Sample("far", (12.0, 13.0)),
    ]
    figure = box_plots(samples, ACCURACY, "Cora")
    about = described(figure)
    assert "7 methods" in about and "Worst: far, 12.5" in about and "Best median: COIN, 83.0" in about
    image = read(figure)
    assert len(image.findall(f".//{SPACE}polygon")) == 2  # published
    assert "◀ median 12.5" in [text.text for text in image.iter(f"{SPACE}text")]
    assert len(image.findall(f".//{SPACE}rect")) == 6


def test_times_leave_out_what_is_far_and_say_so() -> None:
    points = [(f"m{i}", 10.0**i, 80.0 + i) for i in range(5)] + [("lost", 1.0, 10.0), ("COIN", 3.0, 85.0)]
    figure = time_and_score(points, ACCURACY, "Cora", ["instant"])
    assert "6 methods" in described(figure) and "Best: COIN with 85.0 in 3 seconds" in described(figure)
    caption = read(figure).findtext("figcaption") or ""
    assert "lost (10.0)" in caption and "Without a time: instant" in caption


def test_labels_of_close_points_do_not_cover_each_other() -> None:
    points = [(f"method{i}", 1.0 + i / 1000, 80.0) for i in range(4)]
    image = read(time_and_score(points, ACCURACY, "x"))
    places = {
        (text.get("x"), text.get("y"), text.get("text-anchor"))
        for text in image.iter(f"{SPACE}text")
        if (text.text or "").startswith("method")
    }
    assert len(places) == 4


def test_lines_and_boxes_along() -> None:
    figure = line_chart({"COIN": [(0, 1), (1, 2)], "other": [(0, 2), (1, 1)]}, "t", "x", "y")
    assert "COIN is highest and other is lowest" in described(figure)
    assert len(read(figure).findall(f".//{SPACE}polyline[@class='line']")) == 2
    along = boxes_along({0.1: [1, 2, 3], 0.2: [4, 5, 6], 0.3: [2, 3, 40]}, ACCURACY, "t", "x")
    assert "Best median: 5.0 at 0.2" in described(along)


def test_confusion_counts() -> None:
    made = read(confusion(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), ["<a>", "b"]))
    assert [cell.text for cell in made.iter("td")] == ["1", "1", "0", "2"]
    assert [cell.get("class") for cell in made.iter("td")] == ["diagonal", None, None, "diagonal"]
    assert "3 of 4" in (made.findtext(".//caption") or "")


def test_reliability_gives_the_calibration_error() -> None:
    # 10 answers of 0.75, of which 5 are right: off by 0.25.
    probabilities = np.tile([0.75, 0.25], (10, 1))
    figure = reliability(np.array([0] * 5 + [1] * 5), probabilities)
    assert "10 answers of 75 % on average, 50 % of them right" in described(figure)
    assert "Expected calibration error 0.250" in (read(figure).findtext("figcaption") or "")


def test_certain_answers_have_a_bin() -> None:
    assert "2 answers of 100 % on average, 100 %" in described(reliability(np.array([0, 0]), np.array([[1.0, 0]] * 2)))


def test_a_map_of_many_points_shows_all_labels() -> None:
    generator = np.random.default_rng(0)
    labelled = np.zeros(4000, dtype=bool)
    labelled[:50] = True
    codes = np.arange(4000) % 3
    image = read(point_map(generator.random((4000, 2)), codes, ["a", "b", "c"], labelled, codes == 9))
    assert len(image.findall(f".//{SPACE}circle[@class='point-label']")) == 50 + 1  # and the legend's
    assert "1,500 of 4,000 points are drawn" in (image.findtext("figcaption") or "")


@pytest.mark.parametrize("strength", [0.5, 1.5, 9.0])
def test_limits_and_agreement(strength: float) -> None:
    assert f"is {strength:g}; probabilities stay ones up to 1, and beyond 2" in described(limits(strength, 1.0, 2.0))
    assert "mean absolute error 0.5" in described(agreement([1.0, 2.0], [1.5, 2.5]))
