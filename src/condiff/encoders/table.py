"""A table of any columns as a matrix of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from condiff.encoders.columns import (
    ColumnNote,
    DroppedColumn,
    EmbeddedColumn,
    ImageColumn,
    LearnedColumn,
    TextColumn,
    folder_of,
    from_dict,
    to_dict,
)
from condiff.encoders.learning import MAX_CELLS, learn_columns, numbers_of, require_columns
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.columns import Columns, as_columns, as_frame, is_cell

SCHEMA = "condiff.columns/2"
# Parameters that name columns.
_NAMES = ("drop", "keep", "categorical", "text", "image")
# Rows whose texts and pictures are kept for pages, letters of a text, and cells of a row that has neither.
_MOST_TEXTS, _MOST_PICTURES, _MOST_LETTERS, _MOST_CELLS = 20_000, 2_000, 140, 4
# Cells of a result above which it is in single precision, and above which it is sparse where that is smaller.
_LARGE, _LARGEST = 1 << 25, MAX_CELLS


@dataclass(frozen=True)
class Block:
    """The features that come from one column: ``start`` to ``stop``, as one-hot levels or as numbers."""

    column: str
    kind: str
    start: int
    stop: int
    one_hot: bool


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
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

    def __init__(
        self,
        *,
        drop: Collection[str] = (),
        keep: Collection[str] = (),
        categorical: Collection[str] = (),
        text: Collection[str] = (),
        image: Collection[str] = (),
        embedding: str = "auto",
    ) -> None:
        self.drop = drop
        self.keep = keep
        self.categorical = categorical
        self.text = text
        self.image = image
        self.embedding = embedding

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

    def _set(self, columns: list[LearnedColumn]) -> Self:
        self._columns = columns
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self.n_features_in_ = len(columns)
        self.blocks_ = []
        start = 0
        for column in self._used:
            stop = start + len(column.feature_names)
            self.blocks_.append(Block(column.name, column.type, start, stop, column.one_hot))
            start = stop
        return self

    @property
    def columns_(self) -> list[LearnedColumn]:
        """What was learned of every column."""
        return list(self._columns)

    @property
    def is_sparse(self) -> bool:
        """Whether :meth:`transform` gives CSR matrices."""
        return self._sparse

    @property
    def embeds(self) -> bool:
        """Whether there are texts or images among the columns."""
        return any(isinstance(column, EmbeddedColumn) for column in self._used)

    @property
    def _used(self) -> list[LearnedColumn]:
        return [column for column in self._columns if not isinstance(column, DroppedColumn)]

    def transform(self, X: Any) -> NDArray[Any] | sp.csr_array:
        """Rows x features, every value finite; columns are found by name, further ones are ignored."""
        check_is_fitted(self)
        table = self._table(X)
        used = self._used
        dtype = np.float32 if self._single else np.float64
        if self._sparse:
            parts = [
                sp.hstack([sp.csr_array(c.encode(rows[c.name], table.source, before)) for c in used])
                for before, rows in table.batches([column.name for column in used])
            ]
            return sp.csr_array(sp.vstack(parts, format="csr"), dtype=dtype)
        out = np.empty((table.n_rows, self.blocks_[-1].stop), dtype)
        for before, rows in table.batches([column.name for column in used]):
            self._fill(out[before : before + len(rows[used[0].name])], rows, table.source, before)
        return out

    def batches(self, X: Any) -> Iterator[tuple[int, NDArray[Any]]]:
        """The same, dense and some rows at a time, each with the number of rows before it."""
        table, names = self._table(X), [column.name for column in self._used]
        for before, rows in table.batches(names):
            out = np.empty((len(rows[names[0]]), self.blocks_[-1].stop), np.float32 if self._single else np.float64)
            self._fill(out, rows, table.source, before)
            yield before, out

    def _fill(self, out: NDArray[Any], rows: Mapping[str, Any], where: str, before: int) -> None:
        for column, block in zip(self._used, self.blocks_, strict=True):
            found = column.encode(rows[column.name], where, before)
            out[:, block.start : block.stop] = found if isinstance(found, np.ndarray) else found.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the features."""
        check_is_fitted(self)
        return np.array([name for column in self._used for name in column.feature_names], dtype=object)

    def describe(self) -> list[ColumnNote]:
        """What became of every column, and why."""
        check_is_fitted(self)
        return [column.note for column in self._columns]

    def notes_at_predict(self, X: Any) -> list[str]:
        """What is unusual about further rows: unseen categories, empty columns, values far outside of what was seen."""
        check_is_fitted(self)
        table = self._table(X)
        notes = []
        for column in self._used:
            values = table.column(column.name)
            if values.missing.all():
                notes.append(f"{column.name!r}: no value in any row")
            else:
                notes += column.remarks(values, table.source)
        return notes

    def _table(self, X: Any) -> Columns:
        table = as_columns(X.table if isinstance(X, EncodedTable) else X)
        require_columns([column.name for column in self._used], table)
        return table

    def to_state(self) -> dict[str, Any]:
        """Everything that :meth:`from_state` needs, as plain JSON values."""
        check_is_fitted(self)
        return {
            "schema": SCHEMA,
            **{name: list(getattr(self, name)) for name in _NAMES},
            "embedding": self.embedding,
            "sparse": self._sparse,
            "single": self._single,
            "columns": [to_dict(column) for column in self._columns],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The encoder that :meth:`to_state` described; anything else is an ``InvalidFileError``."""
        try:
            if state["schema"] != SCHEMA:
                raise InvalidFileError(
                    f"the column encoding is {state['schema']!r}, not {SCHEMA!r}: fit the model again"
                )
            params: dict[str, Any] = {name: list(state.get(name, ())) for name in _NAMES}
            names = [name for each in params.values() for name in each]
            params["embedding"] = str(state.get("embedding", "auto"))
            if not (isinstance(state["sparse"], bool) and isinstance(state["single"], bool)) or not all(
                isinstance(name, str) for name in names
            ):
                raise TypeError("a field has the wrong type")
            columns = [from_dict(column) for column in state["columns"]]
            if all(isinstance(column, DroppedColumn) for column in columns):
                raise TypeError("no column is used")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidFileError):
                raise
            raise InvalidFileError(f"the column encoding is damaged ({error}): fit the model again") from error
        encoder = cls(**params)
        encoder._sparse, encoder._single = state["sparse"], state["single"]
        return encoder._set(columns)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns")


def is_table(X: Any) -> bool:
    """Whether an estimator should encode X: columns of other things than numbers, or missing values.

    Matrices of finite numbers, sparse ones and tensors pass as they are, in data frames too.
    """
    if sp.issparse(X):
        return False
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or X.dtype.kind not in "OUSTMmf":
            return False
        return bool(np.isnan(X).any()) if X.dtype.kind == "f" else X.dtype.kind != "O" or _has_cells(X)
    if isinstance(X, Mapping | EncodedTable) or (hasattr(X, "batches") and hasattr(X, "columns")):
        return True
    if isinstance(X, list | tuple):
        try:
            return is_table(np.array(X, dtype=object))
        except ValueError:
            return False
    frame = as_frame(X)
    if frame is None:
        return False
    if not all(kind.is_numeric() or str(kind) == "Boolean" for kind in frame.schema.values()):
        return True
    return any(column.is_null().any() or _has_nan(column) for column in frame.iter_columns())


def _has_nan(series: Any) -> bool:
    return bool(series.dtype.is_float() and series.is_nan().any())


def _has_cells(X: NDArray[np.object_]) -> bool:
    """Whether an array of objects holds text, dates or gaps, and not just numbers."""
    try:
        return bool(np.isnan(X.astype(np.float64)).any())
    except (TypeError, ValueError):
        return X.size > 0 and all(is_cell(value) for value in X.ravel().tolist())


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table with the encoder that was fitted to it, for an estimator to use instead of one of its own."""

    table: Columns
    encoder: TableEncoder


def encoder_of(X: Any) -> TableEncoder | None:
    """What an estimator that is fitted on X encodes it with: X's own, a new one for a table, None for numbers."""
    if isinstance(X, EncodedTable):
        return X.encoder
    return TableEncoder().fit(X) if is_table(X) else None


def rows_for(model: Any, table: Any) -> Any:
    """What a fitted model reads of a table from a file: the table, its columns as numbers, or the matrix it holds."""
    named = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if (table.matrix is None) != bool(named):
        kind = "the columns of a table" if named else "a matrix of numbers without names (.npz, .npy)"
        raise InvalidInputError(f"{table.source} does not fit the model, which reads {kind}: give such a file")
    if table.matrix is not None or model.encoder_ is not None:
        return table if table.matrix is None else table.matrix
    # Fitted in Python on a data frame of nothing but numbers.
    require_columns(named, table)
    return np.column_stack([numbers_of(table.column(name), table.source) for name in named])


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
