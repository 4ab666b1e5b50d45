"""What holds for every method beyond the paper's table."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

import pytest
import torch

from condiff.reproduce.baselines.beyond import METHODS, REGISTRY
from condiff.reproduce.baselines.node import METHODS as TABLE
from condiff.reproduce.baselines.node.problem import NodeProblem


def test_the_papers_methods_are_there_too() -> None:
    assert list(REGISTRY.methods) == [*TABLE, *METHODS]
    assert REGISTRY.get("GCN").__name__ == "GCN"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_scores_every_node_and_repeats_itself(name: str, tiny_problem: NodeProblem) -> None:
    made = REGISTRY.get(name).recommended("rings")
    json.dumps(made.settings())
    if "training" in (field.name for field in dataclasses.fields(made)):
        made = replace(made, training=replace(made.training, epochs=3))  # type: ignore[call-arg,attr-defined]
    one, two = made.solve(tiny_problem, 1), made.solve(tiny_problem, 1)
    assert one.scores.shape == (12, 2) and bool(torch.isfinite(one.scores).all())
    assert torch.equal(one.scores, two.scores)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed"])
def test_recommended_settings_are_plain_values(name: str, dataset: str) -> None:
    json.dumps(REGISTRY.get(name).recommended(dataset).settings())
