"""Names of users never become code, and a page is one file."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condiff.errors import InvalidInputError
from condiff.pages import report
from condiff.pages.canvas import hint, panels, plain
from condiff.pages.report import (
    Answer,
    Beside,
    Block,
    Bullets,
    Card,
    Cell,
    Code,
    Column,
    Fold,
    Listen,
    Neighbours,
    Pairs,
    Report,
    Section,
    Table,
    Text,
    picture,
    render,
    settings_code,
    versions,
)


class Reader(HTMLParser):
    """Which elements there are, and all text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.silent = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.silent = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self.silent else data


def page_of(*blocks: Block, name: str = "x") -> Reader:
    return Reader(Report(name, name, name, [Card(name, name, name, name)], [Section(name, blocks)]).page(name))


def every_block(name: str) -> list[Block]:
    """Each kind of block, with a user's name in every place that takes a text."""
    answer = Answer(name, "#112233")
    cells = [Cell(name, style="best", aside=name), Cell(answer, 1.0), Cell(Code(name)), Cell(name, shade=0.5)]
    cells.append(Cell(Neighbours([Listen(name, name, answer, answer, True), Listen(name, name, answer, None, False)])))
    columns = [Column(name, "text", name), *(Column(name) for _ in cells[1:])]
    inner = [Text(name), Bullets(name, [name, Code(name)]), Pairs(name, [(name, name), (name, Code(name))])]
    return [
        Table(name, columns, [cells, cells], [True, False]),
        Fold(name, inner),
        Beside(inner),
        versions({"torch": name}),
    ]


# HTML itself turns other line ends into "\n" and null into nothing.
words = st.text(st.characters(exclude_characters="\x00\r", exclude_categories=["Cs"]), min_size=1)
HOSTILE = (
    "</p><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
    "'; --><!--",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_shown_as_it_is_in_every_place(name: str) -> None:
    tame, wild = page_of(*every_block("x")), page_of(*every_block(name), name=name)
    assert [tag for tag, _ in wild.elements] == [tag for tag, _ in tame.elements]
    assert [set(attributes) for _, attributes in wild.elements] == [set(attributes) for _, attributes in tame.elements]
    assert wild.text.count(name) == tame.text.count("x") - tame.text.replace("condiff", "").count("text")
    assert settings_code({name: 1}).text == json.dumps({name: 1}, ensure_ascii=False)


@given(words)
def test_text_never_becomes_markup(text: str) -> None:
    read = page_of(Text(text), Table(text, [Column(text, about=text)], [[Cell(text)]]))
    assert [tag for tag, _ in read.elements].count("p") == 4
    assert text in read.text
    assert ("title", text) in [item for tag, found in read.elements if tag == "th" for item in found.items()]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_in_a_picture_is_text(name: str) -> None:
    figure, [[axes]] = panels(1, 1, (3, 2))
    axes.set_title(plain(name))
    hint(axes.plot([0, 1], [0, 1]), name)
    read = page_of(picture(figure, name, name, name))
    assert "script" not in [tag for tag, _ in read.elements][:-1]
    assert not any(key.startswith("on") for _, found in read.elements for key in found)
    assert read.text.count(name) == 4  # title, hint, description, caption


@given(words)
def test_data_cannot_leave_their_script(text: str) -> None:
    values = {"title": "t", "command": "c", "brushes": [], "edges": 0, "labels": 0}
    scene = {"name": "s", "n_points": 0, "truth": None}
    page = render("explorer.html", **values, scene=scene, data={"name": text + "</script><!--"})
    start = page.index('id="data">') + len('id="data">')
    inside = page[start : page.index("</script>", start)]
    assert "<" not in inside
    assert json.loads(inside)["name"] == text + "</script><!--"
    with pytest.raises(InvalidInputError, match="not JSON"):
        render("explorer.html", **values, scene=scene, data=[float("nan")])


def test_a_page_is_one_file_without_network() -> None:
    page = Report("a < b", "x", "y", [], []).page("condiff report")
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>a &lt; b · condiff</title>" in page
    assert "default-src 'none'" in page
    for element, attributes in Reader(page).elements:
        assert "src" not in attributes, element
        assert attributes.get("href", "data:").startswith(("data:", "#"))


def test_tables_name_their_cells() -> None:
    columns = [Column("who", "text"), Column("how <many>")]
    read = page_of(Table("Two rows. More.", columns, [[Cell("a"), Cell("1.0", 1.0)]] * 2))
    assert ("td", {"class": "number", "data-value": "1.0"}) in read.elements
    assert [a for name, a in read.elements if name == "th" and a.get("scope") == "row"]
    assert "how <many>" in read.text
    assert dict(read.elements)["div"]["aria-label"] == "Two rows"
    assert "data-sortable" in dict(read.elements)["table"]
    assert "data-sortable" not in dict(page_of(Table("One.", [Column("who")], [[Cell("a")]])).elements)["table"]


def test_a_template_that_lacks_a_value_says_so() -> None:
    with pytest.raises(report.jinja2.UndefinedError, match="report"):
        render("report.html", title="x")
