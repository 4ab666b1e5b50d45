"""The page's server: on loopback, behind a secret in the address, deaf to every other origin."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from condiff.errors import CondiffError, InvalidInputError
from condiff.labelling.final import FullFit, FullModel
from condiff.labelling.session import Conflict, Session
from condiff.pages.report import render

HOST = "127.0.0.1"
_ASSETS = {"base.css": "text/css", "label.css": "text/css", "label.js": "text/javascript"}
_KINDS = ("label", "skip", "unsure", "none", "open")
# Bytes of a request at most: a label and a few numbers.
_MOST = 4096
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

Told = Callable[[FullModel], Any]
Handler = Callable[[Request], Awaitable[Response]]


def listen(port: int = 0) -> socket.socket:
    """A socket on loopback, on any free port by default."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen()
    except OSError as error:
        found.close()
        raise InvalidInputError(f"port {port} cannot be had ({error.strerror}): choose another with --port") from error
    return found


def application(
    session: Session, full: FullFit, *, token: str, port: int, title: str, out: Path, told: Told = lambda _: None
) -> Starlette:
    """The page and what it asks for.

    Parameters
    ----------
    session, full
        What is labelled, and what fits a model in the end.
    token
        What every address begins with.
    port
        Where it is served; requests to another host or port are refused, as a name that was pointed at loopback has.
    title
        Of the page.
    out
        Where the labels are written.
    told
        Hears of a model that was fitted.
    """
    hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def guarded(handler: Handler, request: Request) -> Response:
        return await _guarded(handler, request, hosts, token)

    async def page(request: Request) -> Response:
        return Response(render("label.html", title=title, target=session.rows.target), media_type="text/html")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return _said("there is no such file", 404)
        content = files("condiff.pages").joinpath("assets", name).read_bytes()
        return Response(content, media_type=_ASSETS[name])

    async def state(request: Request) -> Response:
        return JSONResponse({**await run_in_threadpool(session.state), "model": full.state()})

    async def card(request: Request) -> Response:
        row, who = request.query_params.get("row", ""), _who(request.query_params.get("who"))
        if row and not (row.isascii() and row.isdigit() and int(row) < len(session.rows)):
            raise InvalidInputError(f"there is no row {row!r}")
        shown = int(row) if row else await run_in_threadpool(session.next_row, who)
        return JSONResponse(None if shown is None else await run_in_threadpool(session.card, shown))

    async def issues(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(session.issues))

    async def act(request: Request) -> Response:
        said = await _content(request)
        row, seen, kind, label = (said.get(name) for name in ("row", "seen", "kind", "label"))
        if type(row) is not int or type(seen) is not int or kind not in _KINDS or not isinstance(label, str):
            raise InvalidInputError("a decision has a row, the last number seen of it, a kind and a label")
        decision = await run_in_threadpool(session.act, _who(said.get("who")), row, seen, kind, label)
        return JSONResponse({"number": decision.number})

    async def undo(request: Request) -> Response:
        decision = await run_in_threadpool(session.undo, _who((await _content(request)).get("who")))
        return JSONResponse({"row": None if decision is None else decision.row})

    async def export(request: Request) -> Response:
        await _content(request)
        labels = await run_in_threadpool(session.export, out)
        return JSONResponse({"labels": labels, "out": str(out)})

    async def fit(request: Request) -> Response:
        await _content(request)
        labels = await run_in_threadpool(session.export, out)
        full.start(told)
        return JSONResponse({"labels": labels, "out": str(out)})

    reads = {"": page, "assets/{name}": asset, "state": state, "card": card, "issues": issues}
    writes = {"act": act, "undo": undo, "export": export, "fit": fit}
    routes = [Route(f"/{{token}}/{path}", partial(guarded, each), methods=["GET"]) for path, each in reads.items()]
    routes += [Route(f"/{{token}}/{path}", partial(guarded, each), methods=["POST"]) for path, each in writes.items()]
    return Starlette(routes=routes)


def serve(
    session: Session,
    full: FullFit,
    found: socket.socket,
    *,
    token: str,
    title: str,
    out: Path,
    ready: Callable[[], Any],
    told: Told = lambda _: None,
) -> None:
    """Answer requests until the process is interrupted; ``ready`` is called once it listens."""
    app = application(session, full, token=token, port=found.getsockname()[1], title=title, out=out, told=told)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
    server = uvicorn.Server(config)
    ready()
    server.run(sockets=[found])


def new_token() -> str:
    """A secret that nobody guesses."""
    return secrets.token_urlsafe(24)


async def _guarded(handler: Handler, request: Request, hosts: set[str], token: str) -> Response:
    """Answer only who knows the secret, asked for this very host, and for changes comes from its own page."""
    host = request.headers.get("host", "")
    if host not in hosts:
        response = _said("this page is served on loopback only", 421)
    elif not secrets.compare_digest(request.path_params["token"].encode(), token.encode()):
        response = _said("the address lacks its secret: use the one that condiff label printed", 403)
    elif request.method != "GET" and not _own(request, host):
        response = _said("changes come from the page itself only", 403)
    else:
        try:
            response = await handler(request)
        except Conflict as error:
            response = _said(str(error), 409)
        except CondiffError as error:
            response = _said(str(error), 400)
    response.headers.update(_HEADERS)
    return response


def _own(request: Request, host: str) -> bool:
    """Whether a request comes from our own page, by what a browser says and no page can change."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    kind = request.headers.get("content-type", "").partition(";")[0]
    return request.headers.get("origin") == f"http://{host}" and site == "same-origin" and kind == "application/json"


async def _content(request: Request) -> dict[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST:
            raise InvalidInputError("the request is too long")

    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("the request is not JSON") from error
    if not isinstance(found, dict):
        raise InvalidInputError("the request is not a JSON object")
    return found


def _who(name: Any) -> str:
    """A browser's name for itself: a few letters and digits."""
    if not isinstance(name, str) or not 0 < len(name) <= 40 or not name.isalnum() or not name.isascii():
        raise InvalidInputError("a request names its browser")
    return name


def _said(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status_code=status)
