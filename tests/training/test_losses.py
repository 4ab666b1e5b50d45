from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from condiff.model import Head
from condiff.training import ClassBalance, pointwise_loss
from condiff.training.losses import is_right, loss_gradient

DTYPES = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_loss_and_gradient_are_cross_entropy_of_the_logits(dtype: torch.dtype) -> None:
    logits, target = torch.randn(7, 4, dtype=dtype, requires_grad=True), torch.randint(0, 4, (7,))
    found = pointwise_loss(torch.softmax(logits, -1), target, "softmax")
    expected = F.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), logits)[0])


def test_softmax_loss_is_nll_of_the_log() -> None:
    u, target = torch.rand(7, 4), torch.randint(0, 4, (7,))
    torch.testing.assert_close(pointwise_loss(u, target, "softmax"), F.nll_loss(u.log(), target, reduction="none"))


def test_softmax_loss_of_a_batch() -> None:
    u, target = torch.softmax(torch.randn(3, 7, 4), -1), torch.randint(0, 4, (3, 7))
    found = pointwise_loss(u, target, "softmax")
    assert found.shape == (3, 7)
    torch.testing.assert_close(found[1], pointwise_loss(u[1], target[1], "softmax"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (7, 1)], ids=["flat", "column"])
def test_sigmoid_loss_and_gradient_are_binary_cross_entropy_of_the_logits(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    logits, target = torch.randn(7, 1, dtype=dtype, requires_grad=True), torch.randint(0, 2, shape)
    found = pointwise_loss(torch.sigmoid(logits), target, "sigmoid")
    truth = target.reshape(7, 1).to(dtype)
    expected = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), logits)[0])


@pytest.mark.parametrize("columns", [1, 3])
def test_identity_loss_is_the_squared_error_of_every_entry(columns: int) -> None:
    u, target = torch.randn(7, columns), torch.randn(7, columns)
    expected = F.mse_loss(u, target, reduction="none")
    torch.testing.assert_close(pointwise_loss(u, target, "identity"), expected)
    if columns == 1:
        torch.testing.assert_close(pointwise_loss(u, target[:, 0], "identity"), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [-0.3, 0.0])
def test_softmax_loss_is_cut_off_where_u_is_no_probability(dtype: torch.dtype, value: float) -> None:
    u = torch.tensor([[value, 1 - value], [0.25, 0.75]], dtype=dtype, requires_grad=True)
    losses = pointwise_loss(u, torch.tensor([0, 0]), "softmax")
    assert losses[0].item() == pytest.approx(-math.log(torch.finfo(dtype).tiny))
    assert losses[1].item() == pytest.approx(math.log(4))
    losses.sum().backward()
    assert u.grad.tolist() == [[0.0, 0.0], [-4.0, 0.0]]


@pytest.mark.parametrize(("value", "truth"), [(-0.3, 1), (1.3, 0), (0.0, 1), (1.0, 0)])
def test_sigmoid_loss_is_cut_off_where_u_is_no_probability(value: float, truth: int) -> None:
    u = torch.tensor([[value]], requires_grad=True)
    loss = pointwise_loss(u, torch.tensor([truth]), "sigmoid")
    assert loss.item() == pytest.approx(-math.log(torch.finfo(torch.float32).tiny))
    loss.sum().backward()
    assert u.grad.item() == 0.0


def test_sigmoid_loss_past_the_right_end_is_finite() -> None:
    found = pointwise_loss(torch.tensor([[1.3], [-0.3]]), torch.tensor([1, 0]), "sigmoid")
    torch.testing.assert_close(found, torch.full((2, 1), -math.log(1.3)))


@pytest.mark.parametrize("head", ["softmax", "sigmoid", "identity"])
def test_the_gradient_is_that_of_autograd(head: Head) -> None:
    u = torch.rand(2, 9, 3) * 1.4 - 0.2  # beyond both ends too
    u[0, 0], u[1, 1] = 0.0, 1.0
    target = {
        "softmax": torch.randint(0, 3, (9,)),
        "sigmoid": torch.randint(0, 2, (9, 3)).float(),
        "identity": torch.randn(9, 3),
    }[head]
    weight = torch.rand(2, *target.shape)
    leaf = u.requires_grad_()
    (expected,) = torch.autograd.grad((weight * pointwise_loss(leaf, target, head)).sum(), leaf)
    torch.testing.assert_close(loss_gradient(u.detach(), target, weight, head), expected)


def test_what_is_right() -> None:
    u = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    assert is_right(u, torch.tensor([1, 0, 0]), "softmax").tolist() == [True, True, False]
    assert is_right(u[:, :1], torch.tensor([0, 1, 1]), "sigmoid").tolist() == [[True], [True], [False]]
    assert is_right(torch.tensor([[0.51], [0.49]]), torch.tensor([1, 0]), "sigmoid").all()


def test_the_balance_of_classes_is_a_divergence_of_the_mean_output() -> None:
    u = torch.softmax(torch.randn(3, 7, 4), -1)
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4])
    balance = ClassBalance(prior, 2.0)
    expected = 2 * torch.stack([(prior * (prior / each.mean(0)).log()).sum() for each in u])
    torch.testing.assert_close(balance(u), expected)
    assert (balance(u) > 0).all()
    torch.testing.assert_close(balance(prior.expand(7, 4)), torch.tensor(0.0))
    rows = torch.stack([prior, prior.flip(0), torch.full((4,), 0.25)])
    stacked = ClassBalance.stacked([ClassBalance(row, 2.0) for row in rows])
    torch.testing.assert_close(stacked(u), torch.stack([ClassBalance(p, 2.0)(e) for p, e in zip(rows, u, strict=True)]))
