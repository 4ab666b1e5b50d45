"""What becomes of a column, by an example of each kind: the table of the documentation, made by the encoder itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from condiff.encoders.learning import learn_columns
from condiff.readers.columns import as_columns

_ROWS = 40
#: Cells of a column, repeated to forty rows; the first ones are shown.
EXAMPLES: dict[str, Sequence[Any]] = {
    "numbers": ["17.5", "3", "12.25", "8"],
    "numbers with gaps": ["17.5", "", "n/a", "8", "-", "3.5", "11"],
    "heavy tails": ["1", "2", "3", "2", "900000"],
    "money": ["$125.73", "$1,200", "$89.99"],
    "decimal commas": ["1.234,50 €", "99,95 €", "7 €"],
    "bounds": ["0.7", "<0.5", "1.2", "3.4"],
    "shares": ["13 %", "7 %", "25.5 %"],
    "a few words among numbers": [*[str(number % 9) for number in range(39)], "high"],
    "many words among numbers": ["1", "2", "3", "4", "A"],
    "true and false": ["TRUE", "FALSE", ""],
    "dates": ["2024-01-31", "2024-06-15", "2024-11-02"],
    "dates with the day first": [f"{1 + day % 31:02}/01/2020" for day in range(40)],
    "dates either way": ["01/02/2020", "03/04/2021", "05/06/2022"],
    "dates in words": ["31 Jan 2020", "1 Feb 2020", "15 Feb 2020"],
    "months": ["2024-01", "2024-05", "2024-09"],
    "times": ["08:15", "13:40", "22:05"],
    "words": ["red", "blue", "red", "green"],
    "words with gaps": ["red", "", "blue"],
    "rare words": ["a", "b", *["a", "b"] * 18, "x", "y"],
    "an id": [f"p{number:03}" for number in range(40)],
    "row numbers": list(range(1, 41)),
    "codes": [f"K-{number * 37:04}" for number in range(40)],
    "free text": [f"visit number {number} went quite well" for number in range(40)],
    "image files": [f"photos/{number}.jpg" for number in range(40)],
    "one value": ["cm"],
    "nothing": [""],
}


def columns_markdown() -> str:
    """A line for each kind of column: what it looks like, what it is taken for, what the model sees, and why."""
    lines = ["| such as | is taken for | becomes | because |", "| --- | --- | --- | --- |"]
    for name, cells in EXAMPLES.items():
        values = [cells[row % len(cells)] for row in range(_ROWS)]
        called = "patient_id" if name == "an id" else "column"
        table = as_columns({called: values})
        note = learn_columns(table, needed=False, embedding="tfidf")[0].note
        different = list(dict.fromkeys(values))
        few = different if len(different) <= 3 else [*different[:2], different[-1]]
        shown = ", ".join(f"`{value}`" if value != "" else "(empty)" for value in few)
        where = " in a column called `patient_id`" if name == "an id" else ""
        cells_of = (shown + where, note.kind, note.becomes, note.why)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells_of) + " |")
    return "\n".join(lines)
