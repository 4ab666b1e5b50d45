"""Tables of measured rows, as Markdown, and their place in a document."""

from __future__ import annotations

import re
from typing import Any

from condiff.errors import InvalidInputError


def demo_markdown(rows: list[dict[str, Any]]) -> str:
    """The demo's accuracies: a row a method, a column a number of labels."""
    labels = sorted({row["labels_per_class"] for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["method"], row["labels_per_class"]): f"{row['mean']:.1f} ± {row['std']:.1f}" for row in rows}
    lines = [
        "| labels a class | " + " | ".join(str(number) for number in labels) + " |",
        "| --- |" + " --- |" * len(labels),
    ]
    lines += [f"| {method} | " + " | ".join(cells[method, number] for number in labels) + " |" for method in methods]
    return "\n".join(lines)


def put_table(document: str, name: str, table: str) -> str:
    """The document with the table between the comments ``<!-- name -->`` and ``<!-- end of name -->``."""
    pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end of {re.escape(name)} -->)", re.DOTALL)
    if not pattern.search(document):
        raise InvalidInputError(f"the document has no place for the table {name!r}: add its two comments")
    return pattern.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", document)
