import csv
import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from tests.reproduce.made_up import COVID, paper_runs, run

from condiff.errors import InvalidInputError
from condiff.reproduce.summary import summarise
from condiff.reproduce.tables import csv_text, demo_markdown, latex, lay_out, markdown, put_table, terminal_table

ROOT = Path(__file__).parents[2]
ROWS = summarise([*paper_runs(), run("own", 79.96)])


def test_markdown_reads_back_as_the_same_numbers() -> None:
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in markdown(ROWS).splitlines() if "|" in line
    ]
    assert lines[0] == ["method", "Cora", "Citeseer", "Pubmed"]
    assert len(lines) == 2 + 16
    read = {
        (line[0], title.lower()): cell for line in lines[2:] for title, cell in zip(lines[0][1:], line[1:], strict=True)
    }
    for row in ROWS:
        cell = read.pop((row.method, row.dataset))
        found = [float(number) for number in re.findall(r"[+-]?\d+\.\d+", cell)]
        names = ["mean", "std", "published", "published_std", "difference"]
        assert found == [round(getattr(row, name), 1) + 0.0 for name in names if getattr(row, name) is not None]
    assert set(read.values()) == {"-"}  # what was not measured


def test_a_markdown_cell_has_ours_the_published_and_the_difference() -> None:
    runs = [run(accuracy=value, split=split) for split, value in enumerate((80.0, 84.0))]
    table = markdown(summarise([*runs, run("a|b*c", 80.04, dataset="my_graph")]))
    assert table.splitlines() == [
        r"| method | Cora | my\_graph |",
        "| --- | ---: | ---: |",
        "| COIN | 82.0 ± 2.8 (82.2 ± 1.2, -0.2) | - |",
        r"| a\|b\*c | - | 80.0 |",
        "",
        "Accuracy (%): mean ± standard deviation over 2 splits with 1 initialisation each; "
        "a|b*c: 1 split with 1 initialisation. In brackets: the published value and the difference from it.",
    ]


def test_without_published_values_none_are_spoken_of() -> None:
    assert "published" not in markdown(summarise([run("own")]))
    assert [column.header for column in terminal_table(summarise([run("own")])).columns][-1] == "s per run"


def test_csv_reads_back_in_full() -> None:
    text = csv_text(ROWS)
    assert text.endswith("\n")
    assert "\r" not in text
    read = list(csv.DictReader(io.StringIO(text)))
    assert len(read) == len(ROWS)
    for line, row in zip(read, ROWS, strict=True):
        plain = row.to_dict()
        assert list(line) == list(plain)
        assert json.loads(line["settings"]) == row.settings
        assert json.loads(line["condition"]) == dict(row.condition)
        for name, value in plain.items():
            if name not in ("settings", "condition"):
                assert line[name] == "" if value is None else type(value)(line[name]) == value


def test_latex_is_grouped_as_the_paper_s_table() -> None:
    lines = latex(ROWS).splitlines()
    start, end = lines.index(r"\toprule"), lines.index(r"\bottomrule")
    assert lines[start + 1] == r"& Method & Cora & Citeseer & Pubmed \\"
    blocks = "\n".join(lines[start + 2 : end]).split("\\midrule\n")[1:]
    assert [len(block.splitlines()) for block in blocks] == [6, 2, 6, 1, 1]
    assert [block.split("&")[0].strip() for block in blocks] == [
        r"\multirow{6}{*}{Classic}",
        r"\multirow{2}{*}{ODE}",
        r"\multirow{6}{*}{Diffusion}",
        "",
        "",
    ]
    for line in lines[start + 1 : end]:
        if line != r"\midrule":
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == 4


def test_latex_sets_the_best_of_a_column_in_bold() -> None:
    runs = [
        run(name, value, dataset=dataset)
        for dataset, values in {"cora": (81.04, 80.96, 79), "pubmed": (70, 71, 72)}.items()
        for name, value in zip(("GCN", "GAT", "COIN"), values, strict=True)
    ]
    text = latex(summarise(runs))
    assert r"& GAT & \textbf{81.0} & 71.0 \\" in text  # prints the same as the best, so it is the best too
    assert r"GCN & \textbf{81.0} & 70.0 \\" in text
    assert r"& COIN & 79.0 & \textbf{72.0} \\" in text
    assert text.count("textbf") == 3


