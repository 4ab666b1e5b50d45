"""Rows as nodes, targets as items, folds, blocks of rows, and PyTorch Geometric data."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from condiff import COINClassifier, COINRegressor
from condiff.errors import InvalidInputError
from condiff.estimators import inputs
from condiff.estimators.domain import FeatureMap
from condiff.estimators.inputs import (
    Items,
    Nodes,
    class_items,
    class_targets,
    class_weights,
    find_rows,
    fingerprints,
    held_out_folds,
    moments,
    slices,
    unpacked,
    value_items,
    value_targets,
)


def test_slices_cover_the_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "ROWS", 7)
    rows = np.arange(23)
    assert np.concatenate([rows[here] for here in slices(23)]).tolist() == list(range(23))
    assert len(list(slices(0))) == 1


def test_moments_are_numpys_and_single_precision_is_summed_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(100, 4))
    mean, variance = moments(100, lambda here: rows[here])
    np.testing.assert_array_equal(mean, rows.mean(axis=0))
    np.testing.assert_array_equal(variance, rows.var(axis=0))
    monkeypatch.setattr(inputs, "ROWS", 7)
    single = rows.astype(np.float32)
    mean, variance = moments(100, lambda here: single[here])
    np.testing.assert_allclose(mean, single.astype(np.float64).mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(variance, single.astype(np.float64).var(axis=0), rtol=1e-13)


@pytest.mark.parametrize("width", [3, 10], ids=["reduced", "whole"])
@pytest.mark.parametrize("form", ["float64", "float32", "sparse"])
def test_features_and_digests_do_not_depend_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch, width: int, form: str
) -> None:
    dense = np.random.default_rng(0).normal(size=(60, 8)) * np.arange(1, 9)
    rows = {"float64": dense, "float32": dense.astype(np.float32), "sparse": sp.csr_array(dense)}[form]
    whole, digests = FeatureMap.fit(rows, scaling="standard", width=width), fingerprints(rows)
    expected, scaled = whole.inputs(rows), whole.scaled(rows)
    monkeypatch.setattr(inputs, "ROWS", 7)
    parts = FeatureMap.fit(rows, scaling="standard", width=width)
    # A principal direction may come out with the other sign.
    np.testing.assert_allclose(np.abs(parts.inputs(rows)), np.abs(expected), rtol=1e-6, atol=1e-6)
    assert parts.inputs(rows, np.float32).dtype == np.float32
    np.testing.assert_array_equal(fingerprints(rows), digests)
    if form != "sparse":
        np.testing.assert_allclose(parts.scaled(rows), scaled, rtol=1e-6, atol=1e-6)
        assert parts.scaled(rows).dtype == rows.dtype


def test_single_and_double_precision_of_one_value_are_one_row() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(fingerprints(rows), fingerprints(rows.astype(np.float64)))


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


ALL = np.ones(4, dtype=bool)


def objects(*values: Any) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([3, -1, 5, 3]), [3, 5]),
        ([3, -1, 5, 3], [3, 5]),
        (np.array([3, -1, 5, 3], dtype=np.int8), [3, 5]),
        (objects(3, -1, 5, 3), [3, 5]),
        (np.array([3.0, np.nan, 5.0, 3.0]), [3.0, 5.0]),
        (objects("a", None, "b", "a"), ["a", "b"]),
        (objects("a", np.nan, "b", "a"), ["a", "b"]),
        (objects("a", "", "b", "a"), ["a", "b"]),
        (["a", "", "b", "a"], ["a", "b"]),
        (objects(3, None, 5, 3), [3, 5]),
        (objects(True, None, False, True), [False, True]),
        (objects("a", pd.NA, "b", "a"), ["a", "b"]),
        (pd.Series(["a", None, "b", "a"]), ["a", "b"]),
        (pd.Series(["a", None, "b", "a"], dtype="category"), ["a", "b"]),
        (pd.Series(["a", pd.NA, "b", "a"], dtype="string"), ["a", "b"]),
        (pd.Series([3, pd.NA, 5, 3], dtype="Int64"), [3, 5]),
        (pd.Series([3, -1, 5, 3], dtype="Int64"), [3, 5]),
        (pd.Series([True, pd.NA, False, True], dtype="boolean"), [False, True]),
        (pd.Series([3, None, 5, 3]), [3.0, 5.0]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")) or None,
)
def test_every_way_of_leaving_a_label_out(y: Any, classes: list[Any]) -> None:
    found = class_targets(y, ALL)
    assert found.classes.tolist() == classes
    assert [type(label) for label in found.classes.tolist()] == [type(label) for label in classes]
    there = {label: code for code, label in enumerate(classes)}
    first = found.codes[0]
    assert found.codes[1] == -1
    assert first == found.codes[3] == there[classes[first]]
    assert sorted({first, found.codes[2]}) == [0, 1]


def test_codes_point_at_the_classes() -> None:
    found = class_targets(["pear", "", "apple", "quince"], ALL)
    assert found.classes.tolist() == ["apple", "pear", "quince"]
    assert found.codes.tolist() == [1, -1, 0, 2]


@pytest.mark.parametrize("y", [np.array([-1, 1, 1, -1]), objects(-1, 1, 1, -1)])
def test_minus_one_and_one_alone_are_two_classes(y: np.ndarray) -> None:
    found = class_targets(y, ALL)
    assert found.classes.tolist() == [-1, 1]
    assert found.codes.tolist() == [0, 1, 1, 0]


def test_minus_one_is_a_class_where_none_says_what_is_missing() -> None:
    found = class_targets(objects(-1, 0, None, 1), ALL)
    assert found.classes.tolist() == [-1, 0, 1]
    assert found.codes.tolist() == [0, 1, -1, 2]


def test_minus_one_and_one_are_classes_where_none_marks_what_is_missing() -> None:
    found = class_targets(objects(-1, 1, None, -1), ALL)
    assert found.classes.tolist() == [-1, 1]
    assert found.codes.tolist() == [0, 1, -1, 0]


def test_truth_values_are_classes_with_none_missing() -> None:
    found = class_targets(np.array([True, False, True, True]), ALL)
    assert found.classes.dtype == bool
    assert found.codes.tolist() == [1, 0, 1, 1]


def test_rows_not_to_keep_count_as_missing() -> None:
    found = class_targets(np.array([0, 1, 2, 1]), np.array([True, True, False, True]))
    assert found.classes.tolist() == [0, 1]
    assert found.codes.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([2, -1, 2, 2]), "only one class, '2', .*-1 marks points without a label"),
        (objects("a", None, "a", "a"), "only one class, 'a'"),
        (np.array([1.0, np.nan, np.nan, np.nan]), "only one class"),
        (np.full(4, np.nan), "every target is missing"),
        (["", "", "", ""], "every target is missing"),
        (objects(None, None, None, None), "every target is missing"),
        (objects(1, "a", None, 2), "mix numbers and text"),
        (objects(True, 2, None, 3), "mix numbers and truth values"),
        (np.array([0.5, 1.5, np.nan, 0.25]), "Unknown label type: continuous"),
        (objects(0.5, 1.5, None, 0.25), "Unknown label type: continuous"),
    ],
)
def test_what_cannot_be_learnt_is_one_clear_error(y: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        class_targets(y, ALL)


def test_an_infinite_label_is_refused() -> None:
    with pytest.raises(ValueError, match="y contains infinity"):
        class_targets(np.array([0.0, 1.0, np.inf, 0.0]), ALL)


def test_values_of_one_output_are_one_column() -> None:
    values, single = value_targets([1.5, np.nan, 2.5, 0.0], ALL)
    assert single
    np.testing.assert_array_equal(values, [[1.5], [np.nan], [2.5], [0.0]])


def test_values_of_several_outputs_keep_their_columns() -> None:
    given = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0], [5.0, 6.0]])
    values, single = value_targets(given, np.array([True, True, True, False]))
    assert not single
    np.testing.assert_array_equal(values, [[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0], [np.nan, np.nan]])


def test_pandas_numbers_with_na_are_values() -> None:
    values, _ = value_targets(pd.Series([1, pd.NA, 3, 4], dtype="Int64"), ALL)
    np.testing.assert_array_equal(values[:, 0], [1.0, np.nan, 3.0, 4.0])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([[1.0, 2.0], [1.0, np.nan], [1.0, 2.0], [1.0, 2.0]]), "row 1 of y has some of its 2 outputs"),
        (np.full(4, np.nan), "every target is missing"),
    ],
)
def test_values_that_cannot_be_learnt_are_one_clear_error(y: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        value_targets(y, ALL)


def items_of(nodes, codes, weights=None) -> Items:
    return Items(np.array(nodes), np.array(codes), np.ones(len(nodes)) if weights is None else np.array(weights))


def test_rows_of_one_node_and_class_add_up() -> None:
    items = class_items(np.array([4, 2, 4, 4]), np.array([1, 0, 1, 0]), np.array([1.0, 2.0, 0.5, 3.0]))
    assert items.nodes.tolist() == [2, 4, 4]
    assert items.targets.tolist() == [0, 0, 1]
    assert items.weights.tolist() == [2.0, 3.0, 1.5]
    assert items.n_labelled == 2


def test_values_of_one_node_are_their_weighted_mean() -> None:
    items = value_items(np.array([1, 0, 1]), np.array([[2.0, 0.0], [5.0, 1.0], [6.0, 8.0]]), np.array([3.0, 1.0, 1.0]))
    assert items.nodes.tolist() == [0, 1]
    np.testing.assert_allclose(items.targets, [[5.0, 1.0], [3.0, 2.0]])
    assert items.weights.tolist() == [1.0, 4.0]


def test_balanced_gives_every_class_the_same_total() -> None:
    items = class_weights(items_of([0, 1, 2, 3], [0, 0, 0, 1], [1.0, 1.0, 2.0, 1.0]), np.array(["a", "b"]), "balanced")
    totals = np.bincount(items.targets, items.weights)
    np.testing.assert_allclose(totals, [2.5, 2.5])


def test_a_dict_multiplies_and_classes_it_leaves_out_count_once() -> None:
    items = class_weights(items_of([0, 1, 2], [0, 1, 0], [1.0, 2.0, 3.0]), np.array(["a", "b"]), {"a": 4.0})
    assert items.weights.tolist() == [4.0, 2.0, 12.0]


def test_without_class_weights_nothing_changes() -> None:
    items = items_of([0, 1], [0, 1])
    assert class_weights(items, np.array([0, 1]), None) is items


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"c": 1.0}, "names 'c', which is not among the labels"),
        ({"a": -1.0}, "finite and not negative"),
        ({"a": float("nan")}, "finite and not negative"),
        ({"a": 0.0, "b": 0.0}, "at least one must be positive"),
    ],
)
def test_class_weights_that_make_no_sense_are_refused(given, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        class_weights(items_of([0, 1], [0, 1]), np.array(["a", "b"]), given)


def test_each_item_is_held_out_once_in_folds_of_even_classes() -> None:
    codes = np.repeat([0, 1, 2], [10, 5, 5])
    held = held_out_folds(items_of(np.arange(20), codes), codes, 5)
    assert held.shape == (5, 20)
    assert (held.sum(axis=0) == 1).all()
    for fold in held:
        assert np.bincount(codes[fold]).tolist() == [2, 1, 1]


def test_items_of_one_node_go_together() -> None:
    nodes = np.repeat(np.arange(12), 2)
    codes = np.tile([0, 1], 12)
    held = held_out_folds(items_of(nodes, codes), codes, 4)
    assert (held[:, ::2] == held[:, 1::2]).all()


def test_a_class_of_one_node_is_never_held_out() -> None:
    codes = np.array([0] * 12 + [1])
    held = held_out_folds(items_of(np.arange(13), codes), codes, 3)
    assert not held[:, -1].any()
    assert held[:, :-1].any(axis=0).all()


@pytest.mark.parametrize(("n", "folds"), [(9, 5), (20, 0), (20, 1)])
def test_too_few_labels_or_folds_hold_nothing_out(n: int, folds: int) -> None:
    codes = np.arange(n) % 2
    assert held_out_folds(items_of(np.arange(n), codes), codes, folds).shape == (0, n)


def test_more_folds_than_items_leave_no_empty_fold() -> None:
    codes = np.zeros(10, dtype=int)
    held = held_out_folds(items_of(np.arange(10), codes), codes, 50)
    assert held.shape == (10, 10)
    assert held.any(axis=1).all()


N = 60


def data(**more: Any) -> Any:
    """Two rings of 30 nodes, joined by one edge; torch_geometric's own class where it is installed."""
    ring = np.arange(N)
    following = np.where(ring % 30 == 29, ring - 29, ring + 1)
    ends = np.stack([np.append(ring, 0), np.append(following, 30)])
    edge_index = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1))
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32))
    y = torch.from_numpy((ring >= 30).astype(np.int64))
    mask = torch.zeros(N, dtype=torch.bool)
    mask[[0, 7, 15, 22, 30, 37, 45, 52]] = True
    parts = {"x": x, "edge_index": edge_index, "edge_weight": None, "y": y, "train_mask": mask, "num_nodes": N} | more
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, at the import
            from torch_geometric.data import Data
    except ImportError:
        return SimpleNamespace(**parts)
    return Data(**{name: value for name, value in parts.items() if value is not None})


