"""The server: who may ask, who may change something, and what it never does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.labelling.conftest import Start

from condiff.labelling.final import FullFit, FullModel
from condiff.labelling.server import application
from condiff.labelling.session import Session

PORT, TOKEN = 8765, "secret"
OWN = {"host": f"127.0.0.1:{PORT}", "origin": f"http://127.0.0.1:{PORT}", "content-type": "application/json"}


class Client:
    """Asks the application, without a network."""

    def __init__(self, session: Session, out: Path) -> None:
        full = FullFit(session.journal, session.rows, lambda labels: FullModel(labels.count, "m", "", None, None, 0.0))
        self.app = application(session, full, token=TOKEN, port=PORT, title="trees", out=out)
        self.headers: dict[str, str] = {}

    def __call__(self, method: str, path: str, headers: dict[str, str] = OWN, body: Any = None) -> tuple[int, Any]:
        sent: list[dict[str, Any]] = []
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "http_version": "1.1",
            "scheme": "http", "server": ("127.0.0.1", PORT), "client": ("127.0.0.1", 1), "root_path": "",
        }  # fmt: skip
        content = body if isinstance(body, bytes) else json.dumps(body).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        self.headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        raw = b"".join(each.get("body", b"") for each in sent[1:])
        is_json = "json" in self.headers.get("content-type", "")
        return sent[0]["status"], json.loads(raw) if is_json else raw.decode()


@pytest.fixture
def client(start: Start, tmp_path: Path) -> Iterator[tuple[Client, Session]]:
    session = start({0: "ash"})
    yield Client(session, tmp_path / "out.csv"), session


def act(row: int, label: str = "elm", **more: Any) -> dict[str, Any]:
    return {"who": "me", "row": row, "seen": 0, "kind": "label", "label": label, **more}


def test_a_person_labels_undoes_and_saves(client: tuple[Client, Session], tmp_path: Path) -> None:
    ask, session = client
    status, card = ask("GET", "/secret/card?who=me")
    assert status == 200
    assert card["said"] == {"kind": "open", "label": ""}
    assert [name for name, _ in card["cells"]] == ["x", "note", "y"]
    assert ask("POST", "/secret/act", body=act(card["row"])) == (200, {"number": 1})
    assert session.labels[card["row"]] == "elm"
    assert ask("POST", "/secret/undo", body={"who": "me"}) == (200, {"row": card["row"]})
    assert ask("POST", "/secret/undo", body={"who": "me"}) == (200, {"row": None})
    assert ask("POST", "/secret/export", body={"who": "me"}) == (200, {"labels": 1, "out": str(tmp_path / "out.csv")})
    assert (tmp_path / "out.csv").is_file()
    assert ask("GET", "/secret/state")[1]["labelled"] == 1
    assert ask("GET", "/secret/issues") == (200, [])
    assert ask("GET", "/secret/state")[1]["model"]["found"] is None
    assert ask("POST", "/secret/fit", body={"who": "me"})[1]["labels"] == 1
    while (model := ask("GET", "/secret/state")[1]["model"])["busy"]:
        pass
    assert model["found"]["labels"] == 1


@pytest.mark.parametrize(
    ("status", "path", "headers"),
    [
        (403, "/other/act", OWN),
        (403, "/secre/act", OWN),
        (421, "/secret/act", {**OWN, "host": "evil.example"}),
        (421, "/secret/act", {**OWN, "host": f"evil.example:{PORT}", "origin": f"http://evil.example:{PORT}"}),
        (421, "/secret/act", {**OWN, "host": "127.0.0.1:1"}),
        (403, "/secret/act", {**OWN, "origin": "http://evil.example"}),
        (403, "/secret/act", {**OWN, "origin": "null"}),
        (403, "/secret/act", {name: value for name, value in OWN.items() if name != "origin"}),
        (403, "/secret/act", {**OWN, "origin": f"http://localhost:{PORT}"}),
        (403, "/secret/act", {**OWN, "sec-fetch-site": "cross-site"}),
        (403, "/secret/act", {**OWN, "content-type": "text/plain"}),
        (403, "/secret/undo", {**OWN, "origin": "http://evil.example"}),
        (403, "/secret/export", {**OWN, "origin": "http://evil.example"}),
        (403, "/secret/fit", {**OWN, "origin": "http://evil.example"}),
    ],
)
def test_no_stranger_changes_anything(
    client: tuple[Client, Session], tmp_path: Path, status: int, path: str, headers: dict[str, str]
) -> None:
    ask, session = client
    found, answer = ask("POST", path, headers, act(5))
    assert found == status
    assert list(answer) == ["error"]
    assert not session.journal.decisions
    assert not (tmp_path / "out.csv").exists()


def test_reading_needs_the_secret_and_the_host_too(client: tuple[Client, Session]) -> None:
    ask, _ = client
    for path in ("", "state", "card?who=me", "issues", "assets/label.js"):
        assert ask("GET", f"/wrong/{path}")[0] == 403
        assert ask("GET", f"/secret/{path}", {"host": "evil.example"})[0] == 421
        assert ask("GET", f"/secret/{path}", {"host": f"localhost:{PORT}"})[0] == 200
    assert ask("GET", "/")[0] == 404
    assert ask("GET", "/secret/act")[0] == 405


def test_nothing_is_inline_and_nothing_comes_from_elsewhere(client: tuple[Client, Session]) -> None:
    ask, _ = client
    status, page = ask("GET", "/secret/")
    assert status == 200
    policy = ask.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert not re.search(r"<style|style=|\son\w+=|<script(?! src=\"assets/label.js\"></script>)|https?:", page)
    for name in ("base.css", "label.css", "label.js"):
        status, content = ask("GET", f"/secret/assets/{name}")
        assert status == 200
        assert "http" not in content and "innerHTML" not in content
    assert ask("GET", "/secret/assets/report.css")[0] == 404
    assert ask("GET", "/secret/assets/..%2Fpage.html")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[", b"[]", b"[" * 5000, b"1" * 5000, act("0"), act(True), act(90), act(-1), act(0, "", kind="label"),  # type: ignore[arg-type]
        act(0, kind="burn"), act(0, seen="0"), act(0, who="../x"), act(0, who=""), act(0, label=3),
        {"who": "me"},
    ],
)  # fmt: skip
def test_whatever_is_sent_is_one_line_and_writes_nothing(client: tuple[Client, Session], body: Any) -> None:
    ask, session = client
    status, answer = ask("POST", "/secret/act", body=body)
    assert (status, list(answer)) == (400, ["error"])
    assert not session.journal.decisions


def test_the_second_of_two_browsers_is_told(client: tuple[Client, Session]) -> None:
    ask, session = client
    assert ask("POST", "/secret/act", body=act(7))[0] == 200
    status, answer = ask("POST", "/secret/act", body={**act(7, "oak"), "who": "you"})
    assert status == 409
    assert "decided on elsewhere" in answer["error"]
    assert session.labels[7] == "elm"
