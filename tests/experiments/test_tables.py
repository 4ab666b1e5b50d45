import json
from pathlib import Path

import pytest

from condiff.errors import InvalidInputError
from condiff.experiments.tables import demo_markdown, put_table

ROOT = Path(__file__).parents[2]


def row(method: str, labels: int, mean: float) -> dict[str, object]:
    return {"method": method, "labels_per_class": labels, "mean": mean, "std": 0.25}


def test_the_table_has_a_row_a_method_and_a_column_a_number_of_labels() -> None:
    table = demo_markdown(
        [row("COIN", 1, 91.26), row("COIN", 10, 97.0), row("other", 1, 60.0), row("other", 10, 90.04)]
    )
    assert table.splitlines() == [
        "| labels a class | 1 | 10 |",
        "| --- | --- | --- |",
        "| COIN | 91.3 ± 0.2 | 97.0 ± 0.2 |",
        "| other | 60.0 ± 0.2 | 90.0 ± 0.2 |",
    ]


def test_a_table_replaces_what_stood_in_its_place() -> None:
    document = "before\n<!-- t -->\nold\nolder\n<!-- end of t -->\nafter <!-- end of t -->\n"
    once = put_table(document, "t", "| new |")
    assert once == "before\n<!-- t -->\n\n| new |\n\n<!-- end of t -->\nafter <!-- end of t -->\n"
    assert put_table(once, "t", "| new |") == once


def test_a_document_without_the_place_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no place for the table 't'"):
        put_table("nothing here", "t", "| new |")


def test_the_readme_shows_the_committed_results() -> None:
    rows = json.loads((ROOT / "results/demo/accuracy.json").read_text())
    assert demo_markdown(rows) in (ROOT / "README.md").read_text()
