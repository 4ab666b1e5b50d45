"""The labelling page in a real browser: by keyboard alone, with two of them, and before hostile rows and pages."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from sklearn.datasets import load_digits

from condiff.errors import InvalidInputError
from condiff.labelling.final import FullFit, FullModel
from condiff.labelling.journal import Journal
from condiff.labelling.learner import Learner
from condiff.labelling.rows import Labels, Rows
from condiff.labelling.score import Score
from condiff.labelling.server import application, listen
from condiff.labelling.session import Session
from condiff.readers.tables import read_table

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\'"&amp;{{7*7}}'
NAMES = ("ash", "elm")
Visit = Callable[..., Any]


def truth(row: int) -> str:
    return NAMES[row % 2]


def fitted(labels: Labels) -> FullModel:
    """Stands for a fit that takes its time."""
    if labels.count < 2:
        raise InvalidInputError("label rows of at least two classes")
    return FullModel(
        labels.count, "trees-model", "condiff predict trees-model", Score(3, 4, 0.3, 0.95), Score(5, 9, 0.27, 0.81), 1.0
    )


@contextlib.contextmanager
def served(session: Session, out: Path) -> Iterator[str]:
    """The address of a session's page."""
    socket = listen()
    port = socket.getsockname()[1]
    full = FullFit(session.journal, session.rows, fitted)
    app = application(session, full, token="secret", port=port, title="trees", out=out)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/secret/"
    finally:
        server.should_exit = True
        thread.join(60)
        socket.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    generator = np.random.default_rng(0)
    points = np.array([[8.0 * (row % 2), 0.0] for row in range(60)]) + generator.normal(size=(60, 2))
    words = [HOSTILE if row % 5 == 0 else f"tree {row}" for row in range(60)]
    lines = [f'{x},{y},"{word.replace(chr(34), chr(34) * 2)}",' for (x, y), word in zip(points, words, strict=True)]
    (tmp_path / "trees.csv").write_text("\n".join(["x,y,note,kind", *lines, ""]), encoding="utf-8")
    rows = Rows.of(read_table(tmp_path / "trees.csv"), "kind")
    journal = Journal(tmp_path / "journal", rows.about, len(rows))
    found = Session(rows, Learner.of(points), journal)
    found.start()
    yield found
    found.stop()
    journal.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Opens a page; afterwards no script may have failed."""
    pages: list[Any] = []
    failed: list[str] = []

    def opened(url: str, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto(url)
        until(page, "#row-name", "row|Every")
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert failed == []


def until(page: Any, selector: str, pattern: str) -> None:
    page.locator(selector).filter(has_text=re.compile(pattern)).wait_for(state="attached")


def row_of(page: Any) -> int:
    """The row that is asked for, once the page shows one: counts may stand there before it does."""
    until(page, "#row-name", r"^row \d+$")
    return int(re.fullmatch(r"row (\d+)", page.inner_text("#row-name"))[1]) - 1  # type: ignore[index]


def pressed(page: Any, *keys: str) -> str:
    """Press keys and wait for what the page says to it."""
    before = page.inner_text("#told")
    for key in keys:
        page.keyboard.press(key) if len(key) == 1 or key == "Enter" else page.keyboard.type(key)
    told: str = before
    while told == before:  # a function to wait for would be evaluated from a string, which the page's policy forbids
        page.wait_for_timeout(10)
        told = page.inner_text("#told")
    return told


def label(page: Any, name: str) -> str:
    """Choose a class by its key, or add it."""
    for button in page.locator("#classes button").all():
        if button.get_attribute("data-name") == name:
            return pressed(page, button.locator("kbd").inner_text())
    return pressed(page, "/", name, "Enter")


def test_by_keyboard_alone(session: Session, tmp_path: Path, visit: Visit) -> None:
    with served(session, tmp_path / "out.csv") as url:
        page = visit(url)
        rows = []
        for _ in range(4):
            rows.append(row_of(page))
            assert "Saved" in label(page, truth(rows[-1]))
        assert session.labels == {row: truth(row) for row in rows}
        for key, kind in (("n", "unsure"), ("x", "none"), ("s", "skip")):
            row = row_of(page)
            pressed(page, key)
            assert session.journal.last[row].kind == kind
        assert "as it was before" in pressed(page, "u")
        assert row_of(page) == row
        assert session.state()["skipped"] == 0
        # What is typed into the search box is no command.
        page.keyboard.press("/")
        page.keyboard.type("nsux")
        assert page.input_value("#search") == "nsux"
        page.keyboard.press("Escape")
        assert len(session.journal.decisions) == 8
        session.settle()
        until(page, "#now", "^Answer now")
        # A reload shows the same row again, and nothing was forgotten: not even who may undo what.
        page.reload()
        until(page, "#labelled", "^4 of 60 rows")
        assert row_of(page) == row
        pressed(page, "u")
        assert session.state()["none"] == 0
        page.focus("#export")
        page.keyboard.press("Enter")
        until(page, "#saved", "^4 labels")
        assert (tmp_path / "out.csv").is_file()


def test_what_is_typed_means_a_class_that_begins_with_it(session: Session, tmp_path: Path, visit: Visit) -> None:
    for row, name in enumerate(("elm", "ash tree", "ash bush")):
        session.act("other", row, 0, "label", name)
    with served(session, tmp_path / "out.csv") as url:
        page = visit(url)
        for typed, meant in (("el", "elm"), ("ASH B", "ash bush"), ("e", "e"), ("oak", "oak")):
            row = row_of(page)
            pressed(page, "/", typed, "Enter")
            assert session.labels[row] == meant
        # Two of them are no answer, unless a new one is meant.
        row = row_of(page)
        page.keyboard.press("/")
        page.keyboard.type("ash")
        page.keyboard.press("Enter")
        until(page, "#meant", "^2 classes begin like this: ash tree, ash bush")
        assert row not in session.labels
        page.focus("#new")
        page.keyboard.press("Enter")
        until(page, "#told", "Saved")
        assert session.labels[row] == "ash"


def test_a_full_model_at_the_end(session: Session, tmp_path: Path, visit: Visit) -> None:
    with served(session, tmp_path / "out.csv") as url:
        page = visit(url)
        page.focus("#fit")
        page.keyboard.press("Enter")
        until(page, "#model", "No model: label rows of at least two classes")
        for name in NAMES:
            label(page, name)
        page.focus("#fit")
        page.keyboard.press("Enter")
        until(page, "#model", "^Full model of 2 labels in trees-model: right on 75 % of 4 held-out labels")
        until(page, "#command", "condiff predict trees-model")
        until(page, "#saved", "^2 labels")
        label(page, NAMES[0])
        until(page, "#model", "Labels have come in since")


def test_two_browsers_do_not_overwrite_each_other(session: Session, tmp_path: Path, visit: Visit) -> None:
    with served(session, tmp_path / "out.csv") as url:
        mine, yours = visit(url), visit(url)
        assert row_of(mine) != row_of(yours)
        row = row_of(mine)
        session.act("third", row, 0, "label", "ash")
        told = label(mine, "elm")
        assert "decided on elsewhere meanwhile (ash)" in told
        assert session.labels[row] == "ash"
        assert "Saved" in label(yours, "elm")
        until(mine, "#labelled", "^2 of 60 rows")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_cells_do_nothing_and_everyone_can_use_it(
    session: Session, tmp_path: Path, visit: Visit, accessible: Callable[[Any], None], scheme: str
) -> None:
    session.act("other", 10, 0, "label", HOSTILE)
    session.act("other", 11, 0, "label", "elm")
    session.settle()
    with served(session, tmp_path / "out.csv") as url:
        page = visit(url, color_scheme=scheme)
        seen = False
        for _ in range(6):
            seen |= HOSTILE in page.inner_text("#look") or HOSTILE in page.inner_text("#neighbours")
            label(page, truth(row_of(page)))
        assert seen
        assert HOSTILE in page.inner_text("#classes")
        assert page.evaluate("window.hit") is None
        assert page.locator("main img").count() == 0
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.set_viewport_size({"width": 1280, "height": 900})
        axe_page(page, accessible)


def axe_page(page: Any, accessible: Callable[[Any], None]) -> None:
    """Axe comes as a script, which the page's policy rightly forbids: a copy without the policy is judged."""
    rules = "[...document.styleSheets].map((sheet) => [...sheet.cssRules].map((rule) => rule.cssText).join(''))"
    content, styles = page.content(), page.evaluate(rules)
    page.goto("about:blank")
    page.set_content(re.sub(r"<script.*?</script>|<link rel=\"stylesheet\"[^>]*>", "", content))
    page.add_style_tag(content="".join(styles))
    accessible(page)


