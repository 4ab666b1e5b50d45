r"""The exact fast fit of few points with wide features: few-shot tasks.

Gradient descent with momentum and weight decay moves the wide weight W only within its first value and the span of the
inputs, so that :math:`H = X W^T` follows a descent of its own:

.. math:: \nabla_H = X X^T\, \partial \ell / \partial H, \qquad M \leftarrow \mu M + \nabla_H + \lambda H,
   \qquad H \leftarrow H - \eta M .

W is multiplied once and not touched again. With 80 points and 640 features an epoch costs an eighth of the plain one,
and everything it touches stays in the processor's cache. Tasks are independent: each core works on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condiff.bases import Residual
from condiff.errors import InvalidInputError
from condiff.kernels.threads import one_torch_thread
from condiff.model import COIN
from condiff.training.compiled import is_available
from condiff.training.losses import pointwise_loss
from condiff.training.reference import History
from condiff.training.settings import Training

#: Bytes that the wide weights of a batch may take.
_ROOM = 256 * 2**20
#: Outputs that a compiled row has room for.
_MOST_OUTPUTS = 64


class Weights(NamedTuple):
    """Those of a :class:`Residual` of one block, as wide as its input; or ``X W^T`` in the place of the wide one."""

    wide: Tensor
    biases: Tensor
    readout: Tensor
    readout_bias: Tensor


class Fitted(NamedTuple):
    """A task's outputs before the softmax, its weights with ``X W^T`` as the wide one, and the loss of every epoch."""

    z: Tensor
    weights: Weights
    losses: Tensor


def fit_gram(model: COIN, x: Tensor, rows: Tensor, target: Tensor, *, settings: Training) -> History:
    """Fit one network in place, as :func:`condiff.training.reference.fit` would without validation points.

    Parameters
    ----------
    model
        A softmax classifier whose base is a :class:`Residual` of one ReLU block, as wide as its input.
    x
        Dense features, (points, features).
    rows
        For each labelled point, its row of the diffusion ``P``, (labelled, points).
    target
        Their classes.
    settings
        Gradient descent (``sgd``) and its schedule, without early stopping.
    """
    base = model.convection
    assert isinstance(base, Residual)
    parameters = list(base.parameters())
    _check(x[None], rows[None], target[None], base.readout.out_features, settings)
    first = Weights(*(parameter.detach() for parameter in parameters))
    [fitted] = _fit(x[None], rows[None], target[None], [first], settings)
    # W stays within its first value, shrunk by the decay, and the span of the inputs: so X W^T determines it.
    wide, inputs = first.wide.double(), x.double()
    shrunk = _shrinkage(settings) * wide
    moved = torch.linalg.pinv(inputs) @ (fitted.weights.wide.double() - inputs @ shrunk.mT)
    last = fitted.weights._replace(wide=shrunk + moved.mT)
    with torch.no_grad():
        for parameter, value in zip(parameters, last, strict=True):
            parameter.copy_(value)
    model.eval()
    return History(fitted.losses.tolist(), settings.epochs - 1)


def fit_tasks(
    x: Tensor, rows: Tensor, target: Tensor, n_outputs: int, *, seeds: Sequence[int], settings: Training
) -> Tensor:
    """Fit a fresh classifier to each of several tasks; returns ``u_0`` of all points, (tasks, points, classes).

    The network of a task is that of ``COIN.build(features, n_outputs)`` under ``torch.manual_seed(seed)``.

    Parameters
    ----------
    x, rows, target
        As in :func:`fit_gram`, with the tasks as first dimension.
    n_outputs
        Classes of a task.
    seeds
        One for each task.
    settings
        As in :func:`fit_gram`.
    """
    _check(x, rows, target, n_outputs, settings)
    if len(seeds) != len(x):
        raise InvalidInputError(f"there are {len(x)} tasks but {len(seeds)} seeds")
    size, found = batch_size(x), []
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        first = [_Fresh(x.shape[-1], n_outputs, seed, x.dtype) for seed in seeds[part]]
        found += [fitted.z for fitted in _fit(x[part], rows[part], target[part], first, settings)]
    return torch.softmax(torch.stack(found), dim=-1)


