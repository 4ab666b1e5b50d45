"""Linear maps of columns that are averaged over neighbours: the closed form, new rows, and rows at the centre."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from condiff.bases.averaged import Averaged, scales


def ring(n: int = 12) -> sp.csr_array:
    """The mean over a node and its neighbours on a ring with a chord."""
    adjacency = np.eye(n) + np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)
    adjacency[0, 5] = adjacency[5, 0] = 2.0
    return sp.csr_array(adjacency / adjacency.sum(axis=1, keepdims=True))


def base(columns: int, hops: int, *, of_edges: bool = False) -> Averaged:
    chance = np.random.default_rng(1)
    return Averaged(
        chance.normal(size=(columns, 3)), chance.normal(size=3), chance.normal(size=columns), 0.7, hops, of_edges, 1.0
    )


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_the_closed_form_for_dense_and_sparse_rows(hops: int) -> None:
    rows, walk, own = np.random.default_rng(0).normal(size=(12, 5)), ring(), base(5, hops)
    apart = rows - own.centre
    unit = apart / np.linalg.norm(apart, axis=1, keepdims=True) / own.unit
    expected = softmax(np.linalg.matrix_power(walk.toarray(), hops) @ unit @ own.weight + own.bias, axis=1)
    np.testing.assert_allclose(own.at_nodes(rows, walk), expected, rtol=1e-10)
    np.testing.assert_allclose(own.at_nodes(sp.csr_array(rows), walk), expected, rtol=1e-10)


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_a_new_row_with_a_nodes_columns_and_edges_is_answered_as_that_node(hops: int) -> None:
    rows, walk, own = np.random.default_rng(0).normal(size=(12, 5)), ring(), base(5, hops)
    towards = walk - sp.diags_array(walk.diagonal())
    np.testing.assert_allclose(own.at_new(rows, towards, rows, walk), own.at_nodes(rows, walk), rtol=1e-10)
    alone = own.at_new(rows, sp.csr_array((12, 12)), rows, walk)
    np.testing.assert_allclose(alone, softmax(own.values(rows) + own.bias, axis=1), rtol=1e-10)


def test_edges_are_the_numbers_of_the_nodes_that_a_node_is_joined_to() -> None:
    walk, own = ring(), base(12, 2, of_edges=True)
    columns = np.random.default_rng(0).normal(size=(12, 5))
    np.testing.assert_array_equal(own.at_nodes(columns, walk), own.at_nodes(-columns, walk))
    np.testing.assert_allclose(
        own.at_nodes(columns, walk), Averaged(**{**vars(own), "of_edges": False}).at_nodes(np.eye(12), walk), rtol=1e-12
    )
    # Without edges nothing is known of a new row.
    nothing = own.at_new(columns[:2], sp.csr_array((2, 12)), columns, walk)
    np.testing.assert_allclose(nothing, np.tile(softmax(own.bias), (2, 1)))


def test_a_row_at_the_centre_counts_for_nothing_and_units_do_not_matter() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 4)) + 100
    centre = rows[2].copy()
    found = scales(rows, centre)
    assert found[2] == 0 and np.isfinite(found).all()
    np.testing.assert_allclose(scales(1e-5 * rows, 1e-5 * centre), 1e5 * found, rtol=1e-4)