def classifier() -> COINClassifier:
    return COINClassifier(graph="precomputed", epochs=20, n_inits=1, layers=10)


def test_a_data_is_its_features_labels_and_edges() -> None:
    given = data()
    model = classifier().fit(given)
    ends = given.edge_index.numpy()
    adjacency = sp.csr_array((np.ones(ends.shape[1]), (ends[1], ends[0])), shape=(N, N))
    shown = np.where(given.train_mask.numpy(), given.y.numpy(), -1)
    same = classifier().fit(given.x.numpy(), shown, adjacency=adjacency)
    np.testing.assert_array_equal(model.predict_proba(given), same.predict_proba(given.x.numpy()))
    assert (model.transduction_ == given.y.numpy()).mean() > 0.9
    np.testing.assert_array_equal(model.predict(given), model.transduction_)


def test_given_targets_come_first() -> None:
    given = data()
    other = np.full(N, "", dtype=object)
    other[[0, 10]], other[[30, 40]] = "left", "right"
    assert classifier().fit(given, other).classes_.tolist() == ["left", "right"]


def test_values_outside_of_the_mask_are_missing() -> None:
    given = data(y=torch.linspace(0, 1, N))
    model = COINRegressor(graph="precomputed", epochs=10, n_inits=1, layers=3).fit(given)
    assert len(model.record_.nodes) == 8