def test_a_page_of_another_origin_cannot_write(session: Session, tmp_path: Path, browser: Any) -> None:
    body = '{"who":"evil","row":1,"seen":0,"kind":"label","label":"x"}'
    with served(session, tmp_path / "out.csv") as url:
        page_text = f"""<form id=f method=post enctype=text/plain action="{url}act">
        <input name='{body[:-2]}' value='"}}'></form>
        <iframe name=inside></iframe><script>
        const attempts = ["application/json", "text/plain"].map((type) =>
          fetch("{url}act", {{method: "POST", mode: type === "text/plain" ? "no-cors" : "cors",
            headers: {{"Content-Type": type}}, body: '{body}'}}).catch(() => "refused"));
        attempts.push(fetch("{url}state").then((r) => r.text()).catch(() => "refused"));
        Promise.all(attempts).then((said) => {{ document.title = "tried " + said[0] + " " + said[2];
          document.getElementById("f").target = "inside"; document.getElementById("f").submit(); }});
        </script>"""

        class Evil(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page_text.encode())

            def log_message(self, *_: Any) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil) as evil:
            threading.Thread(target=evil.serve_forever, daemon=True).start()
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{evil.server_address[1]}/")
            page.wait_for_function("document.title.startsWith('tried')", timeout=60_000)
            assert page.title() == "tried refused refused"
            page.wait_for_timeout(500)
            page.close()
            evil.shutdown()
    assert not session.journal.decisions


