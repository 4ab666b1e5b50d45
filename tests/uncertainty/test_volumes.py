"""Classes of known sizes on a graph of clusters."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.graph import Graph, PointGraph
from condiff.uncertainty import volumes
from condiff.uncertainty.volumes import energy, from_labels, settle


@pytest.fixture(scope="module")
def clusters() -> tuple[Graph, np.ndarray]:
    generator = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [60, 80, 100])
    points = generator.normal(size=(240, 4)) + 4 * np.eye(4)[truth]
    return PointGraph.build(points, 10, 5, tuning="pair").graph, truth


def test_classes_that_were_dealt_at_random_settle_on_the_clusters(clusters: tuple[Graph, np.ndarray]) -> None:
    graph, truth = clusters
    free = np.ones(240, bool)
    free[[0, 60, 140]] = False
    sizes = np.array([59, 79, 99])
    wrong = truth.copy()
    wrong[free] = np.random.default_rng(1).permutation(truth[free])
    found = settle(graph, wrong, free, sizes, clusters=True)
    assert np.bincount(found).tolist() == [60, 80, 100]
    assert (found == truth)[~free].all() and (found == truth).mean() > 0.95
    operator = graph.laplacian()
    assert energy(operator, found, 3) <= energy(operator, truth, 3) < energy(operator, wrong, 3)


@pytest.fixture(scope="module")
def strips() -> tuple[Graph, np.ndarray, np.ndarray]:
    """Two strips side by side, ten wide and forty long, weakly joined along their length: the graph, and two halvings.

    To part the strips cuts 6, to part the two halves of their length cuts 20, but heat takes longer to get from one
    half to the other.
    """
    length, width = 40, 20
    along = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(length, length))
    steps = np.ones(width - 1)
    steps[width // 2 - 1] = 0.1
    across = sp.diags_array([steps, steps], offsets=[1, -1])
    weights = sp.kron(along, sp.eye_array(width)) + sp.kron(sp.eye_array(length), across)
    graph = Graph.of(sp.csr_array(weights)).normalised()
    return graph, np.tile(np.repeat([0, 1], width // 2), length), np.repeat([0, 1], length * width // 2)


def test_a_pair_whose_cut_runs_across_clusters_is_parted_anew(strips: tuple[Graph, np.ndarray, np.ndarray]) -> None:
    graph, parted, halves = strips
    free = np.ones(len(parted), bool)
    free[[0, -1]] = False
    sizes = np.bincount(parted[free])
    # No round of heat and assignment gets from one to the other.
    assert np.array_equal(settle(graph, halves, free, sizes, clusters=False), halves)
    assert np.array_equal(settle(graph, halves, free, sizes, clusters=True), parted)
    # The other way round the two labels are far from home.
    swapped = np.where(free, 1 - parted, parted)
    assert np.array_equal(settle(graph, swapped, free, sizes, clusters=True), parted)
    assert np.array_equal(settle(graph, parted, free, sizes, clusters=True), parted)


def test_a_parting_that_labels_speak_against_is_not_taken(strips: tuple[Graph, np.ndarray, np.ndarray]) -> None:
    graph, parted, halves = strips
    free = np.ones(len(parted), bool)
    free[[105, 115, 685, 695]] = False  # in all four quarters
    found = settle(graph, halves, free, np.bincount(halves[free]), clusters=True)
    assert np.array_equal(found, halves)


def test_one_label_in_four_may_speak_against_a_parting(strips: tuple[Graph, np.ndarray, np.ndarray]) -> None:
    graph, parted, halves = strips
    free = np.ones(len(parted), bool)
    free[[105, 203, 695, 115]] = False
    assert (parted == halves)[~free].tolist() == [True, False, True, True]
    found = settle(graph, halves, free, np.bincount(halves[free]), clusters=True)
    assert (found == parted).mean() > 0.99 and (found == halves)[~free].all()


def test_a_parting_that_cuts_a_little_more_may_settle_in_the_best(
    strips: tuple[Graph, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, parted, halves = strips
    free = np.ones(len(parted), bool)
    free[[0, -1]] = False
    along, across = np.repeat(np.arange(40), 20) - 19.5, np.tile(np.arange(20), 40) - 9.5
    bent = across + np.where(np.abs(along) > 14.5, 3 * np.sign(along), 0)  # the strips, bent at their ends
    dealt = (bent > 0).astype(np.int64)
    operator = graph.laplacian()
    assert energy(operator, halves, 2) < energy(operator, dealt, 2) < 1.05 * energy(operator, halves, 2)
    monkeypatch.setattr(volumes, "_slow_modes", lambda weights: np.stack([along, bent], axis=1))
    assert np.array_equal(settle(graph, halves, free, np.bincount(parted[free]), clusters=True), parted)


def test_labels_alone_say_which_cluster_a_node_is_in(clusters: tuple[Graph, np.ndarray]) -> None:
    graph, truth = clusters
    scores = from_labels(graph, np.array([0, 60, 140]), np.array([0, 1, 2]), 3)
    assert (scores.argmax(axis=1) == truth).mean() > 0.95


def test_parts_that_no_label_reaches_are_no_obstacle() -> None:
    graph = Graph.of(np.kron(np.eye(3), 1 - np.eye(4))).normalised()
    scores = from_labels(graph, np.array([0, 4]), np.array([0, 1]), 2)
    assert np.isfinite(scores).all() and np.abs(scores[8:]).max() < 1e-12
    assert (scores[:4].argmax(axis=1) == 0).all() and (scores[4:8].argmax(axis=1) == 1).all()
