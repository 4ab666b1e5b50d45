r"""The diffusion residual network (Wang, Dou, Bao and Shi, TPAMI 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff import kernels
from condiff.errors import InvalidInputError
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.method import check_probabilities
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import WIDTH, product, symmetric_product
from condiff.reproduce.runs import NO_CONDITION, Condition

#: Step size, layers and dropout of the authors' comparison.
_AUTHORS = {"cora": (0.25, 20, 0.25), "citeseer": (0.2, 20, 0.35), "pubmed": (0.4, 10, 0.3)}
_BYTES = 256


@dataclass(frozen=True)
class DiffResNet(NetworkMethod):
    r"""One residual block, diffusion of the features, and a linear classifier.

    :math:`x \leftarrow x + \mathrm{relu}(W x + b)` as wide as the features, then in every layer dropout and
    :math:`x \leftarrow x - \gamma L x`, where :math:`L = \mathrm{diag}(S 1) - S` and
    :math:`S = D^{-1/2}(A + I)D^{-1/2}`. Architecture, optimiser and settings are those that its authors, who are also
    COIN's, have in the repositories of both papers; their protocol is the one of this benchmark.

    Parameters
    ----------
    step_size
        :math:`\gamma`, the strength of one layer.
    layers
        The number of diffusion layers.
    dropout
        Probability with which the inputs of every diffusion layer are dropped in training, rounded to 1/256. The masks
        that a seed gives differ where numba is not installed.
    """

    step_size: float = 0.25
    layers: int = 20
    dropout: float = 0.25

    def __post_init__(self) -> None:
        if not (0 <= self.step_size < math.inf and self.layers >= 0):
            raise InvalidInputError(
                f"step_size and layers must not be negative, but are {self.step_size} and {self.layers}"
            )
        check_probabilities(dropout=self.dropout)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if dataset not in _AUTHORS:
            return cls()
        step_size, layers, dropout = _AUTHORS[dataset]
        return cls(step_size=step_size, layers=layers, dropout=dropout)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        kernels.warm_up(["dropout", "product"])
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: DiffResNet, width: int = WIDTH) -> None:
        super().__init__()
        weights = problem.graph.normalised("symmetric", self_loops="add").weights
        kept = 1 - settings.step_size * np.asarray(weights.sum(axis=1)).ravel()
        self.step = SparseMatrix.of(sp.diags_array(kept) + settings.step_size * weights)
        self.x, self.layers, self.dropout, self.width = problem.x, settings.layers, settings.dropout, width
        self.own = [block.contiguous() for block in problem.x_dense.split(width, 1)]
        n_features = problem.n_features
        bound = 1 / math.sqrt(n_features)
        weight = torch.empty(n_features, n_features).uniform_(-bound, bound)
        # Features diffuse a few at a time, so that all their layers find them in the processor's cache.
        self.blocks = nn.ParameterList(block.contiguous() for block in weight.split(width, 1))
        self.bias = nn.Parameter(torch.empty(n_features).uniform_(-bound, bound))
        self.classes = nn.Parameter(torch.empty(n_features, problem.n_classes).uniform_(-bound, bound))
        self.classes_bias = nn.Parameter(torch.empty(problem.n_classes).uniform_(-bound, bound))
        self._ready: tuple[list[int], list[Tensor]] = [], []

    def forward(self) -> Tensor:
        dropped = self.training and self.dropout > 0
        diffusion = _CompiledDiffusion if kernels.available() else _TorchDiffusion
        logits: Tensor | float = 0.0
        for hidden, classes in zip(self._hidden(), self.classes.split(self.width), strict=True):
            if dropped:
                hidden = diffusion.apply(hidden, self.step, self.layers, self.dropout)  # type: ignore[no-untyped-call]
            logits = logits + hidden @ classes
        assert isinstance(logits, Tensor)
        if not dropped:
            # Without dropout the diffusion commutes with the classifier, and classes are far fewer than features.
            for _ in range(self.layers):
                logits = symmetric_product(self.step, logits)
        return torch.log_softmax(logits + self.classes_bias, dim=-1)

    def _hidden(self) -> list[Tensor]:
        """The residual block's outputs: those of a validation serve the next epoch, which has the same weights."""
        versions = [parameter._version for parameter in self.parameters()]
        known, hidden = self._ready
        self._ready = [], []
        if not self.training or known != versions:
            with torch.enable_grad():
                hidden = [
                    own + torch.relu(product(self.x, weight) + bias)
                    for own, weight, bias in zip(self.own, self.blocks, self.bias.split(self.width), strict=True)
                ]
        if not self.training:
            self._ready = versions, hidden
        return hidden


class _CompiledDiffusion(torch.autograd.Function):
    """Dropout and a step of diffusion, many times over, for at most 64 columns."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, step: SparseMatrix, layers: int, dropout: float) -> Tensor:
        from condiff.kernels import dropout as dropped_kernels

        ctx.run = _Run(step, layers, dropout, _random_key())
        out: Tensor = ctx.run(dropped_kernels.forward, hidden)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        from condiff.kernels import dropout as dropped_kernels

        # The step is symmetric: its transpose is itself.
        return ctx.run(dropped_kernels.backward, gradient), None, None, None


class _Run:
    """One draw of all dropout: the key determines every mask, forward and backward."""

    def __init__(self, step: SparseMatrix, layers: int, dropout: float, key: np.uint64) -> None:
        least = round(_BYTES * dropout)
        self.settings = layers, key, least
        self.scale = (_BYTES / (_BYTES - least)) ** layers
        pattern = step.pattern
        self.matrix = pattern.crow_indices.numpy(), pattern.col_indices.numpy(), step.values.numpy()

    def __call__(self, kernel: Any, values: Tensor) -> Tensor:
        missing = WIDTH - values.shape[1]
        work = nn.functional.pad(values, (0, missing)) if missing else values.contiguous().clone()
        kernel(*self.matrix, work.numpy(), np.empty(work.shape, work.numpy().dtype), *self.settings)
        return work[:, : values.shape[1]] * self.scale


def _random_key() -> np.uint64:
    return np.uint64(int(torch.empty((), dtype=torch.int64).random_()))


class _TorchDiffusion(torch.autograd.Function):
    """The same by torch's own operations, with other random numbers."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, step: SparseMatrix, layers: int, dropout: float) -> Tensor:
        least = round(_BYTES * dropout)
        ctx.step, ctx.masks, ctx.scale = step, [], (_BYTES / (_BYTES - least)) ** layers
        values = hidden.clone()
        for _ in range(layers):
            mask = _random_bytes(values.shape)
            # Zeros and ones as bytes: several times as fast as a mask of truth values.
            ctx.masks.append(torch.ge(mask, least, out=mask))
            values = step.pattern.product(step.values, values.mul_(mask))
        return values.mul_(ctx.scale)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        step: SparseMatrix = ctx.step
        values = gradient * ctx.scale
        for mask in reversed(ctx.masks):
            # The step is symmetric: its transpose is itself.
            values = step.pattern.product(step.values, values).mul_(mask)
        return values, None, None, None


def _random_bytes(shape: torch.Size) -> Tensor:
    """Bytes of torch's generator, eight for one draw of it."""
    count = shape.numel()
    draws = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return draws.view(torch.uint8)[:count].view(shape)
