"""What made a result: command, versions, commit, processor and date, so that a committed figure can be traced."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from condiff import __version__

_CHANGED = " with changes"
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
    found["processor"] = processor()
    if commit := _commit():
        found["commit"] = commit
    return found


@cache
def processor() -> str:
    """What the processor calls itself: another one rounds differently."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(errors="replace").splitlines() if about.is_file() else []
    named = dict(reversed([line.split(":", 1) for line in lines if ":" in line]))
    fields = {name.strip(): value.strip() for name, value in named.items()}
    parts = [fields.get("model name", platform.processor() or "unknown")]
    parts += [f"{name} {fields[key]}" for name, key in (("family", "cpu family"), ("model", "model")) if key in fields]
    return ", ".join(parts)


@cache
def _commit() -> str:
    """The commit of the source tree that this runs from, and whether it was changed since; empty if there is none."""
    folder = Path(__file__).parents[1]

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        call = ["git", "-C", str(folder), *words]
        return subprocess.run(call, capture_output=True, text=True, timeout=10, check=False)

    try:
        if git("ls-files", "--error-unmatch", "__init__.py").returncode:
            return ""
        changed = _CHANGED if git("diff", "--quiet", "HEAD", "--", ".").returncode else ""
        return git("rev-parse", "--short=12", "HEAD").stdout.strip() + changed
    except (OSError, subprocess.SubprocessError):  # no git here
        return ""


def is_traceable(made: Mapping[str, Any]) -> bool:
    """Whether what is stored of a run's making says by what command, commit and processor.

    A commit with changes is none, and a processor that was inferred was not recorded.
    """
    named = all(made.get(name) for name in ("command", "commit", "processor"))
    return named and not str(made["commit"]).endswith(_CHANGED) and "processor_known" not in made


def is_made_by(made: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the code that runs now made a run."""
    return all(made.get(name) == now.get(name) for name in ("condiff", "commit"))


def provenance_line(command: str) -> str:
    """The same as one line of Markdown."""
    found = provenance(command)
    versions = ", ".join(f"{name} {found[name]}" for name in ("condiff", "python", *_PACKAGES))
    return f"Made by `{command}` on {found['date']} ({found['machine']}; {versions})."
