"""What commands that learn from a table share: the options that say how to read it, and a table that was read so.

Nothing large is imported here: errors in a file are reported at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from condiff.cli.inputs import EDGES_HELP, id_columns, row_index
from condiff.cli.output import batches_shown
from condiff.encoders.columns import DroppedColumn, ImageColumn, LearnedColumn
from condiff.encoders.embedding import progress_shown
from condiff.encoders.learning import learn_columns
from condiff.readers.cells import TEXT
from condiff.readers.columns import Column, ColumnDict
from condiff.readers.tables import Table
from condiff.readers.targets import record_columns

Names = list[str] | None

Unlabelled = Annotated[Names, typer.Option(metavar="WORD", help="A word in the target that means: not known.")]
Drop = Annotated[Names, typer.Option(metavar="COLUMN", help="Do not learn from this column.")]
Keep = Annotated[Names, typer.Option(metavar="COLUMN", help="Learn from this column even if it looks like an id.")]
Categorical = Annotated[
    Names, typer.Option(metavar="COLUMN", help="Numbers in this column are names, such as zip codes.")
]
Text = Annotated[Names, typer.Option(metavar="COLUMN", help="This column holds texts; most are found by themselves.")]
Image = Annotated[
    Names, typer.Option(metavar="COLUMN", help="This column names image files, relative to the table's folder.")
]
Embedding = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="What reads texts: a sentence model's name or folder; tfidf counts words; auto is all-MiniLM-L6-v2.",
    ),
]
Id = Annotated[Names, typer.Option(metavar="COLUMN", help="This column names the rows; it is not learned from.")]
Edges = Annotated[Path | None, typer.Option(metavar="FILE", help=EDGES_HELP)]


@dataclass(frozen=True)
class Reading:
    """What those options say of the columns."""

    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    categorical: Sequence[str] = ()
    text: Sequence[str] = ()
    image: Sequence[str] = ()
    embedding: str = "auto"
    id: Sequence[str] = ()

    @classmethod
    def of(
        cls, drop: Names, keep: Names, categorical: Names, text: Names, image: Names, embedding: str, id: Names
    ) -> Reading:
        """From the options as they were given, or not."""
        return cls(drop or (), keep or (), categorical or (), text or (), image or (), embedding, id or ())

    @property
    def columns(self) -> dict[str, Any]:
        """What :func:`~condiff.encoders.learning.learn_columns` and the table's encoder are told."""
        return {
            "drop": [*self.drop, *self.id], "keep": list(self.keep), "categorical": list(self.categorical),
            "text": list(self.text), "image": list(self.image), "embedding": self.embedding,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Learnable:
    """A table of which it is known what each column is learned as.

    Attributes
    ----------
    table, target
        The rows, and the column to learn.
    columns
        What the encoder is told of the other columns.
    learned
        What becomes of them; empty for a matrix of numbers.
    ids
        The columns that name the rows.
    adjacency
        The edges between them; None where none are given.
    notes
        What else there is to know, in words.
    """

    table: Table
    target: str
    columns: dict[str, Any]
    learned: list[LearnedColumn]
    ids: list[str]
    adjacency: Any = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, target: str, reading: Reading, edges: Path | None = None) -> Learnable:
        """Find out what each column holds; texts and images are embedded."""
        columns = reading.columns
        notes: tuple[str, ...] = ()
        columns["drop"] = [target] * (target in table.columns) + columns["drop"]
        record = [
            name for name in record_columns(target, table.columns) if name not in (*columns["drop"], *columns["keep"])
        ]
        if record:
            columns["drop"] += record
            notes = (f"not learned from, because condiff label wrote them: {', '.join(record)}",)
        with progress_shown(batches_shown):
            learned = [] if table.matrix is not None else learn_columns(table, needed=edges is None, **columns)
        # The name of an image's file names its row as well.
        used = [column.name for column in learned if not isinstance(column, DroppedColumn | ImageColumn)]
        names = [column.name for column in learned if column.note.kind in ("code", "image")]
        ids = id_columns(table, reading.id, [*used, target, *reading.drop], names)
        adjacency = None
        if edges is not None:
            from condiff.readers.graph_file import read_links

            adjacency = read_links(edges, row_index(table, ids), Path(table.source).name)
        return cls(table, target, columns, learned, ids, adjacency, notes)

    @property
    def encoded(self) -> bool:
        """Whether the columns are encoded; a matrix of numbers is learned from as it is."""
        return any(not isinstance(column, DroppedColumn) for column in self.learned)

    @property
    def encoder(self) -> Any:
        """What turns the columns into numbers."""
        from condiff.encoders.table import TableEncoder

        return TableEncoder.of(self.learned, self.table.n_rows, **self.columns)

    def filled(self, words: Sequence[str]) -> Learnable:
        """The same with other labels, "" where nothing is known; nothing else is read anew."""
        table = self.table
        named = {name: table.column(name) for name in table.columns if name != self.target}
        named[self.target] = Column(self.target, "text", np.array(list(words), dtype=TEXT))
        beside = {name: array for name, array in table.named.items() if name != self.target}
        content = ColumnDict(named, table.n_rows, table.source)
        return replace(self, table=replace(table, content=content, named=beside))
