"""What ``condiff fit`` is to learn: a column of labels, several annotators' columns, or columns of chances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.readers.tables import Table
from condiff.readers.targets import Label, encode_classes, infer_task, regression_values, vote_shares

#: The task of giving any number of labels to a row.
SEVERAL = "several labels"
# What ``condiff predict`` writes before the name of a class whose chance it gives.
_CHANCE = "p_"


@dataclass(frozen=True, eq=False)
class Target:
    """The labels of a table.

    Attributes
    ----------
    task
        ``classification``, ``regression`` or :data:`SEVERAL`.
    labels
        Class codes, -1 where there is none; or values, NaN where there is none; or the chance of every class, (rows,
        classes), NaN throughout where nothing is known.
    classes, counts
        The classes, and how many labels each has, or for how many rows it has the largest chance; none for values.
    unlabelled
        Words that mean that there is no label.
    notes
        What else there is to know, in words.
    separator
        What separates the labels of a row that may have several; empty where it has one. Then ``labels`` are 1 where a
        label applies and 0 where it does not, (rows, labels), NaN throughout where nothing is known.
    """

    task: str
    labels: Any
    classes: list[Label]
    counts: list[int]
    unlabelled: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    separator: str = ""

    @classmethod
    def of(cls, table: Table, target: str, unlabelled: Sequence[str] = (), task: str = "auto") -> Target:
        """The labels that a column holds."""
        where = f"target column {target!r} of {table.source}"
        values = table.target(target, unlabelled)
        chosen = infer_task(values) if task == "auto" else task
        if chosen == "regression":
            return cls(chosen, regression_values(values, where), [], [], unlabelled)
        labels, classes = encode_classes(values, where)
        fraction = next((label for label in classes if isinstance(label, float)), None)
        if fraction is not None:
            raise InvalidInputError(f"{where} is continuous ({fraction} is no class): use --task regression")
        return cls(chosen, labels, classes, np.bincount(labels[labels >= 0]).tolist(), unlabelled)

    @classmethod
    def of_several(cls, table: Table, target: str, separator: str, unlabelled: Sequence[str] = ()) -> Target:
        """The labels that the cells of a column hold, any number in each."""
        where = f"target column {target!r} of {table.source}"
        table.require([target], "target column")
        cells = several(table, target, separator, unlabelled)
        if not any(cell and len(cell) > 1 for cell in cells):
            raise InvalidInputError(f"no cell of {where} holds two labels with {separator!r} between them")
        counts = Counter(label for cell in cells for label in cell or ())
        labels = np.full((len(cells), len(counts)), np.nan)
        names = sorted(counts)
        for row, cell in enumerate(cells):
            if cell is not None:
                labels[row] = [name in cell for name in names]
        everywhere = [name for name in names if counts[name] == sum(cell is not None for cell in cells)]
        if everywhere:
            raise InvalidInputError(
                f"every labelled row of {where} has {everywhere[0]!r}: label rows without it ({separator!r} alone is a "
                "row without any), or leave it out"
            )
        return cls(SEVERAL, labels, list(names), [counts[name] for name in names], unlabelled, (), separator)

    @classmethod
    def of_votes(cls, table: Table, columns: Sequence[str], unlabelled: Sequence[str] = ()) -> Target:
        """The shares of several annotators' votes."""
        where = f"the annotators' columns {', '.join(map(repr, columns))} of {table.source}"
        table.require(columns, "annotator's column")
        votes = [_cells(table, name, unlabelled) for name in columns]
        for name, vote in zip(columns, votes, strict=True):
            if vote.dtype != object and (vote % 1 > 0).any():
                raise InvalidInputError(f"annotator's column {name!r} of {table.source} holds values, not classes")
        if any(vote.dtype == object for vote in votes):
            # A column that is empty, or in which somebody wrote only numbers, is one of words like the others.
            votes = [table.column(name).words().astype(object) for name in columns]
            for vote in votes:
                vote[np.isin(vote.astype(str), ["", *unlabelled])] = None
        codes, classes = encode_classes(np.concatenate(votes), where)
        shares, agreed, several = vote_shares(codes.reshape(len(columns), -1), len(classes))
        note = f"{len(columns)} annotators: of {several} rows with two labels or more all agree on {agreed}"
        return cls("classification", shares, classes, _likeliest(shares), unlabelled, (note,))

    @classmethod
    def of_chances(cls, table: Table, columns: Sequence[str], unlabelled: Sequence[str] = ()) -> Target:
        """The chances of the classes that columns are named after."""
        table.require(columns, "column of chances")
        chances = np.stack([_numbers(table, name, unlabelled) for name in columns], axis=1)
        known = ~np.isnan(chances)
        for row in np.flatnonzero(known.any(axis=1)).tolist():
            if not known[row].all():
                empty = columns[int(np.flatnonzero(~known[row])[0])]
                raise InvalidInputError(
                    f"{table.source}: {empty!r} is empty in row {row + 1}, but other chances are not: give all or none"
                )
            total = float(chances[row].sum())
            if chances[row].min() < 0 or abs(total - 1) > 1e-3:
                wrong = "a chance below 0" if chances[row].min() < 0 else f"chances that sum to {total:g}, not 1"
                raise InvalidInputError(f"{table.source}: row {row + 1} has {wrong} ({', '.join(columns)})")
        if not known.any():
            raise InvalidInputError(f"{table.source}: no row has chances in {', '.join(columns)}")
        chances /= chances.sum(axis=1, keepdims=True)
        for name, column in zip(columns, chances.T, strict=True):
            if not np.nanmax(column) > 0:
                raise InvalidInputError(f"{table.source}: {name!r} is 0 in every row: leave it out of --chances")
        stripped = all(name.startswith(_CHANCE) and name != _CHANCE for name in columns)
        classes: list[Label] = [name.removeprefix(_CHANCE) if stripped else name for name in columns]
        return cls("classification", chances, classes, _likeliest(chances), unlabelled)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Rows of which something is known."""
        if self.labels.ndim == 2:
            return np.asarray(~np.isnan(self.labels[:, 0]))
        return np.asarray(self.labels >= 0 if self.classes else np.isfinite(self.labels))

    @property
    def labelled(self) -> dict[str, int]:
        """How many labels there are, of each class."""
        if not self.classes:
            return {"values": int(self.known.sum())}
        return {str(label): count for label, count in zip(self.classes, self.counts, strict=True)}

    def shares(self, chosen: str | dict[str, float] | None) -> dict[str, float] | None:
        """How common each class is, where ``chosen`` says it by a word; by numbers it must name every class."""
        if isinstance(chosen, dict):
            for missing in (str(label) for label in self.classes if str(label) not in chosen):
                raise InvalidInputError(f"--prior lacks the class {missing!r}: give the size or share of every class")
            for name in (name for name, size in chosen.items() if size <= 0):
                raise InvalidInputError(
                    f"--prior is {chosen[name]:g} for {name!r}: a class that has labels has a size above 0"
                )
        if not isinstance(chosen, str):
            return chosen
        sizes = self.counts if chosen == "labels" else [1] * len(self.classes)
        return {str(label): float(size) for label, size in zip(self.classes, sizes, strict=True)}

    def by_code(self, shares: str | dict[str, float] | None) -> Any:
        """Weights by class name as weights by class code."""
        if not isinstance(shares, dict):
            return shares
        codes = {str(label): code for code, label in enumerate(self.classes)}
        for name in shares:
            if self.classes and name not in codes:
                raise InvalidInputError(f"there is no class {name!r}: the classes are {', '.join(map(repr, codes))}")
        return {codes.get(name, -1): share for name, share in shares.items()}


def row_weights(table: Table, column: str, known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """How much each row counts: what a column says, and 1 where it is empty."""
    table.require([column], "column of weights")
    weights = _numbers(table, column)
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise InvalidInputError(
            f"weight column {column!r} of {table.source} is {weights[row]:g} in row {row + 1}: weights are 0 or more"
        )
    weights = np.where(np.isnan(weights), 1.0, weights)
    if not weights[known].any():
        raise InvalidInputError(f"weight column {column!r} of {table.source} is 0 in every labelled row")
    return weights


def several(table: Table, target: str, separator: str, unlabelled: Sequence[str] = ()) -> list[set[str] | None]:
    """The labels in every cell of a column; None where nothing is known, as in an empty one.

    A cell of nothing but the separator is that of a row to which no label applies.
    """
    words = table.column(target).words().tolist()
    return [
        None if word in ("", *unlabelled) else {part.strip() for part in word.split(separator.strip())} - {""}
        for word in words
    ]


def _cells(table: Table, name: str, unlabelled: Sequence[str] = ()) -> NDArray[Any]:
    """A column as numbers or words; it may be empty."""
    values = table.labels(name, unlabelled)
    if values is None:
        raise InvalidInputError(f"column {name!r} of {table.source} holds dates: choose another column")
    return values


def _numbers(table: Table, name: str, unlabelled: Sequence[str] = ()) -> NDArray[np.float64]:
    """A column of finite numbers, NaN where a cell is empty."""
    values = _cells(table, name, unlabelled)
    if values.dtype == object:  # a column of 0 and 1, or of yes and no, is one of truth values
        words = [None if value is None else str(int(value)) if isinstance(value, bool) else value for value in values]
        values = np.array([np.nan if word is None else _number(word) for word in words], np.float64)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise InvalidInputError(
            f"column {name!r} of {table.source} is no number in row {row + 1} ({table.column(name).cell(row)!r})"
        )
    return np.asarray(values, np.float64)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return np.inf


def _likeliest(chances: NDArray[np.float64]) -> list[int]:
    """For how many rows each class has the largest chance."""
    known = chances[~np.isnan(chances[:, 0])]
    return [int(count) for count in np.bincount(known.argmax(axis=1), minlength=chances.shape[1])]
