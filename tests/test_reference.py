"""The reference names every public name of the library, and nothing that is not there."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import condiff

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
# Commands, pages and the paper's protocols are told in pages of their own.
ELSEWHERE = ("condiff.cli", "condiff.pages", "condiff.reproduce")


def public_packages() -> list[str]:
    found = pkgutil.walk_packages(condiff.__path__, "condiff.")
    packages = [each.name for each in found if each.ispkg and not each.name.startswith(ELSEWHERE)]
    return ["condiff", *(name for name in packages if hasattr(import_module(name), "__all__"))]


def named() -> list[str]:
    return re.findall(r"^::: (\S+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def resolve(path: str) -> object:
    package, _, name = path.rpartition(".")
    return getattr(import_module(package), name)


@pytest.mark.parametrize("package", public_packages())
def test_every_public_name_is_in_the_reference(package: str) -> None:
    paths = named()
    # A name that condiff itself offers need not stand there once more under the package that it comes from.
    shown = {id(resolve(path)) for path in paths}
    module = import_module(package)
    names = module.__all__
    missing = [name for name in names if f"{package}.{name}" not in paths and id(getattr(module, name)) not in shown]
    assert missing == []


def test_the_reference_names_public_names_once() -> None:
    paths = named()
    assert len(paths) == len(set(paths))
    for path in paths:
        package, _, name = path.rpartition(".")
        assert name in import_module(package).__all__, path


def test_the_library_has_the_packages_that_the_reference_tells_of() -> None:
    assert {"condiff", "condiff.graph", "condiff.distributed", "condiff.theory"} <= set(public_packages())
