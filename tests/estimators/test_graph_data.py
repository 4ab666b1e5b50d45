from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff import COINClassifier, COINRegressor
from condiff.errors import InvalidInputError

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
    assert len(model._record["nodes"]) == 8


def test_what_does_not_go_together_is_said() -> None:
    with pytest.raises(InvalidInputError, match="set graph='precomputed'"):
        COINClassifier().fit(data())
    with pytest.raises(InvalidInputError, match="leave out the adjacency"):
        classifier().fit(data(), adjacency=np.eye(N))
    with pytest.raises(InvalidInputError, match=r"set data\.x"):
        classifier().fit(SimpleNamespace(x=None, edge_index=data().edge_index))
    with pytest.raises(InvalidInputError, match="requires y"):
        classifier().fit(SimpleNamespace(**{name: data()[name] for name in ("x", "edge_index")}, num_nodes=N))
