import pytest

from condiff.reproduce.published import Published, PublishedMethod, datasets, methods, published, tasks


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("node", "cora", "COIN", "accuracy"), Published(82.2, 1.2)),
        (("node", "pubmed", "Difformer", "accuracy"), Published(74.8, 4.5)),
        (("node", "citeseer", "GRAND", "seconds_per_epoch_rtx3090"), Published(0.1257, None)),
        (("covid", "england-90-missing", "COIN", "mse"), Published(0.7168, 0.0187)),
        (("prostate", "p1000-20-train", "COIN", "roc_auc"), Published(0.8001, None)),
    ],
)
def test_values_are_those_of_the_paper(key: tuple[str, str, str, str], value: Published) -> None:
    assert published(*key) == value


@pytest.mark.parametrize(
    "key",
    [
        ("node", "cora", "COIN-certified", "accuracy"),
        ("node", "my-graph", "COIN", "accuracy"),
        ("node", "cora", "COIN", "mse"),
        ("other", "cora", "COIN", "accuracy"),
    ],
)
def test_what_the_paper_does_not_report_is_none(key: tuple[str, str, str, str]) -> None:
    assert published(*key) is None


def test_one_of_several_groups_must_be_named() -> None:
    key = ("fewshot", "mini-1shot", "COIN", "accuracy")
    assert published(*key) is None
    assert published(*key, group="ResNet-18") == Published(72.50, 0.24)
    assert published(*key, group="WRN") == Published(74.85, 0.24)
    assert published(*key, group="ResNet-12") is None


def test_methods_come_in_the_order_and_groups_of_table_1() -> None:
    table = methods("node")
    assert [method.name for method in table if method.group == "Classic"] == [
        "MLP",
        "GCN",
        "GraphSAGE",
        "GAT",
        "SGC",
        "APPNP",
    ]
    assert [method.group for method in table] == ["Classic"] * 6 + ["ODE"] * 2 + ["Diffusion"] * 6 + ["COIN"]
    assert len({method.name for method in table}) == 15
    assert methods("covid")[0] == PublishedMethod("All-Zero", "")
    assert PublishedMethod("COIN", "WRN") in methods("fewshot")
    assert methods("other") == ()


def test_every_method_has_an_accuracy_on_each_citation_graph() -> None:
    assert datasets("node") == ("cora", "citeseer", "pubmed")
    for method in methods("node"):
        for dataset in datasets("node"):
            value = published("node", dataset, method.name, "accuracy")
            assert value is not None
            assert 50 < value.value < 90
            assert value.spread is not None


def test_tasks_come_in_the_paper_s_order() -> None:
    assert tasks() == ("node", "fewshot", "covid", "prostate")
