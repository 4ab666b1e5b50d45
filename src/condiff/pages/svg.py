"""A small helper for pictures inside a page: scales with round ticks, axes and marks, as SVG that styles colour."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from condiff.pages.html import Content, Html, join, tag

# A letter of the pictures' type is about this wide, in units of their size of 12.
_LETTER = 6.4


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis.

    Attributes
    ----------
    low, high
        The values at both ends.
    start, stop
        Their places.
    log
        Whether equal ratios are equally far apart.
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    @classmethod
    def around(
        cls, values: Iterable[float], start: float, stop: float, *, log: bool = False, margin: float = 0.05
    ) -> Scale:
        """A scale that holds all these values, with some room at both ends."""
        finite = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = (min(finite), max(finite)) if finite else (1.0, 2.0)
        if log:
            low, high = math.log10(low), math.log10(high)
        room = margin * (high - low) or 0.5 * (abs(high) * 0.1 or 1.0)
        low, high = low - room, high + room
        return cls(10**low, 10**high, start, stop, True) if log else cls(low, high, start, stop)

    def __call__(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = math.log(value) if self.log else value
        return self.start + (at - low) / (high - low) * (self.stop - self.start)

    def holds(self, value: float) -> bool:
        """Whether a value lies between the ends."""
        return self.low <= value <= self.high

    def ticks(self, about: int = 6) -> list[float]:
        """Round values between the ends, about as many as asked."""
        return _log_ticks(self.low, self.high, about) if self.log else _ticks(self.low, self.high, about)


@dataclass
class Picture:
    """A drawing area with margins, to which marks are added.

    Attributes
    ----------
    width, height
        In units of the picture; it is shown as wide as there is room.
    left, top, right, bottom
        Margins for labels.
    """

    width: float
    height: float
    left: float = 60.0
    top: float = 14.0
    right: float = 16.0
    bottom: float = 44.0
    parts: list[Html] = field(default_factory=list)

    @property
    def across(self) -> tuple[float, float]:
        """Left and right end of the drawing area."""
        return self.left, self.width - self.right

    @property
    def upwards(self) -> tuple[float, float]:
        """Bottom and top end of the drawing area."""
        return self.height - self.bottom, self.top

    def add(self, *parts: Html) -> None:
        """Draw these on top of what is there."""
        self.parts += parts

    def horizontal_axis(self, scale: Scale, title: str, *, grid: bool = True, about: int = 7) -> None:
        """An axis at the bottom."""
        bottom, top = self.upwards
        for value in scale.ticks(about):
            x = scale(value)
            if grid:
                self.add(line(x, bottom, x, top, "gridline"))
            self.add(text(x, bottom + 17, tick_text(value), "tick", "middle"))
        self.add(line(self.left, bottom, self.width - self.right, bottom, "axis"))
        self.add(text((self.left + self.width - self.right) / 2, self.height - 6, title, "axis-title", "middle"))

    def vertical_axis(self, scale: Scale, title: str, *, about: int = 6) -> None:
        """An axis at the left."""
        left, right = self.across
        for value in scale.ticks(about):
            y = scale(value)
            self.add(line(left, y, right, y, "gridline"))
            self.add(text(left - 8, y + 4, tick_text(value), "tick", "end"))
        middle = (self.upwards[0] + self.upwards[1]) / 2
        turned = f"rotate(-90 14 {middle:.1f})"
        self.add(tag("text", title, x=14.0, y=middle, class_="axis-title", text_anchor="middle", transform=turned))

    def figure(self, title: str, description: str, caption: Content = None) -> Html:
        """The figure: the title and the description are read out in place of the picture.

        Parameters
        ----------
        title
            A few words.
        description
            What one sees, with the figures that matter.
        caption
            Written below; the title by default.
        """
        # The same picture has the same ids, and two different ones on a page have others.
        digest = hashlib.sha256(join([title, description, *self.parts]).encode()).hexdigest()[:10]
        names = f"title-{digest}", f"about-{digest}"
        picture = tag(
            "svg",
            tag("title", title, id=names[0]),
            tag("desc", description, id=names[1]),
            *self.parts,
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            role="img",
            aria_labelledby=names[0],
            aria_describedby=names[1],
            style=f"max-width: {self.width:g}px",
            xmlns="http://www.w3.org/2000/svg",
        )
        return tag("figure", picture, tag("figcaption", caption or title))


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Html:
    """A straight line."""
    return tag("line", x1=_round(x1), y1=_round(y1), x2=_round(x2), y2=_round(y2), class_=style)


def rectangle(x: float, y: float, width: float, height: float, style: str, hint: str | None = None) -> Html:
    """A rectangle; ``hint`` appears under the mouse."""
    places = {"x": _round(x), "y": _round(y), "width": _round(max(width, 0.0)), "height": _round(max(height, 0.0))}
    return tag("rect", _hint(hint), class_=style, **places)


def circle(x: float, y: float, radius: float, style: str, hint: str | None = None, fill: str | None = None) -> Html:
    """A disc; ``hint`` appears under the mouse."""
    return tag("circle", _hint(hint), cx=_round(x), cy=_round(y), r=radius, class_=style, fill=fill)


def diamond(x: float, y: float, radius: float, style: str, hint: str | None = None) -> Html:
    """A square on its tip."""
    corners = ((x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y))
    return tag("polygon", _hint(hint), points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), class_=style)


def polyline(points: Sequence[tuple[float, float]], style: str, stroke: str | None = None) -> Html:
    """A line through points."""
    return tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=style, stroke=stroke)


def text(x: float, y: float, content: str, style: str | None = None, anchor: str = "start") -> Html:
    """Words."""
    return tag("text", content, x=_round(x), y=_round(y), class_=style, text_anchor=anchor)


def text_width(content: str) -> float:
    """About how wide a text of the pictures' size is."""
    return _LETTER * len(content)


def tick_text(value: float) -> str:
    """A number as short as it can be; small ones without an exponent down to a hundred-thousandth."""
    if value and not 1e-5 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.0f}"


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places for labels at least ``gap`` apart and between the ends, near the wanted ones."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    places = [0.0] * len(wanted)
    edge = low
    for index in order:  # downwards from the first, then back up from the last where it ran out of room
        places[index] = max(wanted[index], edge)
        edge = places[index] + gap
    edge = high
    for index in reversed(order):
        places[index] = min(places[index], edge)
        edge = places[index] - gap
    return places


def _hint(hint: str | None) -> Html | None:
    return None if hint is None else tag("title", hint)


def _round(value: float) -> float:
    return round(value, 1)


def _ticks(low: float, high: float, about: int) -> list[float]:
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    found = []
    while first * step <= high + 1e-9 * step:
        found.append(round(first * step, 12) + 0.0)
        first += 1
    return found


def _log_ticks(low: float, high: float, about: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors if low <= factor * 10.0**power <= high]
        if len(found) <= about + 2:
            break
    every = max(1, math.ceil(len(found) / (about + 2)))
    return found[::every] or [low, high]
