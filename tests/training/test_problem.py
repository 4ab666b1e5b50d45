"""What a problem settles on entry, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.training.kinds import CLASSES, EARLY, FEATURES, KINDS, N, chosen, labels, network, panel, ring, words

from condiff.bases import Bottleneck
from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian, Graph
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN
from condiff.training import Problem, problem

NAN = float("nan")
TRAIN = torch.arange(6)


def made(**changes: Any) -> Problem:
    given = {"model": network(0, torch.float64), "x": words(), "graph": ring(), "target": labels(), "train": TRAIN}
    return Problem(**(given | changes))


@pytest.mark.parametrize(
    "train",
    [
        [3, 5, 80],
        np.array([3, 5, 80], np.int32),
        torch.tensor([3, 5, 80]),
        torch.tensor([3, 5, -10]),
        np.isin(np.arange(N), [3, 5, 80]),
        torch.isin(torch.arange(N), torch.tensor([3, 5, 80])),
        [node in (3, 5, 80) for node in range(N)],
    ],
    ids=["list", "array", "tensor", "from the end", "mask", "tensor mask", "list of truth values"],
)
def test_masks_and_indices_mean_the_same(train: Any) -> None:
    found = made(train=train, validation=train, settings=EARLY)
    for items in (found.items, found.held_out):
        assert items is not None
        assert items.nodes.tolist() == [3, 5, 80]
        assert items.target.tolist() == labels()[[3, 5, 80]].tolist()
        torch.testing.assert_close(items.weight, torch.full((3,), 1 / 3, dtype=torch.float64))


@pytest.mark.parametrize("missing", [-1, NAN])
def test_by_default_all_known_targets_are_learned_from(missing: float) -> None:
    target = torch.full((N,), missing, dtype=torch.long if missing == -1 else torch.double)
    target[[2, 7]] = torch.tensor([1, 2]).to(target)
    items = made(target=target, train=None).items
    assert items.nodes.tolist() == [2, 7] and items.target.tolist() == [1, 2] and items.target.dtype == torch.long


@pytest.mark.parametrize("form", [np.asarray, torch.as_tensor, sp.csr_array, SparseMatrix.of], ids=lambda f: f.__name__)
def test_features_of_every_form_are_in_the_networks_precision(form: Any) -> None:
    x = form(words().numpy())
    found = made(x=x, model=network(0, torch.float32))
    torch.testing.assert_close(found.dense_x, words().float())
    torch.testing.assert_close(found.sparse_x.to_dense(), words().float())


def test_large_dense_features_of_mostly_zeros_count_as_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not made().mostly_zeros and made(x=sp.csr_array(words().numpy())).mostly_zeros
    monkeypatch.setattr(problem, "_WORTH_A_LOOK", 1)
    assert made().mostly_zeros and not made(x=words() + 1).mostly_zeros


def test_sample_weights_are_normalised_and_only_their_ratio_counts() -> None:
    one, two = (made(sample_weight=scale * np.arange(1.0, 7)).items.weight for scale in (1, 10))
    torch.testing.assert_close(one, torch.arange(1.0, 7, dtype=torch.float64) / 21)
    torch.testing.assert_close(one, two)


def test_each_graph_of_a_batch_counts_alike_and_each_known_entry_in_it() -> None:
    [first, _] = panel(2)(torch.float64)
    x, weights = first.dense_x, first.operator.weights
    target = torch.full((4, 9, 2), NAN, dtype=torch.float64)
    target[0, :3], target[1, 4, 1], target[3, 8] = 1.0, 2.0, 3.0
    found = Problem(first.model, x, DenseLaplacian(weights), target)
    assert found.n_graphs == 3  # one has no known target
    assert torch.equal(found.dense_x, x[[0, 1, 3]])
    assert torch.equal(found.operator.weights, weights[[0, 1, 3]])
    assert found.items.nodes.tolist() == [0, 1, 2, 9 + 4, 18 + 8] and found.items.n_known == 9
    expected = [[1 / 18, 1 / 18]] * 3 + [[0, 1 / 3]] + [[1 / 6, 1 / 6]]
    torch.testing.assert_close(found.items.weight, torch.tensor(expected, dtype=torch.float64))
    assert not found.items.target.isnan().any()


def test_several_items_may_be_of_one_node() -> None:
    items = made(nodes=[4, 4, 7], target=[0, 1, 2], train=None).items
    assert items.nodes.tolist() == [4, 4, 7] and items.target.tolist() == [0, 1, 2]


def test_a_network_without_layers_needs_no_graph() -> None:
    found = made(graph=None, model=network(0, torch.float64, layers=0))
    assert not found.operator(torch.rand(N, 2, dtype=torch.float64)).any()


def test_replacing_shares_what_stays() -> None:
    first = made(sample_weight=torch.ones(6), settings=EARLY)
    other = first.replace(model=network(1, torch.float64), train=[1, 2], sample_weight=None)
    assert other.x is first.x and other.operator is first.operator and other.settings is first.settings
    assert other.items.nodes.tolist() == [1, 2]
    assert first.replace(seed=3).items.weight.tolist() == first.items.weight.tolist()


def test_weights_are_drawn_from_the_seed() -> None:
    with torch.device("meta"):
        template = COIN.build(FEATURES, CLASSES, layers=2, strength=0.1).double()
    drawn = made(model=template, seed=7)
    assert not drawn.has_weights
    torch.manual_seed(7)
    built = COIN.build(FEATURES, CLASSES, layers=2, strength=0.1).double()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    for own, other in zip(drawn.with_weights().model.parameters(), built.parameters(), strict=True):
        assert torch.equal(own, other)
    assert torch.equal(before, torch.get_rng_state())
    assert made().with_weights().has_weights
    with torch.device("meta"):
        genes = COIN(GeneWise(FEATURES // 2, 2), Diffusion(0), head="sigmoid")
    with pytest.raises(InvalidInputError, match="build it on the processor"):
        made(model=genes, target=labels() > 0).with_weights()


def test_without_a_seed_torch_decides() -> None:
    first, second, third = made(), made(), made()
    torch.manual_seed(3)
    assert first.seed_or_drawn != second.seed_or_drawn
    torch.manual_seed(3)
    assert third.seed_or_drawn == first.seed_or_drawn
    assert made(seed=5).seed_or_drawn == 5


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no node": ({"train": []}, "no training node"),
    "empty mask": ({"train": torch.zeros(N, dtype=torch.bool)}, "no training node"),
    "no known target": ({"train": None, "target": torch.full((N,), -1)}, "no training node"),
    "no validation node": ({"validation": []}, "no validation node; pass validation=None"),
    "short mask": ({"train": np.ones(5, bool)}, r"training mask has the shape \(5,\) in place of \(90,\)"),
    "values": ({"train": [0.5, 1.0]}, "a mask or a list of indices"),
    "too far": ({"validation": [3, N]}, "validation nodes must be from 0 to 89, but range to 90"),
    "short target": ({"target": labels()[:5]}, "give one for each node"),
    "two of each": ({"target": torch.zeros(N, 2)}, "learns from 1 value"),
    "class": ({"target": labels() + 3}, "classes must be from 0 to 2, not 3"),
    "no class": ({"target": labels() - 1}, "the target of training node 0 is not known: leave that node out"),
    "lengths": ({"nodes": [1, 2], "target": [0, 1, 2], "train": None}, "2 nodes but 3 targets"),
    "weights' shape": ({"sample_weight": torch.ones(6, 1)}, r"6 training nodes but the sample weights .* \(6, 1\)"),
    "weights' number": ({"sample_weight": torch.ones(5)}, "6 training nodes"),
    "no weight": ({"sample_weight": torch.zeros(6)}, "at least one must be positive"),
    "negative weight": ({"sample_weight": torch.tensor([1.0, 1, 1, 1, 1, -1])}, "not negative"),
    "weight without value": ({"sample_weight": torch.tensor([1.0, 1, 1, 1, 1, math.nan])}, "finite"),
    "holes": ({"x": words() / 0}, "x has NaN or infinite"),
    "sparse holes": ({"x": sp.csr_array(np.where(words() > 0, np.inf, 0.0))}, "x has NaN or infinite"),
    "flat": ({"x": words()[0]}, r"x must be \(nodes, features\)"),
    "narrow": ({"x": words()[:, :5]}, "the network does not take 5 features"),
    "nodes": ({"graph": Graph.of(np.ones((4, 4)))}, r"the graph has the shape \(4, 4\), which is not that of x"),
    "batch": ({"graph": DenseLaplacian(torch.ones(2, N, N))}, r"\(2, 90, 90\), which is not that of x"),
    "no graph": ({"graph": None}, "needs a graph"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fitted_is_refused_in_one_line(case: str) -> None:
    changes, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message) as error:
        made(**changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": torch.full((4, 9), NAN)}, "no target is known"),
        ({"target": torch.full((4, 9), math.inf)}, "infinite entries"),
        ({"target": torch.zeros(4, 9, 3)}, r"1 output\(s\) learns from 1 value\(s\) .* \(36, 3\)"),
        ({"target": torch.zeros(4, 8)}, "give one for each node"),
        ({"graph": DenseLaplacian(torch.ones(3, 9, 9))}, r"\(3, 9, 9\), which is not that of x"),
        ({"x": torch.full((4, 9, 4), NAN)}, "x has NaN"),
        ({"x": torch.zeros(4, 9, 3)}, "does not take 3 features"),
    ],
)
def test_batches_that_cannot_be_fitted_are_refused(changes: dict[str, Any], message: str) -> None:
    [first, _] = panel()(torch.float64)
    with pytest.raises(InvalidInputError, match=message):
        first.replace(**changes)


def test_a_base_with_a_batch_norm_is_asked_about_one_node_and_left_as_it_was() -> None:
    base = torch.nn.Sequential(Bottleneck(FEATURES, 4, CLASSES), torch.nn.BatchNorm1d(CLASSES))
    model = COIN(base, Diffusion(1, 0.1)).double().train()
    assert made(model=model).n_outputs == CLASSES
    assert model.training and int(base[1].num_batches_tracked) == 0


def test_every_kind_is_settled() -> None:
    for make, _ in KINDS.values():
        for each in make(torch.float64):
            assert float(each.items.weight.sum()) == pytest.approx(1.0)
            assert len(chosen()) == N
