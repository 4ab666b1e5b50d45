"""A user's data as numbers: transformers as scikit-learn has them, saved with the model."""

from typing import TYPE_CHECKING

from condiff.lazy import names_from

if TYPE_CHECKING:
    from condiff.encoders.encoding import is_table
    from condiff.encoders.images import ImageEncoder
    from condiff.encoders.table import TableEncoder
    from condiff.encoders.text import TextEncoder

__all__ = ["ImageEncoder", "TableEncoder", "TextEncoder", "is_table"]

__getattr__, __dir__ = names_from(
    __name__,
    {"images": ("ImageEncoder",), "encoding": ("is_table",), "table": ("TableEncoder",), "text": ("TextEncoder",)},
)
