"""The report in a real browser: it opens, sorts by mouse and keyboard, and can be used by everyone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from tests.pages.conftest import Open

from condiff import COINClassifier
from condiff.reproduce.report.report import write_report

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    X, y = load_iris(return_X_y=True)
    model = COINClassifier(layers=30).fit(X, np.where(np.arange(150) % 5 == 0, y, -1))
    sources = {name: RESULTS / name for name in ("node", "covid", "node-ablation", "demo", "prostate")}
    sources["model"] = model.save(folder / "model")
    for name, source in sources.items():
        write_report(source, folder / f"{name}.html", f"condiff report {name}")
    return {name: folder / f"{name}.html" for name in sources}


def column(page: Any, number: int, table: int = 0) -> list[str]:
    found: list[str] = page.locator("table").nth(table).locator(f"tbody tr > :nth-child({number})").all_inner_texts()
    return found


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("node", "light"),
        ("covid", "dark"),
        ("node-ablation", "light"),
        ("demo", "dark"),
        ("prostate", "light"),
        ("model", "light"),
        ("model", "dark"),
    ],
)
def test_it_opens_and_is_accessible(
    open_page: Open, pages: dict[str, Path], accessible: Callable[[Any], None], name: str, scheme: str
) -> None:
    page = open_page(pages[name], color_scheme=scheme)
    for details in page.locator("summary").all():
        details.click()
    accessible(page)
    # Nothing sticks out at the side.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", ["node", "demo", "model"])
def test_on_a_phone_pictures_scroll_and_stay_readable(open_page: Open, pages: dict[str, Path], name: str) -> None:
    page = open_page(pages[name])
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg text')].map((text) => text.getBoundingClientRect().height)"
    )
    assert min(size for size in sizes if size) > 5


def test_pictures_follow_the_scheme_and_keep_their_hints(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["node"], color_scheme="light")
    fill = "getComputedStyle(document.querySelector('svg text')).fill"
    light = page.evaluate(fill)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(fill) != light
    hints = page.evaluate("[...document.querySelectorAll('svg title')].map((title) => title.textContent)")
    assert any(hint.startswith("COIN: median") for hint in hints)
    assert any(hint.startswith("published: 82.2") for hint in hints)


def test_it_sorts_by_mouse(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["node"])
    before = column(page, 1)
    head = page.locator("table").first.locator("th[scope=col]").nth(1)
    head.locator("button").click()
    means = [float(text.split(" ")[0]) for text in column(page, 2)]
    assert means == sorted(means, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    assert page.get_by_role("status").first.inner_text() == "Sorted by Cora, descending."
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(text.split(" ")[0]) for text in column(page, 2)] == sorted(means)
    assert sorted(column(page, 1)) == sorted(before) != column(page, 1)


def test_it_sorts_by_keyboard_with_nothing_last(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["node"])
    buttons = page.locator("table").first.locator("thead button")
    buttons.nth(2).focus()
    page.keyboard.press("Tab")
    for key in ("Enter", "Space"):
        page.keyboard.press(key)
        missing = [text == "-" for text in column(page, 4)]
        assert missing == sorted(missing)  # what was not measured comes last, whichever the direction
    buttons.nth(0).focus()
    page.keyboard.press("Enter")
    names = column(page, 1)
    assert names == sorted(names, key=str.casefold)
    assert page.locator("table").first.locator("[aria-sort]").count() == 1


def test_the_skip_link_leads_to_the_results(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["model"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#results"


def test_it_prints(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["node"], color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0
    assert page.pdf().startswith(b"%PDF")
