"""Fixtures that the tests of sweeps share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Where jobs leave their marks."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder
