"""What the documentation site adds to Markdown."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml", reason="needs latex2mathml: pip install 'condiff[docs]'")


def test_formulas_become_mathml() -> None:
    path = Path(__file__).parents[1] / "docs" / "mathml.py"
    spec = importlib.util.spec_from_file_location("mathml", path)
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = 'a <span class="arithmatex">\\(u &lt; 1\\)</span> b <div class="arithmatex">\\[\\frac{1}{2}\\]</div>'
    found = hook.on_page_content(page)
    assert found.startswith("a <math") and 'display="inline"' in found and "<mfrac>" in found
    assert 'display="block"' in found and "arithmatex" not in found
