"""A user's data as numbers: transformers as scikit-learn has them, saved with the model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["ImageEncoder", "TableEncoder", "TextEncoder", "is_table"]

if TYPE_CHECKING:
    from condiff.encoders.images import ImageEncoder
    from condiff.encoders.table import TableEncoder, is_table
    from condiff.encoders.text import TextEncoder

# scikit-learn and torch take seconds to import; what a table holds is understood without them.
_HOMES = {"ImageEncoder": "images", "TableEncoder": "table", "TextEncoder": "text", "is_table": "table"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"condiff.encoders.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'condiff.encoders' has no attribute {name!r}")
