"""Fixtures that several folders of tests share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
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


def move_first_weights(share: float) -> None:
    """Let whatever torch draws in place, as it draws first weights, be another by about ``share`` of it.

    As another processor's rounding might, and always the same for the same draw: tests that compare two networks of one
    seed still do. ``.ci/portable`` runs the tests with it.
    """
    for name in ("uniform_", "normal_"):
        setattr(torch.Tensor, name, moved(getattr(torch.Tensor, name), share))


def moved(draw: Callable[..., torch.Tensor], share: float) -> Callable[..., torch.Tensor]:
    @functools.wraps(draw)
    def drawn(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        draw(tensor, *args, **kwargs)
        with torch.no_grad():
            return tensor.mul_(1 + share * torch.cos(1e4 * tensor))

    return drawn


if jitter := os.environ.get("CONDIFF_JITTER"):
    move_first_weights(float(jitter))