def test_what_does_not_go_together_is_said() -> None:
    with pytest.raises(InvalidInputError, match="set graph='precomputed'"):
        COINClassifier().fit(data())
    with pytest.raises(InvalidInputError, match="leave out the adjacency"):
        classifier().fit(data(), adjacency=np.eye(N))
    with pytest.raises(InvalidInputError, match=r"set data\.x"):
        classifier().fit(SimpleNamespace(x=None, edge_index=data().edge_index))
    with pytest.raises(InvalidInputError, match="requires y"):
        classifier().fit(SimpleNamespace(**{name: data()[name] for name in ("x", "edge_index")}, num_nodes=N))


# ---- networkx graphs ---------------------------------------------------------------------------------------------


def test_the_nodes_of_a_networkx_graph_are_named_by_the_index_or_are_numbers() -> None:
    chain = nx.Graph([("c", "a"), ("a", "d"), ("d", "b")])
    chain["c"]["a"]["weight"] = 3.0
    expected = np.array([[0, 0, 3, 1], [0, 0, 0, 1], [3, 0, 0, 0], [1, 1, 0, 0]])
    frame = pd.DataFrame({"x": range(4)}, index=list("abcd"))
    np.testing.assert_array_equal(unpacked(frame, None, chain, "knn")[2].toarray(), expected)
    numbered = nx.relabel_nodes(chain, dict(zip("abcd", range(4), strict=True)))
    for X in (frame, frame.reset_index(drop=True), np.zeros((4, 2)), [[0], [1], [2], [3]]):
        np.testing.assert_array_equal(unpacked(X, None, numbered, "knn")[2].toarray(), expected)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pd.DataFrame({"x": range(3)}, index=list("abc")), "it has the node 'd'"),
        (np.zeros((4, 1)), "it has the node 'c'"),
        (pd.DataFrame({"x": range(5)}, index=list("abcde")), "it has 4 nodes for 5 rows"),
    ],
)
def test_a_networkx_graph_of_other_nodes_is_refused(rows: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"named by its index or as 0 to .*{message}.*relabel the nodes"):
        unpacked(rows, None, nx.Graph([("c", "a"), ("a", "d"), ("d", "b")]), "knn")


