"""The explorer in a real browser: its u is Python's, whatever one drags, clicks or types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pages.conftest import Open

from condiff.pages.explorer import write_explorer
from condiff.pages.scene import Scene, example_scene

SETTLE = """async () => {
  while (!explorer.state().settled) await new Promise((resolve) => setTimeout(resolve, 10));
  return explorer.state();
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, moons: Scene) -> Path:
    path = tmp_path_factory.mktemp("explorer") / "moons.html"
    write_explorer(moons, path, "condiff explore moons")
    return path


def settle(page: Any) -> dict[str, Any]:
    state: dict[str, Any] = page.evaluate(SETTLE)
    return state


def assert_agrees(page: Any, scene: Scene, state: dict[str, Any]) -> None:
    held = {int(point): code for point, code in state["held"].items()}
    expected = scene.u(state["layers"], state["strength"], held)
    found = np.array(page.evaluate("explorer.u()"))
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=1e-9)


def drag(page: Any, slider: str, part: float) -> None:
    """Take the slider's thumb and pull it, with the mouse, to a part of its width."""
    box = page.locator(slider).bounding_box()
    value = int(page.locator(slider).input_value()) / 1000
    y, wide = box["y"] + box["height"] / 2, box["width"] - 16
    page.mouse.move(box["x"] + 8 + wide * value, y)
    page.mouse.down()
    for step in (0.25, 0.5, 0.75, 1.0):
        page.mouse.move(box["x"] + 8 + wide * (value + (part - value) * step), y)
    page.mouse.up()


def test_it_opens_with_the_models_diffusion(open_page: Open, file: Path, moons: Scene) -> None:
    page = open_page(file)
    state = settle(page)
    assert (state["layers"], state["strength"]) == (moons.layers, moons.strength)
    assert_agrees(page, moons, state)
    assert "Certified" in page.inner_text("#verdict")
    assert moons.truth is not None
    right = (moons.u(moons.layers, moons.strength).argmax(axis=1) == moons.truth).mean()
    assert page.inner_text("#right") == f"{100 * right:.1f} %"


def test_dragging_layers(open_page: Open, file: Path, moons: Scene) -> None:
    page = open_page(file)
    before = settle(page)
    for part in (0.9, 0.3, 0.0):
        drag(page, "#layers", part)
        state = settle(page)
        assert state["layers"] != before["layers"]
        assert state["layers"] == pytest.approx(2 * moons.layers * part**2, abs=30)
        assert_agrees(page, moons, state)
        before = state
    assert state["layers"] == 0
    assert page.inner_text("#changed") == "0"


def test_past_the_limits_it_says_so(open_page: Open, file: Path, moons: Scene) -> None:
    page = open_page(file)
    settle(page)
    drag(page, "#layers", 0.2)
    page.click("#to-stability")
    assert settle(page)["strength"] == moons.certificate.stability_limit
    assert "Past the positivity limit" in page.inner_text("#verdict")
    drag(page, "#strength", 1.0)
    state = settle(page)
    assert state["strength"] == pytest.approx(1.25 * moons.certificate.stability_limit)
    assert "Past the stability limit" in page.inner_text("#verdict")
    expected = moons.u(state["layers"], state["strength"])
    broken = int(((expected < -1e-6) | (expected > 1 + 1e-6)).any(axis=1).sum())
    assert broken > 0
    assert f"{broken} point" in page.inner_text("#verdict")
    assert_agrees(page, moons, state)
    page.click("#to-positivity")
    assert_agrees(page, moons, settle(page))
    assert "Certified" in page.inner_text("#verdict")


def test_a_click_labels_and_another_frees(open_page: Open, file: Path, moons: Scene) -> None:
    page = open_page(file)
    settle(page)
    point = int(np.flatnonzero(moons.labels < 0)[5])
    wrong = 1 - int(moons.u(moons.layers, moons.strength)[point].argmax())
    page.check(f"input[name=brush][value='{wrong}']")
    page.mouse.click(*page.evaluate("(i) => explorer.place(i)", point))
    state = settle(page)
    [held] = state["held"].items()
    assert held[1] == wrong
    assert_agrees(page, moons, state)
    assert page.inner_text("#held-count") == "1 held"
    page.mouse.click(*page.evaluate("(i) => explorer.place(i)", int(held[0])))
    state = settle(page)
    assert state["held"] == {}
    assert_agrees(page, moons, state)


def test_with_the_keyboard_alone(open_page: Open, file: Path, moons: Scene) -> None:
    page = open_page(file)
    settle(page)
    page.focus("#stage")
    page.keyboard.press("ArrowRight")
    first = page.inner_text("#point") if settle(page) else ""
    assert "network alone" in first and "Trained on as" in first
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    settle(page)
    assert page.inner_text("#point") != first
    page.keyboard.press("2")
    state = settle(page)
    assert list(state["held"].values()) == [1]
    assert "Held at lower" in page.inner_text("#point")
    assert_agrees(page, moons, state)
    page.keyboard.press("Escape")
    page.focus("#release")
    page.keyboard.press("Enter")
    assert settle(page)["held"] == {}
    page.focus("#layers")
    page.keyboard.press("Home")
    assert settle(page)["layers"] == 0


def test_playing_ends_where_it_was(open_page: Open, file: Path, moons: Scene) -> None:
    page = open_page(file)
    settle(page)
    page.click("#play")
    assert page.inner_text("#play-text") == "Pause"
    state = settle(page)
    assert (state["layers"], state["playing"]) == (moons.layers, False)
    assert page.inner_text("#play-text") == "Play"
    assert_agrees(page, moons, state)


def test_ten_classes(open_page: Open, tmp_path: Path) -> None:
    scene = example_scene("digits", layout="pca")
    path = tmp_path / "digits.html"
    write_explorer(scene, path, "condiff explore digits")
    page = open_page(path)
    settle(page)
    point = 17
    page.check("input[name=brush][value='9']")
    page.mouse.click(*page.evaluate("(i) => explorer.place(i)", point))
    state = settle(page)
    assert list(state["held"].values()) == [9]
    assert_agrees(page, scene, state)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(open_page: Open, file: Path, accessible: Callable[[Any], None], scheme: str) -> None:
    page = open_page(file, color_scheme=scheme)
    settle(page)
    page.click("summary")
    accessible(page)


def test_held_points_are_saved(open_page: Open, file: Path, moons: Scene, tmp_path: Path) -> None:
    page = open_page(file)
    settle(page)
    assert page.is_disabled("#save")
    page.focus("#stage")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("1")
    [(point, code)] = settle(page)["held"].items()
    with page.expect_download() as started:
        page.click("#save")
    started.value.save_as(tmp_path / "labels.csv")
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert moons.rows is not None
    assert lines == [
        "row,point,label",
        f'{moons.rows[int(point)] + 1},"point {int(point) + 1}","{moons.classes[code]}"',
    ]