def batch_size(x: Tensor) -> int:
    """How many tasks of this shape are trained at once: as many as their wide weights leave room for."""
    features = x.shape[-1]
    return max(1, _ROOM // (features * features * x.element_size()))


class _Fresh(NamedTuple):
    """The first weights of ``COIN.build`` under ``torch.manual_seed``, drawn when they are asked for."""

    n_features: int
    n_outputs: int
    seed: int
    dtype: torch.dtype

    def weights(self) -> Weights:
        bound = 1 / math.sqrt(self.n_features)
        wide, outer = (self.n_features, self.n_features), (self.n_outputs, self.n_features)
        shapes: list[tuple[int, ...]] = [wide, (self.n_features,), outer, (self.n_outputs,)]
        sizes = [math.prod(shape) for shape in shapes]
        drawn = torch.empty(sum(sizes))
        if is_available():
            from condiff.kernels.draw import fill_uniform

            fill_uniform(drawn.numpy(), self.seed & 0xFFFFFFFF, -bound, bound)
        else:
            drawn.uniform_(-bound, bound, generator=torch.Generator().manual_seed(self.seed))
        parts = drawn.to(self.dtype).split(sizes)
        return Weights(*(part.view(shape) for part, shape in zip(parts, shapes, strict=True)))


First = Sequence[Weights] | Sequence[_Fresh]


def _fit(x: Tensor, rows: Tensor, target: Tensor, first: First, settings: Training) -> list[Fitted]:
    compiled = is_available() and x.device.type == "cpu" and _outputs_of(first[0]) <= _MOST_OUTPUTS
    return (_fit_compiled if compiled else _fit_torch)(x, rows, target, first, settings)


def _fit_compiled(x: Tensor, rows: Tensor, target: Tensor, first: First, settings: Training) -> list[Fitted]:
    from condiff.kernels.gram import train
    from condiff.kernels.vectors import WIDTH

    x, rows, target = x.contiguous(), rows.contiguous(), target.long().contiguous()
    gram, n_features = (x @ x.mT).numpy(), x.shape[-1]
    kind = gram.dtype.type
    rates = np.array([settings.learning_rate_at(epoch) for epoch in range(settings.epochs)], kind)
    constants = kind(settings.momentum), kind(settings.weight_decay), kind(torch.finfo(x.dtype).tiny)

    def work(task: int) -> Fitted:
        wide, biases, readout, readout_bias = _drawn(first[task])
        n_outputs = len(readout)
        hidden = in_blocks(x[task] @ wide.mT, WIDTH)
        rest = torch.zeros(n_outputs + 2, len(hidden) * WIDTH, dtype=x.dtype)
        rest[0, :n_features], rest[1:-1, :n_features], rest[-1, :n_outputs] = biases, readout, readout_bias
        small = in_blocks(rest, WIDTH)
        z, losses = np.empty((x.shape[1], n_outputs), gram.dtype), np.empty(settings.epochs, gram.dtype)
        speed, small_speed = (torch.zeros(each.shape, dtype=x.dtype).numpy() for each in (hidden, small))
        inputs = gram[task], rows[task].numpy(), target[task].numpy(), in_blocks(x[task], WIDTH)
        train(*inputs, hidden, speed, small, small_speed, z, losses, rates, *constants)
        rest = _joined(small)
        parts = rest[0, :n_features], rest[1:-1, :n_features], rest[-1, :n_outputs]
        return Fitted(torch.from_numpy(z), Weights(_joined(hidden)[:, :n_features], *parts), torch.from_numpy(losses))

    return _in_threads(work, len(x))


def _in_threads(work: Callable[[int], Fitted], count: int) -> list[Fitted]:
    """One task a core; torch itself then uses one thread, because several in each would get in each other's way."""
    threads = torch.get_num_threads()
    if threads == 1 or count == 1:
        return [work(task) for task in range(count)]
    with one_torch_thread(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(count)))


