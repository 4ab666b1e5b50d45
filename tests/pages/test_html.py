from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condiff.errors import InvalidInputError
from condiff.pages.document import document
from condiff.pages.html import Html, escape, join, tag
from condiff.pages.tables import Cell, Column, pairs, table


class Reader(HTMLParser):
    """Which elements there are, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


# HTML itself turns other line ends into "\n" and null into nothing.
words = st.text(st.characters(exclude_characters="\x00\r", exclude_categories=["Cs"]))


@given(words)
def test_text_never_becomes_markup(text: str) -> None:
    read = Reader(tag("p", text, title=text))
    assert read.elements == [("p", {"title": text})]
    assert read.text == text


def test_markup_stays_markup() -> None:
    assert tag("p", "a < b ", tag("b", "c"), class_="x y", hidden=True, lang=None, tabindex=0) == (
        '<p class="x y" hidden tabindex="0">a &lt; b <b>c</b></p>'
    )
    assert tag("br") == "<br>"
    assert join(["<", Html("<i></i>")], ", ") == "&lt;, <i></i>"
    assert escape(None) == ""


@given(words)
def test_data_cannot_leave_their_script(text: str) -> None:
    page = document("t", Html("<p>x</p>"), data={"name": text + "</script><!--"})
    start = page.index('id="data">') + len('id="data">')
    inside = page[start : page.index("</script>", start)]
    assert "<" not in inside
    assert json.loads(inside)["name"] == text + "</script><!--"


def test_a_page_is_one_file_without_network() -> None:
    page = document("a < b", Html("<main></main>"), scripts=("sort.js",))
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>a &lt; b</title>" in page
    assert "default-src 'none'" in page
    for element, attributes in Reader(page).elements:
        assert "src" not in attributes, element
        assert attributes.get("href", "data:").startswith("data:")


def test_data_that_are_not_json() -> None:
    with pytest.raises(InvalidInputError, match="not JSON"):
        document("t", None, data=[float("nan")])


def test_tables_name_their_cells() -> None:
    made = table("Two rows. More.", [Column("who", "text"), Column("how <many>")], [[Cell("a"), Cell("1.0", 1.0)]] * 2)
    read = Reader(made)
    assert [a for name, a in read.elements if name == "th" and a.get("scope") == "row"]
    assert ("td", {"class": "number", "data-value": "1.0"}) in read.elements
    assert "how <many>" in read.text
    assert dict(read.elements)["div"]["aria-label"] == "Two rows"
    assert "data-sortable" in dict(read.elements)["table"]
    assert "data-sortable" not in table("One.", [Column("who")], [[Cell("a")]])
    assert '<th scope="row">x</th><td>&lt;y&gt;</td>' in pairs("p", [("x", "<y>")])
