"""Colours of classes."""

from __future__ import annotations

# Told apart with common colour vision deficiencies as far as ten can be, and visible on light and on dark ground.
_FIRST = ("#3a72d8", "#e0781e", "#17997a", "#c2488f", "#8b6fe0", "#b38a00", "#2a9fc4", "#d24d43", "#75902a", "#93705c")
# Hues this far apart never come close to each other.
_GOLDEN_ANGLE = 137.508


def colours(number: int) -> list[str]:
    """As many colours as there are classes."""
    further = [
        f"hsl({(40 + _GOLDEN_ANGLE * index) % 360:.0f} 55% 52%)" for index in range(max(0, number - len(_FIRST)))
    ]
    return [*_FIRST[:number], *further]
