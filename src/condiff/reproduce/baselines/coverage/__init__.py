"""Ways to make prediction sets and intervals from the same few labels."""

from __future__ import annotations

from condiff.reproduce.baselines.coverage.methods import CoverageMethod
from condiff.reproduce.baselines.registry import Registry

#: Name of a method: the module of this package and the class in it.
METHODS: dict[str, tuple[str, str]] = {
    "cross": ("methods", "Cross"),
    "per-class": ("methods", "PerClass"),
    "proved": ("methods", "Proved"),
    "split": ("methods", "SplitConformal"),
}


REGISTRY: Registry[CoverageMethod] = Registry(__name__, METHODS)