def test_a_networkx_graph_is_fitted_with_and_without_features() -> None:
    club = nx.karate_club_graph()
    side = np.array([club.nodes[node]["club"] for node in club], dtype=object)
    known = np.where(np.isin(np.arange(34), [0, 33]), side, None)
    plain = COINClassifier(graph="precomputed").fit(nx.to_numpy_array(club), known)
    np.testing.assert_array_equal(COINClassifier().fit(club, known).transduction_, plain.transduction_)
    names = {node: f"member {node}" for node in club}
    shuffled = nx.Graph()
    shuffled.add_nodes_from(names[node] for node in reversed(list(club)))
    shuffled.add_edges_from((names[a], names[b], data) for a, b, data in club.edges(data=True))
    frame = pd.DataFrame({"degree": [club.degree(node) for node in club]}, index=list(names.values()))
    beside = COINClassifier().fit(frame, known, adjacency=nx.to_numpy_array(club))
    named = COINClassifier().fit(frame, known, adjacency=shuffled)
    np.testing.assert_array_equal(named.predict_proba(frame), beside.predict_proba(frame))
    with pytest.raises(InvalidInputError, match="two graphs were given"):
        COINClassifier().fit(club, known, adjacency=club)
    with pytest.raises(InvalidInputError, match="the adjacency of new points must be a matrix"):
        named.predict(frame[:2], adjacency=club)


def test_dates_are_no_classes() -> None:
    with pytest.raises(InvalidInputError, match="y holds dates"):
        class_targets(pd.date_range("2024-01-01", periods=4), np.ones(4, bool))


def test_new_rows_with_gaps_need_a_model_that_knows_gaps() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    model = COINClassifier(epochs=2, n_inits=1).fit(frame, [0, 1] * 10)
    for bad in (frame.assign(a=np.nan), frame.assign(a="high")):
        with pytest.raises(InvalidInputError, match="fitted on numbers alone"):
            model.predict(bad)
