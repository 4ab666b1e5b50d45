from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.pages.canvas import save
from condiff.reproduce import scale_space as space
from condiff.reproduce.evolution import PLANES, Evolution, evolve
from condiff.reproduce.figures.theory import (
    draw_certified,
    draw_flow,
    draw_scale_space,
    draw_three_times,
    flow_animation,
)
from condiff.reproduce.scale_space import DeepMoons

ROWS = [
    {
        "method": method,
        "noise": noise,
        "points": 50,
        "radii": [0.0, noise, 2 * noise],
        "certified_accuracy": [top, top / 2, 0.0],
    }
    for noise in (0.25, 0.5)
    for method, top in (("network", 0.8), ("COIN", 0.9), ("network + noise", 0.82), ("COIN + noise", 0.92))
]


@pytest.fixture(scope="module")
def evolutions() -> list[Evolution]:
    return [evolve(name) for name in PLANES]


def test_curves_are_of_their_noise_and_method(tmp_path: Path) -> None:
    figure = draw_certified(ROWS)
    left, right = figure.axes
    assert [axes.get_title() for axes in (left, right)] == ["noise 0.25", "noise 0.5"]
    lines = {line.get_label(): line for line in left.lines}
    assert list(lines) == ["network", "COIN", "network + noise", "COIN + noise"]
    np.testing.assert_allclose(lines["COIN"].get_ydata(), [90, 45, 0])
    np.testing.assert_allclose(lines["COIN"].get_xdata(), [0, 0.25, 0.5])
    assert lines["COIN"].get_color() == lines["COIN + noise"].get_color() != lines["network"].get_color()
    assert [line.get_linestyle() for line in left.lines] == ["-", "-", "--", "--"]
    save(draw_certified(ROWS), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_three_times_show_points_and_shares(evolutions: list[Evolution], tmp_path: Path) -> None:
    figure = draw_three_times(evolutions[:1])
    assert len(figure.axes) == 3
    evolution = evolutions[0]
    [diffused] = evolution.flow([evolution.layers])
    points, stars = figure.axes[2].collections[-2:]
    np.testing.assert_array_equal(points.get_array(), diffused)
    np.testing.assert_array_equal(points.get_offsets(), evolution.points)
    np.testing.assert_array_equal(stars.get_offsets(), evolution.points[evolution.shown])
    right = np.delete((diffused > 0.5) == evolution.truth, evolution.shown).mean()
    assert figure.axes[2].get_title().endswith(f"{100 * right:.0f} % right")
    save(draw_three_times(evolutions[:1]), tmp_path / "three.svg")
    assert (tmp_path / "three.svg").read_text().count("<use") > 3 * len(evolution.points)


def test_a_frame_shows_the_graph_and_how_far_it_is(evolutions: list[Evolution]) -> None:
    values = [evolution.flow([10])[0] for evolution in evolutions]
    figure = draw_flow(evolutions, values, 0.5)
    for axes, evolution, u in zip(figure.axes, evolutions, values, strict=True):
        edges, points, _ = axes.collections
        assert len(edges.get_segments()) == len(evolution.links)
        np.testing.assert_array_equal(points.get_array(), u)
        assert axes.get_title().startswith(f"layer {round(0.5 * evolution.layers)} of {evolution.layers}: ")


def test_the_animation_moves_and_is_the_same_again(evolutions: list[Evolution], tmp_path: Path) -> None:
    from PIL import Image

    for name in ("a.gif", "b.gif"):
        flow_animation(evolutions[:1], tmp_path / name, frames=4)
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()
    with Image.open(tmp_path / "a.gif") as picture:
        assert picture.n_frames == 4
        assert picture.info["loop"] == 0
        first = np.asarray(picture.convert("RGB"), dtype=int)
        picture.seek(3)
        last = np.asarray(picture.convert("RGB"), dtype=int)
    assert (np.abs(first - last).max(axis=2) > 40).sum() > 50


def test_an_animation_that_cannot_be(evolutions: list[Evolution], tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"flow\.png is none"):
        flow_animation(evolutions, tmp_path / "flow.png")
    with pytest.raises(InvalidInputError, match="at least 2 frames"):
        flow_animation(evolutions, tmp_path / "flow.gif", frames=1)
    assert not list(tmp_path.iterdir())


def test_scale_space_goes_from_coarse_to_fine_and_from_base_to_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "_EPOCHS", 5)
    image, deep = np.random.default_rng(0).random((12, 18, 3)), DeepMoons()
    figure = draw_scale_space(image, deep)
    above, below = figure.axes[:5], figure.axes[5:]
    spread = [float(np.asarray(axes.images[0].get_array()).std()) for axes in above]
    assert spread == sorted(spread)
    np.testing.assert_allclose(np.asarray(above[-1].images[0].get_array()), image, atol=1e-12)
    assert [axes.get_title() for axes in below][1:4] == ["3 of 12 layers", "6 of 12 layers", "9 of 12 layers"]
    assert "base classifier" in below[0].get_title()
    assert "network" in below[-1].get_title()
    save(draw_scale_space(image, deep), tmp_path / "scale.png")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
