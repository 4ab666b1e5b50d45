r"""Few points with wide features, many tasks at once: the engine of few-shot tasks.

Gradient descent with momentum and weight decay moves the wide weight W only within its first value and the span of the
inputs, so that :math:`H = X W^T` follows a descent of its own:

.. math:: \nabla_H = X X^T\, \partial \ell / \partial H, \qquad M \leftarrow \mu M + \nabla_H + \lambda H,
   \qquad H \leftarrow H - \eta M .

W is multiplied once and not touched again. With 80 points and 640 features an epoch costs an eighth of the plain one,
and everything it touches stays in the processor's cache. Tasks are independent: each core works on its own. All epochs
of a task are one compiled call where numba is installed, because the loop over them in Python would cost as much as the
epochs; elsewhere the common loop descends on all tasks at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from condiff.graph import DenseLaplacian
from condiff.kernels import available
from condiff.kernels.threads import one_torch_thread
from condiff.model import COIN
from condiff.training.descent import Networks, OnEpoch, descend
from condiff.training.engine import Engine, Fitted, refuses_diffusion, refuses_extras, refuses_unlike
from condiff.training.engines.projected import is_square
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Items, Problem
from condiff.training.readout import Rows, checked_strength
from condiff.training.settings import Training

#: Bytes that the wide weights of a batch may take.
_ROOM = 256 * 2**20
#: Outputs that a compiled row has room for.
_MOST_OUTPUTS = 64


class Gram(Engine):
    """Softmax networks of one ReLU block as wide as its input, under gradient descent with momentum."""

    name = "gram"
    draws_weights = True

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        for each in problems:
            if not is_square(each.model.convection) or each.head != "softmax":
                return "the network is not a softmax on one ReLU block as wide as its input"
            if each.settings.optimiser != "sgd":
                return f"it is for gradient descent (sgd), not {each.settings.optimiser}"
            if bool((each.items.weight != each.items.weight[0]).any()):
                return "labels have weights of their own"
        if len({(tuple(each.x.shape), len(each.items.nodes)) for each in problems}) > 1:
            return "the tasks are not of one shape"
        return refuses_diffusion(problems) or refuses_extras(problems) or refuses_unlike(problems)

    def declines(self, problems: Sequence[Problem]) -> str | None:
        points, features = problems[0].x.shape
        return None if points < features else "there are not fewer points than features"

    def reason(self, problems: Sequence[Problem]) -> str:
        return "fewer points than features: gradient descent acts on X W^T alone"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        features = problems[0].x.shape[-1]
        at_once = max(1, _ROOM // (features * features * torch.finfo(problems[0].dtype).bits // 8))
        found: list[Fitted] = []
        for start in range(0, len(problems), at_once):
            found += _fit(problems[start : start + at_once])
        if on_epoch is not None:  # afterwards: all epochs are one compiled call
            for epoch, losses in enumerate(zip(*(each.losses for each in found), strict=True)):
                on_epoch(epoch, sum(losses) / len(losses))
        return found


class Weights(NamedTuple):
    """Those of a :class:`Residual` of one block, as wide as its input; or ``X W^T`` instead of the wide one."""

    wide: Tensor
    biases: Tensor
    readout: Tensor
    readout_bias: Tensor


class _Trained(NamedTuple):
    """A task's outputs before the softmax, its weights with ``X W^T`` as the wide one, and the loss of every epoch."""

    z: Tensor
    weights: Weights
    losses: Tensor


def _fit(problems: Sequence[Problem]) -> list[Fitted]:
    first = problems[0]
    x = torch.stack([each.dense_x for each in problems])
    matrices = _matrices(problems)
    nodes = torch.stack([each.items.nodes for each in problems])
    rows = matrices.gather(1, nodes[..., None].expand(-1, -1, x.shape[1]))
    target = torch.stack([each.items.target for each in problems])
    compiled = available() and x.device.type == "cpu" and first.n_outputs <= _MOST_OUTPUTS
    trained = (_train_compiled if compiled else _train_torch)(x, rows, target, problems)
    fitted = []
    for each, result, matrix in zip(problems, trained, matrices, strict=True):
        give_back = _GiveBack(each, result.weights)
        if each.has_weights:
            give_back()
        model = None if each.has_weights else give_back
        fitted.append(Fitted(each, result.losses.tolist(), each.settings.epochs - 1, model=model, matrix=matrix))
        fitted[-1].base_outputs = torch.softmax(result.z, dim=-1)
    return fitted


def _matrices(problems: Sequence[Problem]) -> Tensor:
    """``P`` of every task, (tasks, points, points)."""
    first, diffusion = problems[0], problems[0].model.diffusion
    unit = torch.eye(first.n_nodes, dtype=first.dtype, device=first.device)
    operators = [each.operator for each in problems]
    with torch.no_grad():
        if diffusion.strength != "auto" and all(isinstance(each, DenseLaplacian) for each in operators):
            together = DenseLaplacian(torch.stack([each.weights for each in operators]), symmetric=True)
            strength = checked_strength(diffusion, together)
            return diffusion.solver(together, unit.expand(together.weights.shape), strength, diffusion.layers)
        return torch.stack(
            [diffusion.solver(each, unit, checked_strength(diffusion, each), diffusion.layers) for each in operators]
        )


