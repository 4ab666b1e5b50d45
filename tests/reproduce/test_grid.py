import pytest
from tests.reproduce.made_up import paper_runs, run

from condiff.errors import InvalidInputError
from condiff.reproduce.grid import lay_out
from condiff.reproduce.summary import summarise


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
    held = {(line.label, column.dataset) for line in grid.lines for column in grid.columns if grid.cell(line, column)}
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
