from __future__ import annotations

from pathlib import Path

import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.plans import Wish, plan
from condiff.reproduce.protocols import covid, node


def test_a_graph(data_root: Path) -> None:
    found = plan(Wish(("cora", "citeseer"), "COIN,gcn", splits=3, changes=("COIN.layers=5",)))
    assert (found.task, found.metrics) == ("node", (node.METRIC,))
    assert len(found.jobs) == 2 * 3 * 2 * 2  # graphs, splits, methods and the protocol's two initialisations
    assert {job.key.settings.get("layers") for job in found.jobs if job.key.method == "COIN"} == {5}
    assert [(split["dataset"], split["seed"]) for split in found.splits[:3]] == [("cora", seed) for seed in range(3)]


def test_covid(data_root: Path) -> None:
    found = plan(Wish(("covid",), "All-Zero,COIN", splits=2))
    assert (found.task, found.metrics) == ("covid", (covid.METRIC,))
    assert len(found.jobs) == 2 * 2 * 10
    assert {job.key.dataset for job in found.jobs} == {"england-90-missing"}
    causal = plan(Wish(("covid",), "All-Zero", missing=0.5, causal=True))
    assert {job.key.dataset for job in causal.jobs} == {"england-50-missing-causal"}
    assert len(causal.jobs) == 100  # the paper's ten masks and ten initialisations


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish(("covid", "cora")), "covid is a benchmark of its own"),
        (Wish(("covid",), per_class=(1, 1)), "--train-per-class and --validation-per-class means nothing for covid"),
        (Wish(("covid",), import_splits=Path("x")), "--import-splits means nothing for covid"),
        (Wish(("cora",), missing=0.5), "--missing means nothing for a graph"),
        (Wish(("cora",), causal=True), "--causal means nothing for a graph"),
        (Wish(("cora", "pubmed"), export_splits=Path("x")), "splits are of one graph"),
    ],
)
def test_what_means_nothing_is_refused(wish: Wish, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plan(wish)
