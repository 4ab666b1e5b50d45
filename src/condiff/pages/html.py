"""Markup from Python values: text is escaped unless it is markup already, so that no name of a user becomes code."""

from __future__ import annotations

import html
from collections.abc import Iterable


class Html(str):
    """Text that is markup."""

    __slots__ = ()


Content = str | Html | None
_VOID = {"meta", "link", "br", "hr", "input", "col"}


def escape(content: Content) -> Html:
    """The content as markup; None is nothing."""
    if content is None:
        return Html("")
    return content if isinstance(content, Html) else Html(html.escape(str(content), quote=True))


def join(parts: Iterable[Content], between: Content = None) -> Html:
    """Contents one after another."""
    return Html(escape(between).join(escape(part) for part in parts))


def tag(element: str, /, *children: Content, **attributes: str | float | bool | None) -> Html:
    """An element: ``tag("p", "a < b", class_="note")``.

    Attributes lose a trailing underscore, and their others become hyphens. None and False leave an attribute out, True
    gives it no value.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if element in _VOID:
        return Html(f"<{element}{written}>")
    return Html(f"<{element}{written}>{join(children)}</{element}>")


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {key}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {key}="{html.escape(text, quote=True)}"'
