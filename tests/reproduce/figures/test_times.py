from __future__ import annotations

import pytest
from tests.reproduce.made_up import paper_runs, run

from condiff.errors import InvalidInputError
from condiff.reproduce.figures import draw_times
from condiff.reproduce.published import methods
from condiff.reproduce.summary import summarise

pytest.importorskip("matplotlib")


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
