"""Reports as plain values: what is said here gets its markup from the templates, and from nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jinja2
from markupsafe import Markup

from condiff import __version__
from condiff.errors import InvalidInputError
from condiff.pages import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VERSIONS = ("condiff", "python", "torch", "numpy", "scipy", "scikit-learn", "machine", "date")
# Short names stay on one line; long ones may break.
_SHORT = 34


@dataclass(frozen=True)
class Code:
    """Words as a computer reads them."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Answer:
    """A model's answer, with the colour of its class where it has one."""

    kind: ClassVar[str] = "answer"
    text: str
    colour: str | None = None


@dataclass(frozen=True)
class Point:
    """A point by its name, or by its text and its picture, which is an address of data."""

    kind: ClassVar[str] = "point"
    text: str
    picture: str = ""


@dataclass(frozen=True)
class Listen:
    """A neighbour that an answer listens to: its share, its name, what it was answered, and whether it has a label."""

    share: str
    name: Point
    before: Answer
    after: Answer | None
    labelled: bool


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of a point."""

    kind: ClassVar[str] = "neighbours"
    items: Sequence[Listen]


@dataclass(frozen=True)
class Column:
    """A column's heading, whether it holds text or numbers, and what it means where that needs saying."""

    title: str
    type: Literal["text", "number"] = "number"
    about: str | None = None


@dataclass(frozen=True)
class Cell:
    """What a cell shows.

    Attributes
    ----------
    content
        What is shown.
    value
        What to sort by; the text itself for None.
    style
        A class of the style sheet.
    aside
        Quieter words behind it.
    shade
        How deep its ground is coloured, from 0 to 1.
    """

    content: str | Code | Answer | Point | Neighbours
    value: float | None = None
    style: str = ""
    aside: str = ""
    shade: float | None = None

    @property
    def is_short(self) -> bool:
        """Whether it should stay on one line."""
        text = self.content.text if isinstance(self.content, Point) else self.content
        return isinstance(text, str) and len(text) <= _SHORT


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str | Code


@dataclass(frozen=True)
class Bullets:
    """A list under a heading."""

    kind: ClassVar[str] = "bullets"
    title: str
    items: Sequence[str | Code]


@dataclass(frozen=True)
class Pairs:
    """A table of names and values."""

    kind: ClassVar[str] = "pairs"
    caption: str
    items: Sequence[tuple[str, str | Code]]


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    Attributes
    ----------
    caption
        What it shows; its first sentence names the table.
    columns, rows
        As many cells in every row as there are columns.
    highlight
        For each row, whether it stands out.
    style
        A class of the style sheet.
    sortable
        Whether the reader may sort it.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    highlight: Sequence[bool] = ()
    style: str = ""
    sortable: bool = True

    @property
    def name(self) -> str:
        """What a screen reader calls it."""
        return self.caption.partition(". ")[0].rstrip(".")


@dataclass(frozen=True)
class Picture:
    """A figure with its caption."""

    kind: ClassVar[str] = "picture"
    title: str
    image: Markup
    caption: str


@dataclass(frozen=True)
class Fold:
    """Blocks that the reader unfolds."""

    kind: ClassVar[str] = "fold"
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Beside:
    """Blocks side by side where there is room."""

    kind: ClassVar[str] = "beside"
    blocks: Sequence[Block]


Block = Text | Bullets | Pairs | Table | Picture | Fold | Beside


@dataclass(frozen=True)
class Card:
    """A figure that matters, with its name and a line about it."""

    name: str
    value: str
    about: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """What a link to it names."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes
    ----------
    title, what, lede
        The heading, a word above and a sentence below it.
    cards, sections
        What it shows.
    """

    title: str
    what: str
    lede: str
    cards: Sequence[Card]
    sections: Sequence[Section]

    def page(self, command: str) -> str:
        """The page, which says that this command made it."""
        return render("report.html", title=f"{self.title} · condiff", report=self, command=command)


def picture(figure: Figure, title: str, about: str, caption: str = "") -> Picture:
    """A figure in a report; see :func:`condiff.pages.canvas.svg`."""
    return Picture(title, canvas.svg(figure, title, about), caption or f"{title}.")


def versions(made: Mapping[str, Any]) -> Pairs:
    """What made a result: the command and the versions."""
    items: list[tuple[str, str | Code]] = [("command", Code(str(made.get("command", "not recorded"))))]
    return Pairs("What made it", items + [(name, str(made[name])) for name in _VERSIONS if name in made])


def settings_code(settings: Mapping[str, Any]) -> Code:
    """Settings as one line of code."""
    return Code(json.dumps(settings, sort_keys=True, ensure_ascii=False) if settings else "none")


def render(template: str, **values: Any) -> str:
    """A page from its template: one file, with its styles, scripts and data inside."""
    try:
        return _templates().get_template(template).render(version=__version__, **values)
    except ValueError as error:  # JSON has no NaN
        raise InvalidInputError(f"the page's data are not JSON values: {error}") from error


@cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("condiff.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    found.globals["asset"] = _asset
    return found


@cache
def _asset(name: str) -> Markup:
    """A style sheet or script of ours, as it is."""
    return Markup(files("condiff.pages").joinpath("assets", name).read_text(encoding="utf-8"))
