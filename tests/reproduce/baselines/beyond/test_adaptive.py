"""The method that measures whether neighbours agree before it diffuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.graph import Graph
from condiff.reproduce.baselines.beyond.adaptive import AdaptiveCOIN, homophily
from condiff.reproduce.baselines.node.problem import NodeProblem


@pytest.fixture
def opposites() -> NodeProblem:
    """Thirty nodes of each of two classes, every edge between the two; the features say nothing but at class 0."""
    generator = np.random.default_rng(0)
    between = sp.csr_array((generator.random((30, 30)) < 0.2) * 1.0)
    adjacency = sp.csr_array(sp.block_array([[None, between], [between.T, None]]))
    truth = np.repeat([0, 1], 30)
    known = generator.permutation(60)[:40]
    labels = np.full(60, -1)
    labels[known] = truth[known]
    features = np.ones((60, 4)) / 4 + 0.02 * generator.normal(size=(60, 4))
    return NodeProblem(
        "opposites",
        Graph.of(adjacency),
        sp.csr_array(features),
        torch.from_numpy(labels),
        2,
        torch.from_numpy(np.sort(known[:20])),
        torch.from_numpy(np.sort(known[20:])),
    )


def test_homophily_is_counted_along_labelled_edges(tiny_problem: NodeProblem, opposites: NodeProblem) -> None:
    found = homophily(tiny_problem)
    assert (found.edges, found.agreeing, found.by_chance, found.adjusted) == (6, 1.0, 0.5, 1.0)
    assert str(found) == "100% of 6 labelled edges join equals (50% by chance)"
    other = homophily(opposites)
    assert other.agreeing == 0 and other.adjusted == pytest.approx(-1)
    alone = homophily(replace(tiny_problem, labels=torch.full((12,), -1)))
    assert alone.edges == 0 and math.isnan(alone.adjusted)
    assert str(alone) == "no edge joins two labelled nodes"


def test_more_than_the_diffusion_is_tried_only_where_neighbours_may_disagree(
    tiny_problem: NodeProblem, opposites: NodeProblem
) -> None:
    assert list(AdaptiveCOIN(edges=5).candidates(tiny_problem)) == ["diffuse"]
    assert list(AdaptiveCOIN().candidates(tiny_problem)) == ["diffuse", "react", "alone"]  # six edges are too few
    assert list(AdaptiveCOIN().candidates(opposites)) == ["diffuse", "react", "alone"]


def test_edges_between_opposites_do_not_mislead(opposites: NodeProblem) -> None:
    truth = np.repeat([0, 1], 30)
    telling = replace(opposites, features=sp.csr_array(np.eye(2)[truth]))
    assert (AdaptiveCOIN().solve(telling, 0).scores.argmax(-1).numpy() == truth).all()
