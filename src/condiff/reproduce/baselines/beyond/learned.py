"""COIN whose edge weights, or shares of two graphs, are learned along with the base, under the graph's certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from condiff.diffusion import Euler, GraphMixture, LearnedWeights
from condiff.errors import InvalidInputError
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.beyond.additions import feature_graph
from condiff.reproduce.baselines.beyond.resolvent import of_length_one
from condiff.reproduce.baselines.beyond.shares import corrected
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork, Outcome, zero_bias
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import Training

Kind = Literal["given", "symmetric", "stochastic", "signed", "mixture"]
Reads = Literal["features", "u"]
_TINY = 1e-9


@dataclass(frozen=True)
class LearnedCOIN(NetworkMethod):
    r"""Explicit layers over weights that are learned end to end through them.

    The base is that of :class:`~condiff.reproduce.baselines.beyond.resolvent.ResolventCOIN`, a linear map of features
    of length one. What is learned besides is an attention over the edges, or the shares of the given graph and of one
    that joins similar features. The strength of a layer is within what the given graph certifies, whatever is learned,
    and there are as many layers as the time needs. The learning rate is that of the base; the row-stochastic form
    overshoots with it, and was given 0.1 on Cora's splits 100 and 101.

    Parameters
    ----------
    kind
        ``symmetric``, ``stochastic`` or ``signed`` are the forms of :class:`~condiff.diffusion.LearnedWeights`;
        ``mixture`` is :class:`~condiff.diffusion.GraphMixture`; ``given`` learns nothing, for comparison. Signed
        weights diffuse scores, the others probabilities.
    reads
        Whether the attention reads a learned linear map of the features, or the base's output u.
    time
        Strength times layers; the paper's 20 layers of 0.35 have 7.
    width
        Width of what the attention reads.
    neighbours
        Of each node in the graph of similar features.
    shares
        Whether outputs are corrected for the classes' shares.
    """

    training: Training = field(default=Training(learning_rate=0.3, weight_decay=5e-4, patience=30))
    kind: Kind = "symmetric"
    reads: Reads = "features"
    time: float = 7.0
    width: int = 16
    neighbours: int = 5
    shares: bool = True

    def __post_init__(self) -> None:
        check_counts(width=self.width, neighbours=self.neighbours)
        if self.kind not in get_args(Kind):
            raise InvalidInputError(f"kind must be {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.reads not in get_args(Reads):
            raise InvalidInputError(f"reads must be features or u, not {self.reads!r}")
        if not self.time > 0:
            raise InvalidInputError(f"time must be positive, not {self.time!r}")

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        outcome = super().solve(problem, seed)
        return replace(outcome, scores=corrected(outcome.scores, problem)) if self.shares else outcome


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: LearnedCOIN) -> None:
        super().__init__()
        self.settings, self.x = settings, SparseMatrix.of(of_length_one(problem.features))
        graph = problem.graph.normalised("symmetric", self_loops="add")
        self.laplacian = graph.laplacian(torch.float32)
        self.weight = nn.Parameter(torch.zeros(problem.n_features, problem.n_classes))
        self.bias = zero_bias(problem.n_classes)
        self.attention: LearnedWeights | None = None
        self.mixture: GraphMixture | None = None
        self.code: nn.Parameter | None = None
        if settings.kind == "mixture":
            similar = feature_graph(problem, settings.neighbours).normalised("symmetric", self_loops="add")
            self.mixture = GraphMixture([graph, similar])
            limit = self.mixture.limit
        else:
            form = "symmetric" if settings.kind == "given" else settings.kind
            read = settings.width if settings.reads == "features" else problem.n_classes
            attention = LearnedWeights(read, form=form, width=settings.width)
            limit = attention.limit(self.laplacian)
            if settings.kind != "given":
                self.attention = attention
                if settings.reads == "features":
                    shape = problem.n_features, settings.width
                    self.code = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))
        self.layers = max(1, math.ceil(settings.time / limit))
        self.strength = settings.time / self.layers

    def forward(self) -> Tensor:
        scores = self.x @ self.weight + self.bias
        u = torch.softmax(scores, dim=-1)
        operator = self.laplacian
        if self.mixture is not None:
            operator = self.mixture()
        elif self.attention is not None:
            operator = self.attention(u if self.code is None else self.x @ self.code, self.laplacian)
        if self.settings.kind == "signed":
            return torch.log_softmax(Euler()(operator, scores, self.strength, self.layers), dim=-1)
        u = Euler()(operator, u, self.strength, self.layers).clamp_min(_TINY)
        return torch.log(u / u.sum(-1, keepdim=True))
