from __future__ import annotations

import pytest
from tests.reproduce.made_up import paper_runs, run

from condiff.errors import InvalidInputError
from condiff.reproduce.figures import draw_memory
from condiff.reproduce.figures.canvas import HIGHLIGHT
from condiff.reproduce.published import methods
from condiff.reproduce.summary import summarise

matplotlib = pytest.importorskip("matplotlib")


def test_a_bar_ends_at_the_peak_of_its_method() -> None:
    rows = summarise([*paper_runs(("cora", "pubmed")), run("own")])
    figure = draw_memory(rows)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Cora", "Pubmed"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [*(method.name for method in methods("node")), "own"]
    for axes, dataset in zip(figure.axes, ("cora", "pubmed"), strict=True):
        assert axes.get_xscale() == "log"
        ends = {round(bar.get_y() + bar.get_height() / 2): bar.get_x() + bar.get_width() for bar in axes.patches}
        expected = {names.index(row.method): row.memory_mb for row in rows if row.dataset == dataset}
        assert ends == pytest.approx(expected)
        assert all(axes.get_xlim()[0] < end < axes.get_xlim()[1] for end in ends.values())
    assert figure.axes[0].yaxis_inverted()


def test_coin_has_its_own_colour() -> None:
    [axes] = draw_memory(summarise([run("GCN"), run("COIN")])).axes
    colours = [matplotlib.colors.to_hex(bar.get_facecolor()).upper() for bar in axes.patches]
    assert [colour == HIGHLIGHT for colour in colours] == [False, True]


def test_no_memory_at_all_is_a_bar_of_no_length() -> None:
    [axes] = draw_memory(summarise([run("GCN", memory_mb=0.0), run(memory_mb=12.0)])).axes
    assert [bar.get_width() > 0 for bar in axes.patches] == [False, True]
    assert [text.get_text() for text in axes.texts] == ["0.0", "12"]


def test_several_metrics_of_a_run_are_one_bar() -> None:
    [axes] = draw_memory(summarise([run(metrics={"accuracy": 80.0, "roc_auc": 0.8})])).axes
    assert len(axes.patches) == 1


def test_without_any_measurement_there_is_nothing_to_show() -> None:
    with pytest.raises(InvalidInputError, match="none to show"):
        draw_memory(summarise([run(memory_mb=float("nan"))]))
