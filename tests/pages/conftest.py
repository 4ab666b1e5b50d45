"""A real browser for the tests of the pages; without one they are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from condiff.pages.scene import Scene, example_scene

# Generous: the machine may be busy with other things.
_PATIENCE = 120_000


def find_chromium() -> str | None:
    named = os.environ.get("CONDIFF_CHROMIUM")
    known = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return named or next((path for path in map(shutil.which, known) if path), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium, started once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'condiff[browser]'")
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("needs Chromium: make browser installs it, or set CONDIFF_CHROMIUM to one")
    with playwright.sync_playwright() as driver:
        # The sandbox needs rights that a container does not have; only our own pages are opened.
        started = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"], timeout=_PATIENCE
        )
        yield started
        started.close()


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a file; afterwards no script may have failed, nothing logged an error, and only files were asked for."""
    pages: list[Any] = []
    complaints: list[str] = []

    def open_file(path: Path, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
        page.set_default_timeout(_PATIENCE)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(("file:", "data:")) else complaints.append(asked.url),
        )
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_file
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture
def accessible() -> Callable[[Any], None]:
    """Asserts that axe finds nothing to object to."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra 'browser'")

    def check(page: Any) -> None:
        found = axe.Axe().run(page).response
        problems = [f"{each['id']}: {each['help']} ({each['nodes'][0]['html'][:160]})" for each in found["violations"]]
        assert problems == []
        assert len(found["passes"]) > 10

    return check


@pytest.fixture(scope="session")
def moons() -> Scene:
    return example_scene("moons", 150)
