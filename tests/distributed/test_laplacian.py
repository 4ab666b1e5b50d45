"""The exchange of border rows and the operator that is built on it, against the whole graph in one process."""

import numpy as np
import pytest
import torch
from tests.distributed.problems import problem
from tests.distributed.ranks import run

from condiff.diffusion import Euler
from condiff.distributed import Exchange, Ranks, Shard, ShardedLaplacian
from condiff.errors import InvalidInputError
from condiff.graph.sparse import Pattern


def product_and_gradients(ranks, folder, u, upstream):
    """Own rows of ``L u``, of three layers, and the gradients of both towards u."""
    shard = Shard.load(folder, ranks, torch.float64)
    own = u[shard.nodes].requires_grad_()
    results = []
    for value in (shard.operator(own), Euler()(shard.operator, own, 0.2, 3)):
        (gradient,) = torch.autograd.grad((value * upstream[shard.nodes]).sum(), own)
        results += [value.detach(), gradient]
    return shard.nodes, torch.stack(results)


def border_and_back(ranks):
    """Rank 0 sends its row 1 twice, rank 1 its rows 0 and 2; each row comes back multiplied by its place."""
    lists = [([1, 1], [0, 2], [0, 2]), ([0, 2], [2, 0], [2, 0])]
    rows, send, receive = lists[ranks.rank]
    exchange = Exchange(ranks, torch.tensor(rows), send, receive)
    u = (torch.arange(6.0, dtype=torch.float64).reshape(3, 2) + 10 * ranks.rank).requires_grad_()
    border = exchange.border(u)
    (gradient,) = torch.autograd.grad((border * torch.tensor([[1.0], [2.0]], dtype=torch.float64)).sum(), u)
    return border.detach(), gradient, ranks.traffic


@pytest.mark.parametrize("directed", [False, True])
def test_two_ranks_compute_the_product_of_one_and_its_gradient(tmp_path, directed):
    made = problem(120, directed=directed)
    made.write(tmp_path / "s", 2, dtype="float64")
    generator = torch.Generator().manual_seed(0)
    u, upstream = (torch.randn(120, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    whole = made.graph.normalised(self_loops="add").laplacian(torch.float64)
    own = u.clone().requires_grad_()
    expected = []
    for value in (whole(own), Euler()(whole, own, 0.2, 3)):
        expected += [value.detach(), torch.autograd.grad((value * upstream).sum(), own)[0]]
    for nodes, found in run(2, product_and_gradients, tmp_path / "s", u, upstream):
        assert torch.allclose(found, torch.stack(expected)[:, nodes], atol=1e-13, rtol=0)


def test_rows_come_in_order_and_their_gradients_add_up_where_they_came_from():
    (border0, gradient0, traffic), (border1, gradient1, _) = run(2, border_and_back)
    assert border0.tolist() == [[10.0, 11.0], [14.0, 15.0]]
    assert border1.tolist() == [[2.0, 3.0], [2.0, 3.0]]
    assert gradient0.tolist() == [[0, 0], [3, 3], [0, 0]]  # both copies of row 1
    assert gradient1.tolist() == [[1, 1], [0, 0], [2, 2]]
    assert (traffic.exchanges, traffic.messages, traffic.rows, traffic.payload) == (2, 2, 4, 4 * 2 * 8)


def test_alone_nothing_is_exchanged(tmp_path):
    made = problem(120)
    made.write(tmp_path / "s", 1, dtype="float64")
    ranks = Ranks()
    shard = Shard.load(tmp_path / "s", ranks, torch.float64)
    u = torch.randn(120, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = made.graph.normalised(self_loops="add").laplacian(torch.float64)(u)
    assert torch.allclose(shard.operator(u), expected, atol=1e-14)
    assert ranks.traffic.payload == ranks.traffic.exchanges == 0


def test_layers_keep_nothing_for_the_backward_pass(tmp_path):
    """Memory in training does not grow with the layers: no intermediate ``u`` is saved."""
    problem(120, directed=True).write(tmp_path / "directed", 1, dtype="float64")
    problem(120).write(tmp_path / "symmetric", 1, dtype="float64")
    for name in ("directed", "symmetric"):
        operator = Shard.load(tmp_path / name, Ranks(), torch.float64).operator
        saved = []

        def keep(tensor, into=saved):
            into.append(tensor.numel())
            return tensor

        u = torch.rand(120, 3, dtype=torch.float64, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            Euler()(operator, u, 0.1, 4).sum().backward()
        assert 120 * 3 not in saved


def test_precision_and_place(tmp_path):
    problem(120).write(tmp_path / "s", 1)
    operator = Shard.load(tmp_path / "s", Ranks()).operator
    assert operator.to(dtype=torch.float32) is operator
    assert operator.to(dtype=torch.float64)(torch.ones(120, 2, dtype=torch.float64)).dtype == torch.float64
    assert operator.transposed is operator
    with pytest.raises(InvalidInputError, match="stays on the processor"):
        operator.to("meta")
    with pytest.raises(InvalidInputError, match="u has 5 rows"):
        operator(torch.ones(5, 2))


def test_a_directed_one_has_no_transpose_and_columns_must_fit():
    pattern = Pattern(torch.tensor([0, 1], dtype=torch.int32), torch.tensor([1], dtype=torch.int32), 2)
    exchange = Exchange(Ranks(0, 2), torch.tensor([0]), [0, 1], [0, 1])
    operator = ShardedLaplacian(pattern, torch.ones(1), torch.ones(1), exchange, symmetric=False)
    assert operator.diagonal.tolist() == [1.0]
    with pytest.raises(InvalidInputError, match="for gradients only"):
        operator.transposed  # noqa: B018
    wider = Exchange(Ranks(0, 2), torch.tensor([0]), [0, 1], [0, 3])
    with pytest.raises(InvalidInputError, match="1 own and 3 border"):
        ShardedLaplacian(pattern, torch.ones(1), torch.ones(1), wider, symmetric=False)


def test_gradients_of_one_rank_by_differences(tmp_path):
    problem(30, directed=True).write(tmp_path / "s", 1, dtype="float64")
    operator = Shard.load(tmp_path / "s", Ranks(), torch.float64).operator
    u = torch.tensor(np.random.default_rng(0).normal(size=(30, 2)), requires_grad=True)
    assert torch.autograd.gradcheck(operator, u)
