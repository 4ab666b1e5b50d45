from __future__ import annotations

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.estimators.labels import Items, class_items, class_weights, held_out_folds, value_items


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
