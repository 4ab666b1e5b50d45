"""What made a result: command, versions, machine and date, so that a committed figure can be traced."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from condiff import __version__

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")


def provenance(command: str) -> dict[str, str]:
    """Plain values to be stored beside a result."""
    found = {"command": command, "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "condiff": __version__}
    found["python"] = platform.python_version()
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # installed without metadata, as from a source tree
            found[package] = "unknown"
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    return found


def provenance_line(command: str) -> str:
    """The same as one line of Markdown."""
    found = provenance(command)
    versions = ", ".join(f"{name} {found[name]}" for name in ("condiff", "python", *_PACKAGES))
    return f"Made by `{command}` on {found['date']} ({found['machine']}; {versions})."
