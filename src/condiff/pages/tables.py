"""Tables that a reader can sort by mouse and keyboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from condiff.pages.html import Content, Html, join, tag

_SHORT = 34


@dataclass(frozen=True)
class Column:
    """A column's heading, whether it holds text or numbers, and what it means where that needs saying."""

    title: str
    kind: Literal["text", "number"] = "number"
    about: str | None = None


@dataclass(frozen=True)
class Cell:
    """What is shown, the value to sort by (the text itself for None), and a class for its style."""

    content: Content
    value: float | None = None
    style: str | None = None


def table(
    caption: Content,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    sortable: bool = True,
    highlight: Sequence[bool] = (),
) -> Html:
    """A table whose first column names the rows.

    Parameters
    ----------
    caption
        What it shows.
    columns, rows
        As many cells in every row as there are columns.
    sortable
        Whether a script may sort it.
    highlight
        For each row, whether it stands out.
    """
    heads = [
        tag("th", column.title, scope="col", class_=column.kind, data_kind=column.kind, title=column.about)
        for column in columns
    ]
    marked = list(highlight) + [False] * (len(rows) - len(highlight))
    body = [
        tag("tr", *(_cell(cell, columns[at], at) for at, cell in enumerate(row)), class_="highlight" if mark else None)
        for row, mark in zip(rows, marked, strict=True)
    ]
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", join(body, Html("\n"))),
        data_sortable=sortable and len(rows) > 1,
    )
    # A wide table scrolls by itself; focusable, so that the arrow keys can do it.
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=_plain(caption))


def pairs(caption: Content, items: Sequence[tuple[str, Content]]) -> Html:
    """A table of names and values."""
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in items]
    return tag("div", tag("table", tag("caption", caption), tag("tbody", *rows)), class_="pairs")


def _cell(cell: Cell, column: Column, at: int) -> Html:
    # Short names stay on one line; long ones may break.
    short = at == 0 and not isinstance(cell.content, Html) and len(cell.content or "") <= _SHORT
    style = " ".join(filter(None, (column.kind, cell.style, "short" if short else None)))
    value = None if cell.value is None else repr(float(cell.value))
    if at == 0:
        return tag("th", cell.content, scope="row", class_=style, data_value=value)
    return tag("td", cell.content, class_=style, data_value=value)


def _plain(caption: Content) -> str:
    return str(caption).split(".")[0] if not isinstance(caption, Html) else "table"