def test_latex_bolds_the_lowest_error() -> None:
    runs = [run(name, task="covid", dataset="d", metrics={"mse": mse}) for name, mse in (("LR", 0.9), ("COIN", 0.7))]
    assert r"\textbf{0.7000}" in latex(summarise(runs))


def test_latex_states_the_runs_and_escapes_what_is_special() -> None:
    runs = [run(r"A_b & 5% {x} $#~^\<>|", dataset="my_graph"), run(dataset="citeseer", split=1)]
    text = latex(summarise(runs))
    caption = next(line for line in text.splitlines() if line.startswith(r"\caption"))
    assert "over 1 split with 1 initialisation." in caption
    assert r"Accuracy (\%): mean $\pm$ standard deviation" in caption
    escaped = (
        r"A\_b \& 5\% \{x\} \$\#\textasciitilde{}\textasciicircum{}\textbackslash{}\textless{}\textgreater{}\textbar{}"
    )
    assert f"& {escaped} & -- & " in text
    assert r"my\_graph" in text
    assert re.sub(r"\\[{}]", "", text).count("{") == re.sub(r"\\[{}]", "", text).count("}")
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def printed(table: Table) -> str:
    console = Console(width=120, record=True, file=io.StringIO(), force_terminal=True)
    console.print(table)
    return console.export_text(styles=True)


def test_the_terminal_marks_what_misses_and_hides_nothing() -> None:
    values = {"GCN": 81.9, "GAT": 78.0, "APPNP": 84.0, "COIN": 82.3, "own [red]": 60.0}
    rows = summarise([run(name, value, split=s) for name, value in values.items() for s in (0, 1)])
    lines = {
        line.split()[0]: line
        for line in re.sub(r"\x1b\[[\d;]*m", "", printed(terminal_table(rows))).replace("Cora ", "").splitlines()
    }
    assert lines["GCN"].split() == ["GCN", "81.9", "±", "0.0", "2", "2", "81.6", "±", "1.1", "+0.3"]
    assert lines["GAT"].split()[-2:] == ["-2.8", "▼"]
    assert lines["APPNP"].split()[-2:] == ["+1.3", "▲"]
    assert lines["own"].split() == ["own", "[red]", "60.0", "±", "0.0", "2", "2", "-", "-"]
    assert "mean ± standard deviation" in lines["mean"]
    assert "▲ ▼ further from the published value than 1 in accuracy (%)" in lines["▲"]
    coloured = {line for line in printed(terminal_table(rows)).splitlines() if "\x1b[31m" in line}
    assert ["GAT" in line for line in coloured] == [True]


def test_the_terminal_colours_a_lower_error_as_the_better_one() -> None:
    runs = [run(name, **COVID, metrics={"mse": mse}) for name, mse in (("LR", 0.7), ("COIN", 0.9))]
    text = printed(terminal_table(summarise(runs)))
    better, worse = (next(line for line in text.splitlines() if name in line) for name in ("LR", "COIN"))
    assert "\x1b[32m" in better
    assert "\x1b[31m" in worse


def test_the_terminal_names_the_metric_where_there_are_several() -> None:
    table = terminal_table(summarise([run(metrics={"accuracy": 80.0, "roc_auc": 0.8}, seconds=12345.6)]))
    assert [column.header for column in table.columns][:4] == ["data set", "method", "metric", "value"]
    text = printed(table)
    assert "ROC-AUC" in text
    assert "12,346" in text


@pytest.mark.parametrize("make", [markdown, csv_text, latex, terminal_table])
def test_no_rows_make_no_table(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInputError, match="no results"):
        make([])


def row(method: str, labels: int, mean: float) -> dict[str, object]:
    return {"method": method, "labels_per_class": labels, "mean": mean, "std": 0.25}


