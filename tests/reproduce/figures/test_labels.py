from __future__ import annotations

import numpy as np
import pytest

from condiff.reproduce.figures.canvas import panels
from condiff.reproduce.figures.labels import Label, label_points, place


def overlaps(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.all(np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2]) > 1e-9))


def boxes_of(points: np.ndarray, sizes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return np.hstack([points + offsets - sizes / 2, points + offsets + sizes / 2])


@pytest.mark.parametrize("seed", range(3))
def test_labels_keep_clear_of_each_other_and_inside(seed: int) -> None:
    generator = np.random.default_rng(seed)
    points = generator.normal((200, 150), (70, 40), (25, 2))  # crowded: many would overlap at the right of their points
    sizes = np.column_stack([generator.uniform(20, 60, 25), np.full(25, 9.0)])
    frame = np.array([0.0, 0.0, 400.0, 300.0])
    boxes = boxes_of(points, sizes, place(points, sizes, frame))
    naive = boxes_of(points, sizes, np.column_stack([sizes[:, 0] / 2 + 5, np.zeros(25)]))
    pairs = [(i, j) for i in range(25) for j in range(i)]
    assert sum(overlaps(naive[i], naive[j]) for i, j in pairs) > 3
    assert not any(overlaps(boxes[i], boxes[j]) for i, j in pairs)
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= [400, 300]).all()


def test_a_lone_label_is_close_at_the_right() -> None:
    [offset] = place(np.array([[50.0, 50.0]]), np.array([[20.0, 8.0]]), np.array([0.0, 0.0, 100.0, 100.0]))
    np.testing.assert_allclose(offset, [15.0, 0.0], atol=1e-12)


def test_at_the_right_edge_it_goes_to_the_left() -> None:
    [offset] = place(np.array([[95.0, 50.0]]), np.array([[20.0, 8.0]]), np.array([0.0, 0.0, 100.0, 100.0]))
    np.testing.assert_allclose(offset, [-15.0, 0.0], atol=1e-12)


def test_written_labels_are_where_the_search_put_them() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    figure, [[axes]] = panels(1, 1, (5, 4))
    axes.set(xscale="log", yscale="log", xlim=(0.1, 100), ylim=(0.1, 100))
    labels = [Label(1.0 + 0.05 * n, 1.0, f"method {n}", "red" if n else "blue") for n in range(8)]
    axes.scatter([label.x for label in labels], [label.y for label in labels])
    label_points(axes, labels)
    figure.draw_without_rendering()
    written = [text for text in axes.texts if text.get_text().startswith("method")]
    assert [text.get_color() for text in written] == ["blue"] + ["red"] * 7
    extents = [np.array(Text.get_window_extent(text).extents) for text in written]
    assert not any(overlaps(extents[i], extents[j]) for i in range(8) for j in range(i))
    assert [text.xy for text in written] == [(label.x, label.y) for label in labels]
    joined = [text.arrow_patch.get_visible() for text in written]
    assert any(joined)  # eight points in one place: some labels are further away
    assert not all(joined)
