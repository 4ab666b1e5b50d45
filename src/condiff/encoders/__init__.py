"""A user's data as numbers: transformers as scikit-learn has them, saved with the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["TableEncoder", "is_table"]

if TYPE_CHECKING:
    from condiff.encoders.table import TableEncoder, is_table


# scikit-learn takes a second to import; what a table holds is understood without it.
def __getattr__(name: str) -> Any:
    if name in __all__:
        from condiff.encoders import table

        return getattr(table, name)
    raise AttributeError(f"module 'condiff.encoders' has no attribute {name!r}")
