"""Take the pictures of the labelling page and of a model's report: python docs/screenshots.py, from the project's root.

Needs Debian's Chromium and playwright, and the data sets for the texts (CONDIFF_DATA). Labels are given by keyboard.
"""

import csv
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.datasets import load_digits, load_wine

IMAGES = Path(__file__).parent / "images"
CONDIFF = [sys.executable, "-c", "from condiff.cli.app import main; main()"]
TOPICS = ("card_arrival", "lost_or_stolen_card", "change_pin", "exchange_rate", "top_up_failed", "age_limit",
          "verify_my_identity", "apple_pay_or_google_pay", "terminate_account", "country_support")  # fmt: skip


@contextmanager
def labelling(folder: Path, *words: str) -> Iterator[str]:
    """The address of the page of ``condiff label``."""
    command = [*CONDIFF, "label", *words, "--no-browser"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def labelled(page: Page, truth: Callable[[int], str], count: int) -> None:
    """Give labels by keyboard, each when the model knows the last."""
    for _ in range(count):
        row = int(re.sub(r"\D", "", page.inner_text("#row-name"))) - 1
        buttons = {each.get_attribute("data-name"): each for each in page.locator("#classes button").all()}
        before = page.inner_text("#told")
        if truth(row) in buttons:
            page.keyboard.press(buttons[truth(row)].locator("kbd").inner_text())
        else:
            page.keyboard.press("/")
            page.keyboard.type(truth(row))
            page.keyboard.press("Enter")
        while page.inner_text("#told") == before or page.evaluate(
            "fetch('state').then((said) => said.json()).then((state) => state.busy)"
        ):
            page.wait_for_timeout(50)
    page.wait_for_timeout(1500)


def opened(browser: Browser, address: str, *, width: int = 1280, height: int = 900, **options: Any) -> Page:
    """A page of a browser, once it shows a row."""
    page = browser.new_page(viewport={"width": width, "height": height}, **options)
    page.goto(address)
    page.locator("#row-name").filter(has_text=re.compile("row")).wait_for()
    return page


def digits(browser: Browser, folder: Path) -> None:
    """Labelling digits; the full model at the end, on a phone."""
    X, y = load_digits(return_X_y=True)
    np.savez(folder / "digits.npz", X=X)
    with labelling(folder, "digits.npz", "--target", "digit") as address:
        page = opened(browser, address)
        labelled(page, lambda row: str(y[row]), 24)
        page.screenshot(path=IMAGES / "label-digits.png")
        page.set_viewport_size({"width": 390, "height": 844})
        page.emulate_media(color_scheme="dark")
        page.click("#fit")
        page.locator("#use").wait_for(timeout=300_000)
        page.locator("#done-title").scroll_into_view_if_needed()
        page.evaluate("document.getElementById('progress-title').scrollIntoView()")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "label-phone.png")


def texts(browser: Browser, folder: Path) -> None:
    """Labelling questions, in the dark."""
    source = Path(os.environ["CONDIFF_DATA"], "text", "banking77_test.csv")
    rows = [row for row in csv.reader(source.open(newline="")) if row[1] in TOPICS]
    rows = [rows[at] for at in np.random.default_rng(0).permutation(len(rows))]
    with (folder / "questions.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["question", "topic"], *([text, ""] for text, _ in rows)])
    with labelling(folder, "questions.csv", "--target", "topic") as address:
        page = opened(browser, address, color_scheme="dark")
        labelled(page, lambda row: rows[row][1].replace("_", " "), 26)
        page.screenshot(path=IMAGES / "label-texts.png")


def report(browser: Browser, folder: Path) -> None:
    """What the diffusion changed, in the report of a model."""
    wine = load_wine()
    generator = np.random.default_rng(3)
    told = set(generator.permutation(len(wine.target))[:14].tolist())
    names = [name.replace("_", " ") for name in wine.feature_names]
    with (folder / "wines.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*names, "grower"])
        for row, cells in enumerate(wine.data.tolist()):
            writer.writerow([*cells, "ABC"[wine.target[row]] if row in told else ""])
    fit = ["fit", "wines.csv", "--target", "grower", "--base", "residual", "--out", "model"]
    subprocess.run([*CONDIFF, *fit], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*CONDIFF, "report", "model"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    page = browser.new_page(viewport={"width": 1180, "height": 900})
    page.goto(next(folder.rglob("*.html")).resolve().as_uri())
    page.get_by_role("heading", name="What the diffusion changed").evaluate(
        "(heading) => window.scrollTo(0, heading.closest('section').getBoundingClientRect().top + scrollY)"
    )
    page.screenshot(path=IMAGES / "report-changes.png")


if __name__ == "__main__":
    with sync_playwright() as player, tempfile.TemporaryDirectory() as place:
        browser = player.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for taken in (digits, texts, report):
            if not sys.argv[1:] or taken.__name__ in sys.argv[1:]:
                taken(browser, Path(place))
        browser.close()
