from __future__ import annotations

import numpy as np
import pytest
import torch

from condiff.reproduce.bench.scale import products
from condiff.reproduce.bench.scale.products import bytes_a_layer, diffuse_products, make_graph, triad_bytes_a_second


def test_the_graph_has_heavy_tails_and_is_symmetric() -> None:
    operator = make_graph(2000, 20_000)
    assert operator.n_nodes == 2000
    assert operator._equals_mirror()
    entries = np.diff(operator.crow_indices.numpy())
    assert 0.9 * 40_000 < entries.sum() <= 40_000
    assert entries.max() > 8 * entries.mean()
    assert float(operator.diagonal.max()) > 0
    again = make_graph(2000, 20_000)
    assert torch.equal(again.weights, operator.weights)
    assert torch.equal(again.col_indices, operator.col_indices)


def test_the_weights_are_normalised() -> None:
    operator = make_graph(300, 2000)
    dense = torch.zeros(300, 300).index_put((operator.row_indices, operator.col_indices.long()), operator.weights)
    # The square root of the degrees is an eigenvector of D^-1/2 W D^-1/2 with eigenvalue 1.
    values = torch.linalg.eigvalsh(dense.double())
    assert float(values.max()) == pytest.approx(1.0, abs=1e-5)


def test_bytes_of_a_layer() -> None:
    assert bytes_a_layer(2, 3, 5) == 3 * (4 + 4 + 20) + 2 * (20 + 20 + 8)


def test_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_TRIAD", 10_000)
    assert triad_bytes_a_second() > 0
    found = diffuse_products(6000, 30_000)
    assert found["share_of_triad"] == pytest.approx(found["bytes_a_second"] / found["triad_bytes_a_second"])
    moved = found["bytes_a_second"] * found["seconds"]
    assert moved == pytest.approx(20 * bytes_a_layer(6000, found["entries"], 47))
    assert found["mean_change"] < 1e-6
