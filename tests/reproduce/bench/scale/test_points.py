from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from condiff.reproduce.bench.scale.points import CLASSES, LABELS_PER_CLASS, make_points


def test_the_first_points_are_the_same_for_every_number() -> None:
    few, many = make_points(3000), make_points(70_000)
    np.testing.assert_array_equal(few.x, many.x[:3000])
    np.testing.assert_array_equal(few.labels, many.labels[:3000])
    np.testing.assert_array_equal(few.shown, many.shown[:3000])
    assert few.x.shape == (3000, 64)
    assert few.x.dtype == np.float32
    assert not np.array_equal(make_points(3000, seed=1).x, few.x)


def test_a_hundred_labels_a_class_are_shown() -> None:
    points = make_points(4000)
    shown = points.shown >= 0
    assert np.bincount(points.shown[shown]).tolist() == [LABELS_PER_CLASS] * CLASSES
    np.testing.assert_array_equal(points.shown[shown], points.labels[shown])
    wrong = np.where(shown, points.labels, (points.labels + 1) % CLASSES)
    assert points.accuracy(points.labels) == 1.0
    assert points.accuracy(wrong) == 0.0


def test_no_rule_is_better_than_the_best_one_and_many_labels_come_near_it() -> None:
    points = make_points(20_000)
    neighbours = KNeighborsClassifier(15).fit(points.x[:16_000], points.labels[:16_000])
    found = float((neighbours.predict(points.x[16_000:]) == points.labels[16_000:]).mean())
    # The standard error of an accuracy of 0.95 on 4,000 points is 0.0034.
    assert points.best_accuracy - 0.03 < found < points.best_accuracy + 0.012
    assert 0.93 < points.best_accuracy < 0.98