def test_the_table_has_a_row_a_method_and_a_column_a_number_of_labels() -> None:
    table = demo_markdown(
        [row("COIN", 1, 91.26), row("COIN", 10, 97.0), row("other", 1, 60.0), row("other", 10, 90.04)]
    )
    assert table.splitlines() == [
        "| labels per class | 1 | 10 |",
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


def test_lines_are_methods_and_columns_data_sets() -> None:
    runs = [
        run("zeta", dataset="mine"),
        run("Alpha"),
        run("GCN"),
        run("COIN", dataset="citeseer"),
        run("GCN", dataset="mine"),
    ]
    grid = lay_out(summarise(runs))
    assert [(line.label, line.group) for line in grid.lines] == [
        ("GCN", "Classic"),
        ("COIN", "COIN"),
        ("Alpha", ""),
        ("zeta", ""),
    ]
    assert [column.title for column in grid.columns] == ["Cora", "Citeseer", "mine"]
    held = {(line.label, column.place[0]) for line in grid.lines for column in grid.columns if grid.cell(line, column)}
    assert held == {("GCN", "cora"), ("GCN", "mine"), ("COIN", "citeseer"), ("Alpha", "cora"), ("zeta", "mine")}


def test_several_metrics_of_one_data_set_are_columns() -> None:
    grid = lay_out(summarise([run(metrics={"accuracy": 80.0, "roc_auc": 0.8})]))
    assert [column.title for column in grid.columns] == ["accuracy (%)", "ROC-AUC"]


def test_no_row_is_lost() -> None:
    runs = paper_runs(inits=1) + [run(settings={"strength": 0.1 * n}, dataset="pubmed") for n in range(3)]
    rows = summarise(runs)
    assert sorted(map(id, lay_out(rows).cells.values())) == sorted(map(id, rows))


@pytest.mark.parametrize(("metric", "best"), [("accuracy", "81.0"), ("mse", "79.0000")])
def test_the_best_is_the_highest_accuracy_and_the_lowest_error(metric: str, best: str) -> None:
    grid = lay_out(summarise([run(name, metrics={metric: value}) for name, value in (("a", 79.0), ("b", 81.0))]))
    assert grid.best(grid.columns[0]) == best


def test_runs_are_told_with_their_exceptions() -> None:
    usual = paper_runs(("cora", "citeseer"), ("GCN", "GAT", "COIN"), splits=3, inits=2)
    assert lay_out(summarise(usual)).runs_text() == "3 splits with 2 initialisations each"
    fewer = paper_runs(("cora", "citeseer"), ("CGNN",), splits=2, inits=1)
    odd = paper_runs(("cora",), ("MLP",), splits=2, inits=2)[:3] + paper_runs(
        ("citeseer",), ("MLP",), splits=1, inits=1
    )
    assert lay_out(summarise(usual + fewer + odd)).runs_text() == (
        "3 splits with 2 initialisations each; MLP on Cora: 3 runs; MLP on Citeseer: 1 split with 1 initialisation; "
        "CGNN: 2 splits with 1 initialisation each"
    )


def test_nothing_and_two_tasks_at_once_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no results"):
        lay_out([])
    with pytest.raises(InvalidInputError, match="one task, not covid, node"):
        lay_out(summarise([run(), run(task="covid")]))


def test_many_different_numbers_of_runs_become_a_range() -> None:
    runs = [
        each
        for number, name in enumerate(["MLP", "GCN", "GraphSAGE", "GAT", "SGC", "APPNP", "CGNN", "GCDE"], start=1)
        for each in paper_runs(["cora"], [name], splits=number, inits=1)
    ]
    assert lay_out(summarise(runs)).runs_text() == "1 to 8 runs"
    text = markdown(summarise(runs))
    assert "1 to 8" not in text
    counts = text.split("The runs behind each mean, and its standard error:")[1]
    assert "| MLP | 1 |" in counts and re.search(r"\| GCDE \| 8, ± \d+\.\d \|", counts)
