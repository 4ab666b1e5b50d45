"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The first example of a test may import torch's parts, which takes seconds on a busy machine.
settings.register_profile("condiff", deadline=None)
settings.load_profile("condiff")


@pytest.fixture
def data_root() -> Path:
    """The folder with the real data sets; tests that need it are skipped without it."""
    if not os.environ.get("CONDIFF_DATA"):
        pytest.skip("needs the real data: set CONDIFF_DATA to the folder that holds it")
    return Path(os.environ["CONDIFF_DATA"])


if os.environ.get("CONDIFF_JITTER"):
    import tests.jitter  # noqa: F401
