"""A page as one file: template, styles, scripts and data put together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from condiff import __version__
from condiff.errors import InvalidInputError
from condiff.pages.html import Content, Html, escape, join, tag


@cache
def asset(name: str) -> str:
    """A file of the package's ``pages/assets``."""
    return files("condiff.pages").joinpath("assets").joinpath(name).read_text(encoding="utf-8")


def document(
    title: str,
    body: Content,
    *,
    styles: Sequence[str] = ("base.css",),
    scripts: Sequence[str] = (),
    data: Any = None,
) -> str:
    """The whole page.

    Parameters
    ----------
    title
        Of the window.
    body
        What stands in the body.
    styles, scripts
        Names of assets, in their order.
    data
        JSON values for the scripts, which find them in the element ``data``.
    """
    parts = [tag("script", Html(_script_json(data)), type="application/json", id="data")] if data is not None else []
    parts += [tag("script", Html(asset(name))) for name in scripts]
    return Template(asset("page.html")).substitute(
        title=escape(title),
        generator=escape(f"condiff {__version__}"),
        styles="\n".join(asset(name) for name in styles),
        body=escape(body),
        scripts=join(parts, Html("\n")),
    )


def _script_json(data: Any) -> str:
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise InvalidInputError(f"the page's data are not JSON values: {error}") from error
    # Inside a script only "<" could end the element or open a comment.
    return text.replace("<", "\\u003c")
