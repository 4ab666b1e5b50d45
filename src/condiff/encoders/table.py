"""A table of any columns as a matrix of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from condiff.encoders.columns import (
    DroppedColumn,
    ImageColumn,
    LearnedColumn,
    TextColumn,
    folder_of,
)
from condiff.encoders.encoding import EncodedTable, Encoding, is_table
from condiff.encoders.learning import MAX_CELLS, learn_columns
from condiff.errors import InvalidInputError
from condiff.readers.columns import Columns, as_columns

# Rows whose texts and pictures are kept for pages, letters of a text, and cells of a row that has neither.
_MOST_TEXTS, _MOST_PICTURES, _MOST_LETTERS, _MOST_CELLS = 20_000, 2_000, 140, 4
# Cells of a result above which it is in single precision, and above which it is sparse where that is smaller.
_LARGE, _LARGEST = 1 << 25, MAX_CELLS


class TableEncoder(Encoding, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn the columns of a table into numbers, the same way at fitting and at prediction.

    Numbers (also as text, with units and separators) are standardised, heavy tails pulled in; dates become elapsed
    time, season, weekday and hour, whichever vary; categories become one column for each level; missing values are
    filled and flagged; texts and images are embedded; ids and constants are left out. Each input column counts about as
    much as any other in a distance, and so does the strongest direction of a text or an image. :meth:`describe` says
    what became of every column and why.

    Parameters
    ----------
    drop : collection of str, default=()
        Columns to leave out.
    keep : collection of str, default=()
        Columns that must not be taken for ids; a text column among them is one-hot encoded.
    categorical : collection of str, default=()
        Columns whose numbers are names, such as post codes.
    text, image : collection of str, default=()
        Columns that hold texts, and names of image files, even where they do not look like it.
    embedding : str, default="auto"
        What embeds texts: see :class:`TextEncoder`.

    Attributes
    ----------
    blocks_ : list of Block
        Which features come from which column.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from condiff.encoders import TableEncoder
    >>> table = {"price": ["$1,200", "$950", "-", "$700"], "colour": ["red", "blue", "red", "red"]}
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['price', 'colour=red', 'colour=blue']
    >>> print(encoder.describe()[0])
    'price': number in $, standardised (1 missing filled with the median 950; '-' counts as missing)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the encoding.

        Parameters
        ----------
        X : data frame, mapping from names to values, object array, or a table that ``condiff.readers`` read
            All rows, labelled and unlabelled.
        y : ignored
        """
        table = as_columns(X)
        if table.n_rows == 0:
            raise InvalidInputError(f"{table.source} has no rows: at least one is needed")
        return self._learned(learn_columns(table, **self.get_params()), table.n_rows)

    @classmethod
    def of(cls, columns: Iterable[LearnedColumn], n_rows: int, **params: Any) -> Self:
        """The encoder of what :func:`~condiff.encoders.learning.learn_columns` has learned from so many rows."""
        return cls(**params)._learned(list(columns), n_rows)

    def _learned(self, columns: list[LearnedColumn], n_rows: int) -> Self:
        used = [column for column in columns if not isinstance(column, DroppedColumn)]
        words = [isinstance(column, TextColumn) and column.sparse for column in used]
        filled = sum(
            1 if column.one_hot or sparse else len(column.feature_names)
            for column, sparse in zip(used, words, strict=True)
        )
        total = sum(len(column.feature_names) for column in used)
        self._sparse = any(words) or (n_rows * total > _LARGEST and filled < 0.1 * total)
        self._single = n_rows * (filled if self._sparse else total) > _LARGE
        return self._set(columns)

    def transform(self, X: Any) -> NDArray[Any] | sp.csr_array:
        """Rows x features, every value finite; columns are found by name, further ones are ignored."""
        return super().transform(X)

    def _require_learned(self) -> None:
        check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns")


def encoder_of(X: Any) -> Encoding | None:
    """What an estimator that is fitted on X encodes it with: X's own, a new one for a table, None for numbers."""
    if isinstance(X, EncodedTable):
        return X.encoder
    return TableEncoder().fit(X) if is_table(X) else None


def row_looks(table: Columns, columns: Iterable[LearnedColumn]) -> dict[str, list[str]]:
    """What pages show of rows: the beginnings of their texts, and small pictures of their images as addresses of data.

    Of rows that have neither, the first cells. There are none for more rows than a page shows.
    """
    found: dict[str, list[str]] = {}
    used = list(columns)
    texts = [column.name for column in used if isinstance(column, TextColumn)]
    if texts and table.n_rows <= _MOST_TEXTS:
        cells = zip(*(table.column(name).words().tolist() for name in texts), strict=True)
        found["texts"] = [_beginning(" · ".join(filter(None, row))) for row in cells]
    images = [column.name for column in used if isinstance(column, ImageColumn)]
    if images and table.n_rows <= _MOST_PICTURES:
        from condiff.encoders.images import thumbnail

        folder = folder_of(table.source)
        files = table.column(images[0]).words().tolist()
        found["pictures"] = [thumbnail(folder / file) if file else "" for file in files]
    others = [column.name for column in used if not isinstance(column, DroppedColumn)][:_MOST_CELLS]
    if others and not texts and not images and table.n_rows <= _MOST_TEXTS:
        words = [[f"{name} {word}" if word else "" for word in table.column(name).words().tolist()] for name in others]
        found["cells"] = [_beginning(" · ".join(filter(None, row))) for row in zip(*words, strict=True)]
    return found


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MOST_LETTERS else f"{words[:_MOST_LETTERS].rsplit(' ', 1)[0]} …"


def row_names(table: Any, id_column: str | None) -> list[int | str]:
    """The rows' names for output: those of the id column, if the table has it, otherwise 1, 2, 3, ..."""
    if id_column is None or id_column not in table.columns:
        return list(range(1, table.n_rows + 1))
    names: list[int | str] = table.column(id_column).words().tolist()
    return names
