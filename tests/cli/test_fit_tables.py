"""condiff fit on tables as people have them."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Run, write_rows

from condiff import load


def german(rows: int = 120) -> str:
    """A semicolon table with decimal commas, dates with the day first, units, strays and an umlaut."""
    rng = np.random.default_rng(0)
    lines = ["Kunde;Umsatz;Seit;Rabatt;Ort;Klasse"]
    for i in range(rows):
        k = i % 3
        pay = f"{1000 * k + rng.normal(0, 90):.2f}".replace(".", ",")
        off = "-" if i % 17 == 5 else f"{10 * k + i % 4} %"
        place = ["Köln", "Bonn", "Aachen"][k]
        kind = ["gut", "mittel", "schlecht"][k] if i < 45 else ""
        lines.append(f"K{i:03};{pay};{1 + i % 28:02}.03.20{10 + k};{off};{place};{kind}")
    return "\n".join(lines) + "\n"


def test_a_table_as_it_comes_out_of_a_german_office(condiff: Run, tmp_path: Path) -> None:
    (tmp_path / "kunden.csv").write_bytes(german().encode("latin-1"))
    result = condiff("fit", tmp_path / "kunden.csv", "--target", "Klasse", "--out", tmp_path / "model")
    assert (result.code, result.err) == (0, "")
    for part in (
        "read as Latin-1 (Windows-1252)",
        "semicolons separate the cells",
        "'Umsatz': number, standardised (decimal comma)",
        "'Seit': date, days since 2010-03-01",
        "'Rabatt': number in %, standardised",
        "cells such as '-' count as missing",
        "'Ort': category, 3 levels one-hot",
        "'Kunde' names the rows in the answers",
        "100.0 % accuracy",
    ):
        assert part in result.out
    assert load(tmp_path / "model").transduction_.tolist() == ["gut", "mittel", "schlecht"] * 40


@pytest.mark.parametrize("suffix", ["tsv", "txt", "csv.gz", "zip", "json", "jsonl", "xlsx", "parquet", "feather"])
def test_every_kind_of_file(condiff: Run, flowers: Path, suffix: str) -> None:
    import gzip
    import zipfile

    frame = pd.read_csv(flowers, keep_default_na=True)
    table = flowers.with_name(f"t.{suffix}")
    if suffix in ("tsv", "txt"):
        frame.to_csv(table, sep="\t", index=False)
    elif suffix == "csv.gz":
        table.write_bytes(gzip.compress(flowers.read_bytes()))
    elif suffix == "zip":
        with zipfile.ZipFile(table, "w") as archive:
            archive.write(flowers, "flowers.csv")
    elif suffix in ("json", "jsonl"):
        frame.to_json(table, orient="records", lines=suffix == "jsonl")
    elif suffix == "xlsx":
        frame.to_excel(table, index=False)
    else:
        getattr(frame, f"to_{suffix}")(table)
    out = flowers.with_name("model")
    result = condiff("fit", table, "--target", "species", "--out", out, "--layers", 5)
    assert (result.code, result.err) == (0, "")
    assert condiff("fit", flowers, "--target", "species", "--out", flowers.with_name("csv"), "--layers", 5).code == 0
    assert (load(out).transduction_ == load(flowers.with_name("csv")).transduction_).all()


def test_slips_in_the_target_are_pointed_out(condiff: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds = ["Yes", "No "] * 15 + ["yes", "?", "?", "unknown", "maybe"] + [""] * 30
    rows: list[dict[str, object]] = [{"x": rng.normal(), "y": rng.normal(), "kind": kind} for kind in kinds]
    table = write_rows(tmp_path / "t.csv", rows)
    result = condiff("fit", table, "--target", "kind", "--out", tmp_path / "model")
    assert result.code == 0
    for part in (
        "'?' (2 rows) is learned as a class",
        "--unlabelled 'unknown'",
        "'Yes' (15 rows) and 'yes' (1 row) are learned as different classes",
        "class 'maybe' has a single labelled row",
        "No 15",
    ):
        assert part in result.out
    options = ["--unlabelled", "?", "--unlabelled", "unknown", "--json"]
    [summary] = json.loads(condiff("fit", table, "--target", "kind", "--out", tmp_path / "two", *options).out)
    assert set(summary["labelled"]) == {"Yes", "No", "yes", "maybe"}


def test_labels_that_are_all_minus_one(condiff: Run, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "t.csv", [{"x": i / 7, "kind": -1} for i in range(20)])
    condiff("fit", table, "--target", "kind", "--out", tmp_path / "m").assert_failed(
        "is -1 in every row", "no row is labelled"
    )


def test_infinity_is_an_error_that_names_its_row(condiff: Run, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "t.csv", [{"x": "inf" if i == 6 else i / 7, "kind": i % 2} for i in range(20)])
    failed = condiff("fit", table, "--target", "kind", "--out", tmp_path / "m")
    failed.assert_failed("column 'x', row 7: 'inf' is infinite: fix the cell or leave it empty")


# ---- awkward files, as people have them ---------------------------------------------------------------------------


def plain_rows(**more: list[object]) -> str:
    """A table of thirty rows as CSV, with further columns."""
    columns = {"x": [row * 7 % 11 + 5 * (row % 2) for row in range(30)], "kind": ["a", "b"] * 15, **more}
    return "\n".join(",".join(map(str, row)) for row in [list(columns), *zip(*columns.values(), strict=True)]) + "\n"


def split_json() -> bytes:
    header, *rows = [line.split(",") for line in plain_rows().splitlines()]
    return json.dumps({"columns": header, "index": list(range(30)), "data": rows}).encode()


def zipped(name: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, plain_rows())
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("utf16.csv", plain_rows().encode("utf-16-le"), "read as UTF-16"),
        ("utf16.csv", plain_rows().encode("utf-16-be"), "read as UTF-16"),
        ("remarks.csv", b"# from the lab\n# in 2024\n" + plain_rows().encode(), "2 lines of remarks left out"),
        ("hash.csv", plain_rows().replace("x,", "#x,", 1).encode(), "'#x': number"),
        ("cut.csv", plain_rows().replace("\n", ",\n").replace(",\n", "\n", 1).encode(), "30 rows"),
        ("table", plain_rows().encode(), "30 rows"),
        ("table.zip", zipped("table"), "30 rows"),
        ("split.json", split_json(), "30 rows"),
        ("old.csv", plain_rows().replace("\n", "\r").encode(), "30 rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_programs_write(condiff: Run, tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = condiff("fit", tmp_path / name, "--target", "kind", "--out", tmp_path / "model", "--layers", 1)
    assert (result.code, result.err) == (0, "")
    assert said in result.out


@pytest.mark.parametrize(
    ("name", "cells", "said"),
    [
        ("quarters", [f"{2019 + i // 4}Q{i % 4 + 1}" for i in range(30)], "date, days since 2019-01-01, season"),
        ("weeks", [f"2024-W{i + 1:02}" for i in range(30)], "date, days since 2024-01-01, season"),
        ("post_code", [f"0{1000 + i % 5}" for i in range(30)], "leading zeros are lost; if these are codes"),
        ("telephone", [f"+49 30 {i * 977:06}" for i in range(30)], "code, left out (nearly every value is different)"),
        ("note", [f"patient {i} felt well" for i in range(30)], "text, TF-IDF of 23 words"),
        ("photo", [f"photos/{i}.jpg" for i in range(30)], "there is no file 'photos/0.jpg'"),
    ],
)
def test_columns_that_people_have(condiff: Run, tmp_path: Path, name: str, cells: list[object], said: str) -> None:
    (tmp_path / "t.csv").write_text(plain_rows(**{name: cells}))
    result = condiff("fit", tmp_path / "t.csv", "--target", "kind", "--out", tmp_path / "model", "--layers", 1)
    assert f"'{name}': " in result.out
    assert said in result.out


@pytest.mark.parametrize(
    ("content", "target", "parts"),
    [
        (plain_rows(day=[f"2024-01-{i + 1:02}" for i in range(30)]), "day", ["holds dates"]),
        (
            plain_rows(who=[f"user {i}" for i in range(30)]),
            "who",
            ["a class of its own for each of its 30 labelled"],
        ),
        (plain_rows().partition("\n")[2].replace("0,a", "0.5,a", 1), "kind", ["is the first line data?"]),
        ("PK\3\4", "kind", ["not text but an archive or a sheet"]),
        ("x,kind\n1,a,3\n2,b\n", "kind", ["line 2: 3 cells where the header has 2"]),
    ],
    ids=["dates", "names", "no names", "sheet", "ragged"],
)
def test_what_cannot_be_a_target_or_a_table(
    condiff: Run, tmp_path: Path, content: str, target: str, parts: list[str]
) -> None:
    (tmp_path / "t.csv").write_text(content)
    condiff("fit", tmp_path / "t.csv", "--target", target, "--out", tmp_path / "m").assert_failed(*parts)
    assert not (tmp_path / "m").exists()


def test_many_classes_of_one_row_are_one_note(condiff: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(plain_rows(who=["ab"[i % 2] if i < 24 else f"u{i}" for i in range(30)]))
    result = condiff("fit", tmp_path / "t.csv", "--target", "who", "--out", tmp_path / "model", "--layers", 1)
    assert "6 classes have a single labelled row ('u24', 'u25', 'u26' and 3 more)" in result.out
    assert result.out.count("single labelled row") == 1
