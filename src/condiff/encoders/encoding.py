"""What is known of the columns of a table, and the same rows as numbers: without scikit-learn, as answers need it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.encoders.columns import (
    ColumnNote,
    DroppedColumn,
    EmbeddedColumn,
    LearnedColumn,
    from_dict,
    rows_text,
    to_dict,
)
from condiff.encoders.learning import numbers_of, require_columns
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.columns import Columns, as_columns, as_frame, is_cell

SCHEMA = "condiff.columns/2"
# Parameters that name columns.
_NAMES = ("drop", "keep", "categorical", "text", "image")


@dataclass(frozen=True)
class Block:
    """The features that come from one column: ``start`` to ``stop``, as one-hot levels or as numbers."""

    column: str
    kind: str
    start: int
    stop: int
    one_hot: bool


class Encoding:
    """What :class:`condiff.encoders.TableEncoder` has learned, which that adds the learning to.

    Parameters
    ----------
    drop, keep, categorical, text, image, embedding
        As there.
    """

    _columns: list[LearnedColumn]
    _sparse: bool
    _single: bool
    blocks_: list[Block]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

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

    def _require_learned(self) -> None:
        """Nothing: it was made of what has been learned."""

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
        self._require_learned()
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

    def blank_row(self) -> NDArray[Any] | sp.csr_array:
        """What a row becomes in which every cell that is read is empty, (1, features)."""
        return self.transform({column.name: [""] for column in self._used})

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
        self._require_learned()
        return np.array([name for column in self._used for name in column.feature_names], dtype=object)

    def describe(self) -> list[ColumnNote]:
        """What became of every column, and why."""
        self._require_learned()
        return [column.note for column in self._columns]

    def notes_at_predict(self, X: Any) -> list[str]:
        """What is unusual about further rows: unseen categories, empty columns, values far outside of what was seen."""
        self._require_learned()
        table = self._table(X)
        notes = []
        for column in self._used:
            values = table.column(column.name)
            if values.missing.all():
                notes.append(f"{column.name!r}: no value in any row")
            else:
                notes += column.remarks(values, table.source)
        if self.embeds:
            blank = int(np.logical_and.reduce([table.column(column.name).missing for column in self._used]).sum())
            if blank:
                notes.append(f"{rows_text(blank)} without anything to go by: answered as the rows are on average")
        return notes

    def _table(self, X: Any) -> Columns:
        table = as_columns(X.table if isinstance(X, EncodedTable) else X)
        require_columns([column.name for column in self._used], table)
        return table

    def to_state(self) -> dict[str, Any]:
        """Everything that :meth:`from_state` needs, as plain JSON values."""
        self._require_learned()
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
    encoder: Encoding


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
