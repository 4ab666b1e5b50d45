from __future__ import annotations

import numpy as np
import pytest
from tests.reproduce.made_up import paper_runs, run

from condiff.errors import InvalidInputError
from condiff.pages.canvas import panels
from condiff.reproduce.figures import draw_times
from condiff.reproduce.figures.times import Label, draw_score_against_time, label_points, place
from condiff.reproduce.metrics import metric
from condiff.reproduce.published import methods
from condiff.reproduce.summary import summarise


def test_every_method_is_a_labelled_point_coloured_by_its_accuracy() -> None:
    rows = summarise(paper_runs(("cora",)))
    axes, bar = draw_times(rows).axes
    [marks] = axes.collections
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    expected = [(row.seconds_per_epoch, row.seconds_per_run) for row in rows]
    assert marks.get_offsets().tolist() == [pytest.approx(point) for point in expected]
    assert marks.get_array().tolist() == [row.mean for row in rows]
    assert {text.get_text(): text.xy for text in axes.texts} == {
        row.method: pytest.approx(point) for row, point in zip(rows, expected, strict=True)
    }
    assert bar.get_ylabel() == "accuracy (%)"
    # The MLP, far below, does not take the colours of the others.
    assert marks.norm.vmin > min(row.mean for row in rows) + 10


def test_published_times_are_hollow_and_grey_where_asked_for() -> None:
    rows = summarise([*paper_runs(("cora",), ("GCN", "COIN")), run("own")])
    axes, _ = draw_times(rows, with_published=True).axes
    _, hollow = axes.collections
    assert hollow.get_offsets().tolist() == [pytest.approx([0.003072, 1.24]), pytest.approx([0.006256, 0.798])]
    assert hollow.get_facecolors().size == 0
    texts = [text.get_text() for text in axes.texts]
    assert sorted(texts) == sorted(["GCN", "COIN", "own", "GCN", "COIN", "hollow: published, on an RTX 3090"])
    assert len(draw_times(rows).axes[0].collections) == 1


def test_a_data_set_that_was_not_published_has_no_hollow_marks() -> None:
    axes, _ = draw_times(summarise([run(dataset="mine")]), with_published=True).axes
    assert [text.get_text() for text in axes.texts] == ["COIN"]


def test_each_data_set_has_a_panel_and_methods_without_epochs_are_named() -> None:
    runs = [*paper_runs(("cora", "pubmed"), ("GCN", "COIN")), run("LabelPropagation", epochs=0)]
    panels = [axes for axes in draw_times(summarise(runs)).axes if axes.get_xlabel()]
    assert [axes.get_title(loc="left") for axes in panels] == ["Cora", "Pubmed"]
    assert [axes.get_title(loc="right") for axes in panels] == ["without epochs: LabelPropagation", ""]


def test_without_any_epochs_there_is_nothing_to_show() -> None:
    with pytest.raises(InvalidInputError, match="no times to show"):
        draw_times(summarise([run(epochs=0)]))


def test_labels_of_a_whole_table_do_not_overlap() -> None:
    import numpy as np
    from matplotlib.text import Text

    figure = draw_times(summarise(paper_runs(("citeseer",))), with_published=True)
    figure.draw_without_rendering()
    boxes = [np.array(Text.get_window_extent(text).extents) for text in figure.axes[0].texts]
    assert len(boxes) == 2 * len(methods("node")) + 1
    shared = [
        np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
        for i, a in enumerate(boxes)
        for b in boxes[:i]
    ]
    assert max(shared) == 0


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


def test_score_against_time_leaves_out_what_is_far_and_says_so() -> None:
    points = [(f"m{i}", 10.0**i, 80.0 + i) for i in range(5)] + [("lost", 1.0, 10.0), ("COIN", 3.0, 85.0)]
    figure, far = draw_score_against_time(points, metric("accuracy"))
    assert far == ["lost"]
    [axes] = figure.axes
    assert {line.get_gid() for line in axes.lines} >= {"hint: COIN: 85.0 in 3 s", "hint: m4: 84.0 in 1e+04 s"}
    assert {text.get_text() for text in axes.texts} == {name for name, _, _ in points} - {"lost"}
