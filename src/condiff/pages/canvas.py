"""Figures, drawn once: the same drawing becomes a file beside a table or a part of a page."""

from __future__ import annotations

import colorsys
import hashlib
import io
import re
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from markupsafe import Markup

from condiff.errors import InvalidInputError
from condiff.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable with every common colour vision, in print too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
OURS, HIGHLIGHT = COLOURS[:2]
# Ten classes, told apart as far as ten can be, and visible on light and on dark ground.
_CLASSES = (
    "#3a72d8",
    "#e0781e",
    "#17997a",
    "#c2488f",
    "#8b6fe0",
    "#b38a00",
    "#2a9fc4",
    "#d24d43",
    "#75902a",
    "#93705c",
)
# Hues this far apart never come close to each other.
_GOLDEN_ANGLE = 137.508

#: By suffix, what would make the same picture differ from one day or version to another.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_HINT = "hint: "
# On a page a point of the figure is this many pixels wide: text of 8 points is as large as a caption.
_PIXELS_PER_POINT = 1.45


def class_colours(number: int) -> list[str]:
    """As many colours as there are classes."""
    further = (((40 + _GOLDEN_ANGLE * index) % 360) / 360 for index in range(max(0, number - len(_CLASSES))))
    shades = (colorsys.hls_to_rgb(hue, 0.52, 0.55) for hue in further)
    return [*_CLASSES[:number], *("#" + "".join(f"{round(255 * part):02x}" for part in shade) for shade in shades)]


def plain(text: str) -> str:
    """A name from outside as it is: between two dollars matplotlib would see a formula."""
    return text.replace("$", r"\$")


def panels(
    rows: int, columns: int, size: tuple[float, float], *, grid: Literal["x", "y", "both"] = "y", **share: Any
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with bare axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    if columns > 1:
        figure.set_layout_engine("constrained", wspace=0.04)
    FigureCanvasAgg(figure)
    found: list[list[Axes]] = figure.subplots(rows, columns, squeeze=False, **share).tolist()
    for axes in (axes for row in found for axes in row):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis=grid, color="0.9")
        axes.set_axisbelow(True)
    return figure, found


def bare(axes: Axes) -> None:
    """Leave only what is drawn: no ticks, grid or frame."""
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)


def mark(label: str, **style: Any) -> Artist:
    """A line or marker for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **style)


def patch(label: str, **style: Any) -> Artist:
    """A filled area for a legend."""
    from matplotlib.patches import Patch

    return Patch(label=label, **style)


def legend_below(figure: Figure, handles: Sequence[Artist], columns: int | None = None, fontsize: float = 9) -> None:
    """One legend for all panels, below them."""
    columns = columns or len(handles)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=fontsize)


def hint(artists: Sequence[Artist], text: str) -> None:
    """Give marks a text that a page shows under the mouse."""
    for artist in artists:
        artist.set_gid(_HINT + text)


def save(figure: Figure, target: Path) -> None:
    """Write the whole picture or nothing; the same picture gives the same bytes."""
    import matplotlib

    kind = target.suffix.lstrip(".").lower()
    if kind not in _METADATA:
        raise InvalidInputError(f"a picture is a {', '.join(_METADATA)} file: {target.name} is none of them")
    with matplotlib.rc_context({"svg.hashsalt": "condiff"}), atomic_path(target) as temporary:
        figure.savefig(temporary, format=kind, metadata=_METADATA[kind])


def svg(figure: Figure, title: str, about: str) -> Markup:
    """The figure as a part of a page: its text stays text, and its colours follow the page's.

    Parameters
    ----------
    figure
        What is drawn.
    title, about
        Read out in place of the picture: a few words, and what one sees, with the numbers that matter.
    """
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "condiff", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata=_METADATA["svg"], transparent=True)
    root = ElementTree.fromstring(stream.getvalue())
    # Two pictures of a page must not share ids; the same picture always has the same.
    prefix = "f" + hashlib.sha256(f"{title}{about}{stream.getvalue()}".encode()).hexdigest()[:10]
    _tidy(root)
    _rename(root, prefix)
    width, height = (72 * side for side in figure.get_size_inches())
    described = ElementTree.Element("desc", id=f"{prefix}-about")
    described.text = about
    root.insert(0, described)
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {width:g} {height:g}",
        "role": "img",
        "aria-label": title,
        "aria-describedby": f"{prefix}-about",
        "style": f"--width: {_PIXELS_PER_POINT * width:.0f}px",
    }
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _tidy(root: ElementTree.Element) -> None:
    """Plain names, the page's colours, hints as titles, and nothing that only a file of its own needs."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        if element.tag != "text":
            element.text = (element.text or "").strip()
        element.tail = ""
        for name in list(element.attrib):
            value = element.attrib.pop(name)
            if name == "style":
                value = re.sub(r"#[0-9a-f]{6}\b", lambda found: _themed(found[0]), value)
                value = value if element.tag != "text" else re.sub(r"font-family: [^;]+; ?", "", value)
            elif name in ("d", "x", "y", "transform"):
                value = re.sub(r"(\.\d\d)\d+", r"\1", value).replace("  ", " ")
            element.set(name.rpartition("}")[2], value)
        if element.get("id", "").startswith(_HINT):
            said = ElementTree.Element("title")
            said.text = element.attrib.pop("id").removeprefix(_HINT)
            element.insert(0, said)


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Keep the ids that something refers to, under names that no other picture has."""
    kept: dict[str, str] = {}
    for element in root.iter():
        for name in ("href", "clip-path"):
            if found := re.search(r"#([^)]+)", element.get(name, "")):
                fresh = kept.setdefault(found[1], f"{prefix}-{len(kept)}")
                element.set(name, f"url(#{fresh})" if name == "clip-path" else f"#{fresh}")
    for element in root.iter():
        if (own := element.attrib.pop("id", None)) in kept:
            element.set("id", kept[own])


def _themed(colour: str) -> str:
    """The page's colour for one of a figure's: greys are between its ink and its paper."""
    if colour.upper() in COLOURS:
        return f"var(--series-{COLOURS.index(colour.upper())})"
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    if not red == green == blue:
        return colour
    return f"color-mix(in srgb, var(--ink) {100 - 100 * red / 255:.0f}%, var(--panel))"