class _GiveBack:
    """Makes the whole network from its first weights and ``X W^T``, when it is asked for."""

    def __init__(self, problem: Problem, weights: Weights) -> None:
        self.problem, self.weights = problem, weights

    def __call__(self) -> COIN:
        problem = self.problem.with_weights()
        # W stays within its first value, shrunk by the decay, and the span of the inputs: so X W^T determines it.
        wide, inputs = next(problem.model.convection.parameters()).detach().double(), problem.dense_x.double()
        shrunk = _shrinkage(problem.settings) * wide
        moved = torch.linalg.pinv(inputs) @ (self.weights.wide.double() - inputs @ shrunk.mT)
        with torch.no_grad():
            last = self.weights._replace(wide=shrunk + moved.mT)
            for own, value in zip(problem.model.convection.parameters(), last, strict=True):
                own.copy_(value)
        return problem.model.eval()


def _shrinkage(settings: Training) -> float:
    """What is left of a weight that only decay moves."""
    value, speed = 1.0, 0.0
    for epoch in range(settings.epochs):
        speed = settings.momentum * speed + settings.weight_decay * value
        value -= settings.learning_rate_at(epoch) * speed
    return value


def _first_weights(problem: Problem) -> Weights:
    """The network's first weights; those that are not drawn yet are drawn by a compiled loop."""
    if problem.has_weights:
        return Weights(*(own.detach() for own in problem.model.convection.parameters()))
    shapes = [own.shape for own in problem.model.convection.parameters()]
    sizes = [math.prod(shape) for shape in shapes]
    drawn, bound, seed = torch.empty(sum(sizes)), 1 / math.sqrt(shapes[0][1]), problem.seed_or_drawn
    if available():
        from condiff.kernels.draw import fill_uniform

        fill_uniform(drawn.numpy(), seed & 0xFFFFFFFF, -bound, bound)
    else:
        drawn.uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))
    parts = drawn.to(problem.device, problem.dtype).split(sizes)
    return Weights(*(part.view(shape) for part, shape in zip(parts, shapes, strict=True)))


def _train_compiled(x: Tensor, rows: Tensor, target: Tensor, problems: Sequence[Problem]) -> list[_Trained]:
    from condiff.kernels.gram import train
    from condiff.kernels.layout import from_blocks, in_blocks

    settings = problems[0].settings
    gram, n_features = (x @ x.mT).numpy(), x.shape[-1]
    kind = gram.dtype.type
    rates = np.array([settings.learning_rate_at(epoch) for epoch in range(settings.epochs)], kind)
    constants = kind(settings.momentum), kind(settings.weight_decay), kind(torch.finfo(x.dtype).tiny)

    def work(task: int) -> _Trained:
        wide, biases, readout, readout_bias = _first_weights(problems[task])
        n_outputs = len(readout)
        hidden = in_blocks(x[task] @ wide.mT)
        rest = torch.zeros(n_outputs + 2, len(hidden) * hidden.shape[2], dtype=x.dtype)
        rest[0, :n_features], rest[1:-1, :n_features], rest[-1, :n_outputs] = biases, readout, readout_bias
        small = in_blocks(rest)
        z, losses = np.empty((x.shape[1], n_outputs), gram.dtype), np.empty(settings.epochs, gram.dtype)
        speed, small_speed = (torch.zeros(each.shape, dtype=x.dtype).numpy() for each in (hidden, small))
        inputs = gram[task], rows[task].numpy(), target[task].numpy(), in_blocks(x[task])
        train(*inputs, hidden, speed, small, small_speed, z, losses, rates, *constants)
        rest = from_blocks(small)
        last = from_blocks(hidden)[:, :n_features], rest[0, :n_features], rest[1:-1, :n_features], rest[-1, :n_outputs]
        return _Trained(torch.from_numpy(z), Weights(*last), torch.from_numpy(losses))

    return _in_threads(work, len(x))


def _in_threads(work: Callable[[int], _Trained], count: int) -> list[_Trained]:
    """One task per core; torch itself then uses one thread, because several in each would get in each other's way."""
    threads = torch.get_num_threads()
    if threads == 1 or count == 1:
        return [work(task) for task in range(count)]
    with one_torch_thread(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(count)))


def _train_torch(x: Tensor, rows: Tensor, target: Tensor, problems: Sequence[Problem]) -> list[_Trained]:
    settings, networks = problems[0].settings, _Networks(x, list(map(_first_weights, problems)), problems[0].settings)
    weight = torch.full_like(rows[..., 0], 1 / target.shape[1])
    items = Items(target, target, weight, target.numel())
    course = descend(networks, Rows(rows), items, "softmax", settings)
    hidden, biases, readout, readout_bias = (value.detach() for value in networks.values)
    losses = torch.stack(course.losses, dim=1)
    return [
        _Trained(z, Weights(hidden[task], biases[task, 0], readout[task], readout_bias[task, 0]), losses[task])
        for task, z in enumerate(networks.before_softmax().detach())
    ]


class _Networks(Networks):
    """The networks of all tasks by torch's operations, with ``H`` instead of the wide weight."""

    def __init__(self, x: Tensor, first: Sequence[Weights], settings: Training) -> None:
        wide, biases, readout, readout_bias = (torch.stack(each) for each in zip(*first, strict=True))
        values = [x @ wide.mT, biases[:, None], readout, readout_bias[:, None]]
        self.x, self.gram, self.values = x, x @ x.mT, [value.requires_grad_() for value in values]
        self.optimiser = Optimiser(self.values, settings)

    def before_softmax(self) -> Tensor:
        hidden, biases, readout, readout_bias = self.values
        return (self.x + torch.relu(hidden + biases)) @ readout.mT + readout_bias

    def outputs(self) -> Tensor:
        self.u = torch.softmax(self.before_softmax(), dim=-1)
        return self.u.detach()

    def backward(self, gradient: Tensor) -> None:
        self.u.backward(gradient)
        hidden = self.values[0]
        assert hidden.grad is not None
        hidden.grad = self.gram @ hidden.grad

    def give_back(self) -> None:
        """Nothing: the networks are made from what is left here."""
