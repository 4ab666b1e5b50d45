"""The column to learn: what it holds, which task that is, and what looks like a mistake in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.readers.cells import (
    MISSING_CELLS,
    NO_VALUE,
    Text,
    as_number,
    date_form,
    is_truth,
    listed,
    read_numbers,
    truth_values,
)
from condiff.readers.columns import Column

Label: TypeAlias = str | int | float | bool
#: What follows a target's name in the names of the columns that ``condiff label`` writes beside it.
RECORD = ("_time", "_before", "_note")
Task: TypeAlias = Literal["classification", "regression"]

MAX_CLASSES = 20


def record_columns(target: str, columns: Collection[str]) -> list[str]:
    """The columns that ``condiff label`` has written beside a target, where all of them are there.

    When each label was given, what was there before, and what was said where there is none: nothing to learn from, and
    what was there before would tell what is there now.
    """
    names = [target + ending for ending in RECORD]
    return names if all(name in columns for name in names) else []


def column_target(column: Column, unlabelled: Collection[str] = ()) -> NDArray[Any] | None:
    """A column as float64 with NaN, or as str/bool objects with None; None for dates.

    Text is read as numbers where all of it is; what stands for no value among numbers is unlabelled. Numbers with
    units are read as such where they are many, and stay classes by their names where they are few.
    """
    if column.kind == "date":
        return None
    if unlabelled and column.kind != "text":
        column = Column(column.name, "text", column.words())
    if column.kind == "number":
        return np.asarray(column.values, dtype=np.float64)
    if column.kind == "boolean":
        return _truths(column.values)
    text = column.values
    if unlabelled:
        text = text.copy()
        text[np.isin(text, np.array(list(unlabelled), dtype=text.dtype))] = ""
    if (text == "").all() or is_truth(text):
        return _truths(truth_values(text)[0])
    found = read_numbers(text)
    if found is not None and not found[0].words:
        form, values, bad = found
        values[bad] = np.inf
        if (not form.unit and form.decimal == ".") or infer_task(values) == "regression":
            return values
    if found is None and _are_dates(text):
        return None
    return np.array([word or None for word in text.tolist()], dtype=object)


def _are_dates(text: Text) -> bool:
    """Whether a column of text holds dates that are moments and not a few periods by name."""
    return date_form(text) is not None and 2 * len(set(text.tolist()) - {""}) > int((text != "").sum())


def array_target(array: NDArray[Any]) -> NDArray[Any] | None:
    """The same of an array; in whole numbers, which cannot be empty, -1 may mean unlabelled."""
    if array.dtype.kind in "Mm":
        return None
    if array.dtype.kind in "US":
        text = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in array.tolist()]
        return np.array([None if v.strip() in MISSING_CELLS else v.strip() for v in text], dtype=object)
    if array.dtype.kind == "b":
        return array.astype(object)
    values = array.astype(np.float64)
    if array.dtype.kind == "i" and values.size and values.min() == -1 and len(np.unique(values)) > 2:
        values[values == -1] = np.nan
    return values


def infer_task(target: NDArray[Any]) -> Task:
    """Guess the task from a target; only labelled rows count.

    Text and booleans are classes. Numbers with any fractional part are a regression target. Whole numbers are
    classes if there are two different ones, or up to 20 with either two labelled rows per value on average or
    values that count 0, 1, 2, ... or 1, 2, 3, ... without a gap; otherwise they are a regression target.
    """
    if target.dtype == object:
        return "classification"
    labelled = target[observed(target)]
    levels = np.unique(labelled)
    if not len(levels) or (levels != np.round(levels)).any():
        return "regression"
    codes = levels[0] in (0, 1) and levels[-1] - levels[0] == len(levels) - 1
    few = len(levels) <= MAX_CLASSES and (len(labelled) >= 2 * len(levels) or codes)
    return "classification" if few or len(levels) <= 2 else "regression"


def encode_classes(target: NDArray[Any], where: str = "the target") -> tuple[NDArray[np.int64], list[Label]]:
    """Class codes, -1 for unlabelled rows, and the sorted classes as plain Python values.

    Parameters
    ----------
    target
        A target.
    where
        How a message names the target, such as ``"target column 'kind' of data.csv"``.
    """
    known = observed(target)
    classes: list[Label]
    if target.dtype == object:
        # Only a hand-made array mixes types; by type first, then by value, any mixture sorts.
        classes = sorted(set(target[known].tolist()), key=lambda v: (type(v).__name__, v))
    else:
        classes = [int(v) if v == int(v) else v for v in np.unique(target[known]).tolist()]
    if classes == [-1]:
        raise InvalidInputError(
            f"{where} is -1 in every row that has a value: if that means that the answer is not known, no row is "
            "labelled; label rows of at least two classes"
        )
    if len(classes) < 2:
        found = f"only one class, {classes[0]!r}" if classes else "no labelled row"
        raise InvalidInputError(f"{where} has {found}: label rows of at least two classes")
    if len(classes) == known.sum() > MAX_CLASSES:
        raise InvalidInputError(
            f"{where} has a class of its own for each of its {len(classes)} labelled rows: choose a column "
            "whose classes have several rows each"
        )
    index = {label: code for code, label in enumerate(classes)}
    codes = np.full(len(target), -1, dtype=np.int64)
    codes[known] = [index[label] for label in target[known].tolist()]
    return codes, classes


def vote_shares(codes: NDArray[np.int64], n_classes: int) -> tuple[NDArray[np.float64], int, int]:
    """Several annotators' labels of the same rows as chances of the classes.

    Parameters
    ----------
    codes
        Class codes, (annotators, rows), -1 where an annotator gave none.
    n_classes
        How many classes there are.

    Returns
    -------
    tuple
        The share of every class in a row's votes, (rows, classes), NaN where there are none; on how many rows with
        two votes or more all agree; and how many such rows there are.
    """
    votes = np.stack([(codes == code).sum(axis=0) for code in range(n_classes)], axis=1).astype(np.float64)
    total = votes.sum(axis=1)
    several = total > 1
    agreed = int((votes.max(axis=1) == total)[several].sum())
    shares = np.full(votes.shape, np.nan)
    shares[total > 0] = votes[total > 0] / total[total > 0, None]
    return shares, agreed, int(several.sum())


def regression_values(target: NDArray[Any], where: str = "the target") -> NDArray[np.float64]:
    """The target as float64, NaN for unlabelled rows; text and booleans are an error that names the row."""
    known = observed(target)
    values = np.full(len(target), np.nan)
    for row in np.flatnonzero(known).tolist():
        number = None if isinstance(target[row], bool) else as_number(str(target[row]))
        if number is None:
            advice = "write a number, empty that cell, or choose classification"
            raise InvalidInputError(f"{where} is not a number in row {row + 1} ({target[row]!r}): {advice}")
        values[row] = number
    if len(np.unique(values[known])) < 2:
        raise InvalidInputError(f"{where} has the same value in every labelled row: there is nothing to learn")
    return values


def class_slips(classes: Sequence[Label], counts: Sequence[int]) -> list[str]:
    """Likely mistakes among the classes, from the number of rows of each: what is wrong and what to do.

    Words for a missing value, spellings that differ only in case, classes of a single row.
    """
    size = dict(zip(classes, counts, strict=True))
    known: list[Label] = [label for label in classes if isinstance(label, str) and label.lower() in NO_VALUE]
    known += [label for label in classes if label == -1 and not isinstance(label, bool) and len(classes) > 2]
    notes = [
        f"{label!r} ({_rows(size[label])}) is learned as a class: if it means that the answer is not known, empty "
        f"those cells or add --unlabelled {label!r}"
        for label in known
    ]
    spellings = defaultdict(list)
    for label in classes:
        if isinstance(label, str):
            spellings[" ".join(label.lower().split())].append(label)
    for same in spellings.values():
        if len(same) > 1:
            shown = " and ".join(f"{label!r} ({_rows(size[label])})" for label in same)
            notes.append(f"{shown} are learned as different classes: spell them the same if they are one")
    single = [str(label) for label in classes if size[label] == 1]
    if len(single) > 3:
        notes.append(
            f"{len(single)} classes have a single labelled row ({listed(single, 3)}), too few to hold one out: the "
            "score does not measure them; label more of their rows"
        )
        return notes
    return notes + [
        f"class {label!r} has a single labelled row, too few to hold one out: the score does not measure it; "
        "label more of its rows"
        for label in single
    ]


def observed(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a target or id array is not missing."""
    if values.dtype == object:
        return np.array([v is not None for v in values], dtype=bool)
    known: NDArray[np.bool_] = ~np.isnan(values)
    return known


def _truths(values: NDArray[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    known = ~np.isnan(values)
    out[known] = [bool(value) for value in values[known].tolist()]
    return out


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"