def _fit_torch(x: Tensor, rows: Tensor, target: Tensor, first: First, settings: Training) -> list[Fitted]:
    """The same with torch's operations on all tasks at once."""
    drawn = (torch.stack(each).to(x.device) for each in zip(*map(_drawn, first), strict=True))
    wide, biases, readout, readout_bias = drawn
    gram = x @ x.mT
    values = [x @ wide.mT, biases[:, None], readout, readout_bias[:, None]]
    speeds = [torch.zeros_like(value) for value in values]
    losses = []
    for epoch in range(settings.epochs):
        leaves = [value.requires_grad_() for value in values]
        u = torch.softmax(_outputs(x, leaves), dim=-1)
        losses.append(pointwise_loss(rows @ u, target, "softmax").mean(-1))
        gradients = list(torch.autograd.grad(losses[-1].sum(), leaves))
        losses[-1] = losses[-1].detach()
        gradients[0] = gram @ gradients[0]
        with torch.no_grad():
            for value, speed, gradient in zip(values, speeds, gradients, strict=True):
                speed.mul_(settings.momentum).add_(gradient).add_(value, alpha=settings.weight_decay)
                value.sub_(speed, alpha=settings.learning_rate_at(epoch))
    z, all_losses = _outputs(x, values).detach(), torch.stack(losses, dim=1)
    hidden, biases, readout, readout_bias = (value.detach() for value in values)
    return [
        Fitted(z[task], Weights(hidden[task], biases[task, 0], readout[task], readout_bias[task, 0]), all_losses[task])
        for task in range(len(x))
    ]


def _outputs(x: Tensor, values: Sequence[Tensor]) -> Tensor:
    hidden, biases, readout, readout_bias = values
    return (x + torch.relu(hidden + biases)) @ readout.mT + readout_bias


def _drawn(first: Weights | _Fresh) -> Weights:
    return first.weights() if isinstance(first, _Fresh) else first


def _outputs_of(first: Weights | _Fresh) -> int:
    return first.n_outputs if isinstance(first, _Fresh) else len(first.readout)


def _shrinkage(settings: Training) -> float:
    """What is left of a weight that only decay moves."""
    value, speed = 1.0, 0.0
    for epoch in range(settings.epochs):
        speed = settings.momentum * speed + settings.weight_decay * value
        value -= settings.learning_rate_at(epoch) * speed
    return value


def in_blocks(values: Tensor, width: int) -> NDArray[Any]:
    """(rows, features) as (blocks, rows, width), filled up with zeros; torch lets memory begin with a cache line."""
    missing = -values.shape[-1] % width
    padded = torch.nn.functional.pad(values, (0, missing)) if missing else values
    blocks: NDArray[Any] = padded.unflatten(-1, (-1, width)).transpose(0, 1).contiguous().numpy()
    return blocks


def _joined(blocks: NDArray[Any]) -> Tensor:
    """The reverse of :func:`in_blocks`, with the zeros."""
    return torch.from_numpy(blocks).transpose(0, 1).flatten(1)


def _check(x: Tensor, rows: Tensor, target: Tensor, n_outputs: int, settings: Training) -> None:
    if settings.optimiser != "sgd":
        raise InvalidInputError(f"the fit in Gram space is for sgd, not {settings.optimiser}")
    if x.ndim != 3 or rows.ndim != 3 or rows.shape[::2] != x.shape[:2] or target.shape != rows.shape[:2]:
        raise InvalidInputError(
            "x, rows and target must have the shapes (tasks, points, features), (tasks, labelled, points) and "
            f"(tasks, labelled), not {tuple(x.shape)}, {tuple(rows.shape)} and {tuple(target.shape)}"
        )
    if not target.numel():
        raise InvalidInputError("there is no labelled point")
    if not 0 <= int(target.min()) <= int(target.max()) < n_outputs:
        raise InvalidInputError(f"classes must be from 0 to {n_outputs - 1}")
