import numpy as np
import pytest
import scipy.sparse as sp

from condiff.graph.homophily import Homophily, homophily


def test_edges_between_labels_are_counted_once() -> None:
    ring = np.roll(np.eye(6), 1, axis=1)
    found = homophily(sp.csr_array(ring + ring.T + np.eye(6)), np.array([0, 0, 0, 1, 1, -1]), 2)
    assert (found.edges, found.agreeing) == (4, 0.75)
    assert found.by_chance == pytest.approx((5 / 8) ** 2 + (3 / 8) ** 2)
    assert str(found) == "75% of 4 labelled edges join equals (53% by chance)"
    assert not found.is_absent


def test_without_labelled_edges_nothing_is_said() -> None:
    found = homophily(sp.csr_array(np.ones((3, 3))), np.array([0, -1, -1]), 2)
    assert found.edges == 0 and not found.is_absent and str(found) == "no edge joins two labelled nodes"


def test_few_edges_do_not_speak_against_a_graph() -> None:
    assert not Homophily(19, 0.1, 0.3).is_absent
    assert Homophily(20, 0.3, 0.3).is_absent and Homophily(300, 0.36, 0.33).is_absent
    assert not Homophily(300, 0.5, 0.33).is_absent
    assert Homophily(100, 1.0, 0.5).adjusted == 1.0
