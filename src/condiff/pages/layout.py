"""The frame of a report: heading, cards with the figures that matter, sections, and what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from condiff import __version__
from condiff.pages.document import document
from condiff.pages.html import Content, Html, join, tag
from condiff.pages.tables import pairs

_VERSIONS = ("condiff", "python", "torch", "numpy", "scipy", "scikit-learn", "machine", "date")


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
    content: Html

    @property
    def anchor(self) -> str:
        """What a link to it names."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


def report_page(
    title: str, kind: str, lede: str, cards: Sequence[Card], sections: Sequence[Section], command: str
) -> str:
    """The whole page.

    Parameters
    ----------
    title, kind, lede
        What it is about: the heading, a word above and a sentence below it.
    cards, sections
        What it shows.
    command
        What made the page.
    """
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections]
    body = join(
        [
            tag("a", "Skip to the results", href="#results", class_="skip"),
            tag(
                "header",
                tag("p", kind, class_="kind"),
                tag("h1", title),
                tag("p", lede, class_="lede"),
                tag("nav", tag("ul", *links), aria_label="Sections"),
            ),
            tag(
                "main",
                tag("ul", *(_card(card) for card in cards), class_="cards", aria_label="Headline") if cards else None,
                *(
                    tag(
                        "section",
                        tag("h2", section.title, id=f"{section.anchor}-title"),
                        section.content,
                        id=section.anchor,
                        aria_labelledby=f"{section.anchor}-title",
                    )
                    for section in sections
                ),
                id="results",
                tabindex="-1",
            ),
            tag("footer", tag("p", "Written by condiff ", __version__, " with ", tag("code", command), ".")),
        ],
        Html("\n"),
    )
    return document(f"{title} · condiff", body, styles=("base.css", "report.css"), scripts=("sort.js",))


def versions(made: Mapping[str, Any]) -> Html:
    """What made a result: command and versions."""
    items: list[tuple[str, Content]] = [("command", tag("code", str(made.get("command", "not recorded"))))]
    items += [(name, str(made[name])) for name in _VERSIONS if name in made]
    return pairs("What made it", items)


def settings_text(settings: Mapping[str, Any]) -> Html:
    """Settings as one line of code."""
    return tag("code", json.dumps(settings, sort_keys=True, ensure_ascii=False) if settings else "none")


def _card(card: Card) -> Html:
    return tag(
        "li",
        tag("span", card.name, class_="name"),
        tag("span", card.value, tag("small", f" {card.unit}") if card.unit else None, class_="value"),
        tag("span", card.about, class_="about") if card.about else None,
    )
