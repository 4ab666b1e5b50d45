"""Moves the first weights of whatever learns by the share in ``CONDIFF_JITTER``: no test's verdict may hang on it.

As another processor's rounding might, and always the same for the same draw: tests that compare two networks of one
seed still do. A number behind a colon (``1e-6:1``) makes it another move. ``.ci/portable`` runs the tests with it; a
process that a test starts imports this module too, where what it learns is compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

import torch

SHARE, SEED = map(float, f"{os.environ.get('CONDIFF_JITTER', 0)}:0".split(":")[:2])


def move(drawn: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return drawn.mul_(1 + SHARE * torch.cos(1e4 * drawn + SEED))


def moved(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return wraps(draw)(lambda tensor, *args, **kwargs: move(draw(tensor, *args, **kwargs)))


def move_compiled_draw() -> None:
    from condiff.kernels import draw

    fill = draw.fill_uniform

    def fill_uniform(out: Any, *args: Any) -> None:
        fill(out, *args)
        move(torch.from_numpy(out))

    fill_uniform.__wrapped__ = fill
    draw.fill_uniform = fill_uniform


if SHARE:
    for name in ("uniform_", "normal_"):
        setattr(torch.Tensor, name, moved(getattr(torch.Tensor, name)))
    with suppress(ModuleNotFoundError):  # without numba nothing is drawn by compiled loops
        move_compiled_draw()