def labels_needed(learner: Learner, codes: np.ndarray, strategy: str, seed: int) -> int:
    """Labels until nine of ten answers are right, one by one in the order of a strategy."""
    labelled, answers = np.zeros(len(codes), bool), None
    while labelled.sum() < 200:
        nodes = learner.suggest(labelled, answers, np.zeros(len(codes), bool), 5, strategy, seed + int(labelled.sum()))
        labelled[nodes] = True
        known = np.flatnonzero(labelled)
        answers = learner.fit(known, codes[known], 10)
        if answers is not None and (answers.chances.argmax(axis=1) == codes).mean() >= 0.9:
            break
    return int(labelled.sum())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_digits_from_no_label_to_nine_of_ten_by_keyboard_with_a_kill(tmp_path: Path, visit: Visit) -> None:
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "digits.npz", X=X)
    command = [
        sys.executable,
        "-c",
        "from condiff.cli.app import main; main()",
        "label",
        "digits.npz",
        "--target",
        "digit",
    ]

    def started() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen([*command, "--no-browser"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[-1]

    learner = Learner.of(X)
    codes = y[learner.row_of_node]
    random_order = np.median([labels_needed(learner, codes, "random", seed) for seed in range(3)])
    process, url = started()
    count = 0
    try:
        page = visit(url)
        while count < 100:
            assert "Saved" in label(page, str(y[row_of(page)]))
            count += 1
            if count == 10:
                process.send_signal(signal.SIGKILL)
                process.wait()
                process.stdout.close()  # type: ignore[union-attr]
                process, url = started()
                page = visit(url)
                assert page.inner_text("#labelled").startswith("10 of 1797")
            while page.evaluate("fetch('state').then((said) => said.json()).then((state) => state.busy)"):
                page.wait_for_timeout(20)
            if count >= 10:
                lines = (tmp_path / "digits.npz.digit.labels.jsonl").read_text().splitlines()[1:]
                rows = [json.loads(line)["row"] for line in lines]
                nodes = learner.node_of_row[rows]
                answers = learner.fit(nodes, codes[nodes], 10) if len(np.unique(codes[nodes])) == 10 else None
                if answers is not None and (answers.chances.argmax(axis=1) == codes).mean() >= 0.9:
                    break
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
    print(f"{count} labels by keyboard, {random_order:.0f} in random order")
    assert count < random_order
    table = np.loadtxt(tmp_path / "digits-labelled.csv", delimiter=",", skiprows=1, dtype=str)
    filled = table[:, 1] != ""
    assert filled.sum() == count
    assert (table[filled, 1] == y[filled].astype(str)).all()
