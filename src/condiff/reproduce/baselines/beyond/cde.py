r"""CDE: diffusion, and a convection whose velocity comes from differences (Zhao et al., IJCAI 2023)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn

from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.beyond.continuous import ContinuousMethod, ContinuousNetwork
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.gat import edge_softmax
from condiff.reproduce.baselines.node.method import NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import NODE, Training


@dataclass(frozen=True)
class CDE(ContinuousMethod):
    r"""Attention that diffuses, and neighbours that convect: :math:`D_i + C_i` instead of an average.

    :math:`D_i = \sum_j \alpha_{ij} h_j` with the attention of GAT, and
    :math:`C_i = \sum_j \mathrm{relu}(M (h_j - h_i)) \odot h_i`, a velocity for every edge and column from how its
    ends differ. As the authors' repository has it, the two are mixed by linear maps before they move the state:
    :math:`h' = a (\mathrm{relu}(W [h, \lambda C H_1 + D H_2]) - h) + b h(0)`, with :math:`\lambda` from zero on and no
    gradient through :math:`h(0)`. Settings are those that its logs have for graphs of this kind: 64 units, one Euler
    step for each unit of time, up to time 3, dropout 0.2, weight decay 1e-3.

    Parameters
    ----------
    heads, attention_width
        Heads of the attention, whose mean is taken, and the width of all of them together.
    """

    training: Training = field(default=replace(NODE, weight_decay=1e-3))
    input_dropout: float = 0.2
    dropout: float = 0.2
    deep_encoder: bool = True
    time: float = 3.0
    solver: Literal["rk4", "euler"] = "euler"
    step: float = 1.0
    heads: int = 8
    attention_width: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(heads=self.heads, attention_width=self.attention_width)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(ContinuousNetwork):
    def __init__(self, problem: NodeProblem, settings: CDE) -> None:
        super().__init__(problem, settings)
        # With loops every node has something to attend to.
        self.looped = SparseMatrix.of(problem.graph.normalised("none", self_loops="add").weights)
        self.edges = SparseMatrix.of(problem.graph.normalised("none", self_loops="remove").weights).pattern
        hidden, per_head = settings.hidden, max(1, settings.attention_width // settings.heads)
        self.keys = nn.Linear(hidden, settings.heads * per_head, bias=False)
        nn.init.xavier_normal_(self.keys.weight, gain=2**0.5)
        self.asking = nn.Parameter(nn.init.xavier_normal_(torch.empty(settings.heads, per_head), gain=2**0.5))
        self.answering = nn.Parameter(nn.init.xavier_normal_(torch.empty(settings.heads, per_head), gain=2**0.5))
        self.velocity = nn.Linear(hidden, hidden, bias=False)
        self.convected = nn.Linear(hidden, hidden, bias=False)
        self.diffused = nn.Linear(hidden, hidden, bias=False)
        self.mix = nn.Linear(2 * hidden, hidden)
        nn.init.xavier_normal_(self.mix.weight, gain=2**0.5)
        self.share = nn.Parameter(torch.zeros(()))
        self.rate = nn.Parameter(torch.zeros(()))
        self.source = nn.Parameter(torch.zeros(()))

    def begin(self, start: Tensor) -> None:
        self.start = start.detach()

    def flow(self, state: Tensor) -> Tensor:
        mixed = self.share * self.convected(self._convection(state)) + self.diffused(self._diffusion(state))
        target = torch.relu(self.mix(torch.cat((state, mixed), dim=1)))
        return torch.sigmoid(self.rate) * (target - state) + self.source * self.start

    def _diffusion(self, state: Tensor) -> Tensor:
        keys = self.keys(state).unflatten(-1, self.asking.shape)
        asks, answers = (keys * self.asking).sum(-1), (keys * self.answering).sum(-1)
        heads = zip(asks.unbind(1), answers.unbind(1), strict=True)
        attention = torch.stack([edge_softmax(self.looped.pattern, *head) for head in heads]).mean(0)
        return self.looped.with_values(attention) @ state

    def _convection(self, state: Tensor) -> Tensor:
        pushed = self.velocity(state)
        rows, columns = self.edges.rows, self.edges.columns
        velocities = torch.relu(pushed.index_select(0, columns) - pushed.index_select(0, rows))
        return torch.zeros_like(state).index_add(0, rows, velocities) * state
