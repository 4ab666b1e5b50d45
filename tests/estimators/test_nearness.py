"""What labels say of an embedding by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.estimators.problems import FAST

from condiff import COINClassifier, load
from condiff.estimators.inputs import Items
from condiff.estimators.nearness import beside_labels, label_directions


def embedding(sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length one around a direction for each class."""
    generator = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    rows = 0.8 * generator.normal(size=(len(sizes), 40))[truth] + generator.normal(size=(len(truth), 40))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), truth


def test_directions_are_as_long_as_the_share_of_labels_says() -> None:
    rows, truth = embedding([30, 30, 40])
    items = Items(np.array([0, 1, 30]), truth[[0, 1, 30]], np.array([1.0, 3.0, 1.0]))
    found = label_directions(rows, items, 3)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [80 * 0.03, 80 * 0.03, 0.0])
    mean = rows[0] + 3 * rows[1]
    np.testing.assert_allclose(found[0] / np.linalg.norm(found[0]), mean / np.linalg.norm(mean))
    # Without a label, a class has no direction; with many labels a direction is as long as any.
    left = label_directions(rows, items, 3, np.array([True, True, False]))
    np.testing.assert_allclose(np.linalg.norm(left, axis=1), [80 * 0.03, 0.0, 0.0])
    everything = Items(np.arange(100), truth, np.ones(100))
    np.testing.assert_allclose(np.linalg.norm(label_directions(rows, everything, 3), axis=1), 4.0)


def test_outputs_are_multiplied_by_the_exponential_of_the_cosine() -> None:
    rows, outputs = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[0.25, 0.75], [0.5, 0.5]])
    found = beside_labels(outputs, rows, np.array([[2.0, 0.0], [0.0, 1.0]]))
    expected = outputs * np.exp([[1.2, 0.8], [0.0, 1.0]])
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True))


def test_embeddings_are_answered_with_their_labels(tmp_path: Path) -> None:
    rows, truth = embedding([60, 60, 4])
    labels = np.full(len(truth), -1)
    labels[[0, 1, 2, 60, 61, 62, 120, 121]] = truth[[0, 1, 2, 60, 61, 62, 120, 121]]
    model = COINClassifier(**FAST | {"base": "auto"}).fit(rows, labels)
    assert model.label_directions_ is not None
    plain = COINClassifier(**FAST).fit(rows, labels)  # the network alone
    assert plain.label_directions_ is None
    nodes = plain.record_.node_of_row
    expected = beside_labels(plain.record_.output[nodes], rows, model.label_directions_)
    np.testing.assert_allclose(model.record_.output[nodes], expected, atol=1e-6)
    # New rows likewise, and those of a model that was saved.
    new = embedding([60, 60, 4], seed=1)[0]
    induced = beside_labels(plain._answer(new), new, model.label_directions_)
    np.testing.assert_allclose(model._answer(new), induced, atol=1e-6)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(new), model.predict_proba(new))


def test_single_labels_are_spread_over_the_graph(tmp_path: Path) -> None:
    rows, truth = embedding([90, 60, 10])
    labels, single = np.full(len(truth), -1), [0, 90, 150]
    labels[single] = truth[single]
    model = COINClassifier(**FAST | {"base": "auto"}).fit(rows, labels)
    plain = COINClassifier(**FAST).fit(rows, labels)
    assert model.label_directions_ is not None and model.label_spread_ is not None and plain.label_spread_ is None
    # Each class is spread from its label, which it says most at; all together count by half a standard deviation.
    nodes = model.record_.node_of_row
    assert (model.label_spread_.argmax(axis=0) == nodes[single]).all()
    np.testing.assert_allclose(model.label_spread_.std(), 0.5)
    points = rows[np.argsort(nodes)]
    expected = beside_labels(plain.record_.output, points, model.label_directions_, model.label_spread_)
    np.testing.assert_allclose(model.record_.output, expected, atol=1e-6)
    # A new row that all but repeats a known one is answered alike, also by a model that was saved.
    new = rows[5:6] + 1e-9
    np.testing.assert_allclose(model._answer(new), model.record_.output[nodes[5:6]], atol=0.1)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(new), model.predict_proba(new))
    # With a second label of any class the network is asked alone.
    labels[1] = truth[1]
    assert COINClassifier(**FAST | {"base": "auto"}).fit(rows, labels).label_spread_ is None
    # So it is where classes are equal.
    rows, truth = embedding([50, 50, 50])
    labels = np.where(np.arange(150) % 50 == 0, truth, -1)
    assert COINClassifier(**FAST | {"base": "auto"}).fit(rows, labels).label_spread_ is None
