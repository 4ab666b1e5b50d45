import re

import numpy
import torch

from condiff import __version__
from condiff.reproduce.provenance import provenance, provenance_line


def test_it_names_command_versions_and_date() -> None:
    found = provenance("condiff demo")
    assert found["command"] == "condiff demo"
    assert (found["condiff"], found["numpy"]) == (__version__, numpy.__version__)
    assert found["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", found["date"])
    assert found["processor"]
    assert re.fullmatch(r"[0-9a-f]{12}( with changes)?", found.get("commit", "0" * 12))


def test_the_line_holds_the_same() -> None:
    line = provenance_line("make x")
    assert line.startswith("Made by `make x` on ")
    assert f"condiff {__version__}" in line
    assert "\n" not in line
