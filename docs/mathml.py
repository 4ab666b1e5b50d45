"""Formulas of the site as MathML, which browsers show by themselves: no script, and no network."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """A hook of mkdocs: turn what arithmatex marked as a formula into MathML."""
    return _FORMULA.sub(lambda found: _mathml(found[2], "block" if found[1] == "div" else "inline"), content)


def _mathml(marked: str, display: str) -> str:
    # Marked as \(...\) or \[...\].
    latex = html.unescape(marked).strip()[2:-2].strip()
    return str(convert(latex, display=display))
