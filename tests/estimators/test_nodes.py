from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.estimators.nodes import Nodes, find_rows, fingerprints

ROWS = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
KEEP = np.ones(5, dtype=bool)
forms = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


@forms
def test_equal_rows_are_one_node_and_every_row_knows_its_own(form) -> None:
    nodes = Nodes.merged(form(ROWS), KEEP)
    assert nodes.points.shape == (4, 2)
    assert nodes.of_row[0] == nodes.of_row[2]
    np.testing.assert_array_equal(dense(nodes.points)[nodes.of_row], ROWS)


@forms
def test_the_order_of_nodes_does_not_depend_on_the_order_of_rows(form) -> None:
    order = [3, 4, 0, 2, 1]
    nodes, shuffled = Nodes.merged(form(ROWS), KEEP), Nodes.merged(form(ROWS[order]), KEEP)
    np.testing.assert_array_equal(dense(nodes.points), dense(shuffled.points))
    np.testing.assert_array_equal(nodes.of_row[order], shuffled.of_row)


@forms
def test_rows_left_out_have_no_node(form) -> None:
    nodes = Nodes.merged(form(ROWS), np.array([True, False, False, True, True]))
    assert nodes.points.shape == (3, 2)
    assert (nodes.of_row >= 0).tolist() == [True, False, False, True, True]


def test_separate_nodes_keep_their_place_and_their_duplicates() -> None:
    nodes = Nodes.separate(ROWS)
    np.testing.assert_array_equal(nodes.points, ROWS)
    assert nodes.of_row.tolist() == [0, 1, 2, 3, 4]


@forms
def test_rows_are_found_in_any_order_and_strangers_are_not(form) -> None:
    known = fingerprints(form(ROWS[[0, 1, 3, 4]]))
    asked = form(np.array([[3.0, 4.0], [9.0, 9.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert find_rows(asked, known).tolist() == [2, -1, 0, 0, 3]


def test_of_duplicates_the_first_is_found_unless_all_come_in_order() -> None:
    known = fingerprints(ROWS)
    assert find_rows(ROWS, known).tolist() == [0, 1, 2, 3, 4]
    assert find_rows(ROWS[[2, 1]], known).tolist() == [0, 1]


def test_a_zero_is_a_zero_with_either_sign_stored_or_not() -> None:
    plain = np.array([[0.0, 1.0]])
    assert fingerprints(plain) == fingerprints(-np.array([[0.0, -1.0]]))
    stored = sp.csr_array((np.array([0.0, 1.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    split = sp.csr_array((np.array([0.5, 0.5]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    assert fingerprints(stored) == fingerprints(sp.csr_array(plain)) == fingerprints(split)


def test_fingerprinting_leaves_a_sparse_matrix_as_it_was() -> None:
    stored = sp.csr_array((np.array([0.0, 1.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    fingerprints(stored)
    assert stored.nnz == 2


def test_nearly_equal_rows_are_different() -> None:
    near = ROWS.copy()
    near[0, 0] = np.nextafter(1.0, 2.0)
    assert find_rows(near, fingerprints(ROWS)).tolist() == [-1, 1, 0, 3, 4]
