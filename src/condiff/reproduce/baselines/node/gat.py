r"""The graph attention network (Velickovic et al., ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from condiff.graph.sparse import Pattern, SparseMatrix, dropout
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.field import Field, PerPart, Step, receptive_field, whole_field
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import NODE, Training

_SLOPE = 0.2


@dataclass(frozen=True)
class GAT(HiddenLayerMethod):
    r"""Two layers in which every node averages over its neighbours and itself with weights that the network learns.

    A head maps :math:`h` to :math:`z = h W` and node i to :math:`\sum_j \alpha_{ij} z_j + b`, with
    :math:`\alpha_{ij} = \mathrm{softmax}_j(\mathrm{leakyrelu}(a \cdot z_i + c \cdot z_j))`. The first layer joins its
    heads and takes their elu, the second takes the mean of its heads and log-softmax. Weights of edges do not count.
    As in the paper's section 3.3: 8 heads of 8 units, then one head, dropout 0.6 before both layers and on
    :math:`\alpha`, learning rate 0.005, weight decay 5e-4. For its one split of Pubmed the paper has 8 output heads,
    learning rate 0.01 and weight decay 1e-3; on 12 random splits these validate worse (82.2 against 83.8 per cent).

    Parameters
    ----------
    hidden
        Hidden units of a head.
    heads, output_heads
        Heads of the first and of the second layer.
    dropout
        Probability with which inputs of a layer are dropped in training.
    attention_dropout
        The same for the weights of the average.
    """

    training: Training = field(default=replace(NODE, learning_rate=0.005))
    hidden: int = 8
    heads: int = 8
    output_heads: int = 1
    dropout: float = 0.6
    attention_dropout: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(heads=self.heads, output_heads=self.output_heads)
        check_probabilities(attention_dropout=self.attention_dropout)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: GAT) -> None:
        super().__init__()
        self.settings = settings
        weights = problem.graph.normalised("none", self_loops="add").weights
        everything = whole_field(problem.x, SparseMatrix.of(weights), layers=2)
        self.whole = PerPart(lambda _: self._copies(everything))
        self.fields = PerPart(lambda nodes: self._copies(receptive_field(problem.features, weights, nodes, layers=2)))
        self.nodes = torch.arange(problem.n_nodes)
        attention = settings.attention_dropout
        self.first = _Layer(problem.n_features, settings.hidden, settings.heads, attention)
        self.second = _Layer(settings.heads * settings.hidden, problem.n_classes, settings.output_heads, attention)

    def _copies(self, field: Field) -> Field:
        inner, outer = field.steps
        settings = self.settings
        return Field(field.x, (_copies(inner, settings.heads), _copies(outer, settings.output_heads)))

    def forward(self) -> Tensor:
        return self._scores(self.whole.of(self.nodes))

    def at(self, nodes: Tensor) -> Tensor:
        return self._scores(self.fields.of(nodes))

    def _scores(self, field: Field) -> Tensor:
        probability, (inner, outer) = self.settings.dropout, field.steps
        hidden = self.first(field.x.dropped(probability, self.training), inner)
        hidden = nn.functional.elu(hidden.transpose(0, 1).flatten(1))
        output = self.second(dropout(hidden, probability, self.training), outer)
        return torch.log_softmax(output.mean(0), dim=-1)


class _Layer(nn.Module):
    def __init__(self, inputs: int, outputs: int, heads: int, attention_dropout: float) -> None:
        super().__init__()
        self.heads, self.attention_dropout = heads, attention_dropout
        self.weight = nn.Parameter(torch.cat([_glorot(inputs, outputs) for _ in range(heads)], dim=1))
        # What a node asks with, and what its neighbours answer with.
        self.asking = nn.Parameter(torch.stack([_glorot(outputs, 1) for _ in range(heads)]))
        self.answering = nn.Parameter(torch.stack([_glorot(outputs, 1) for _ in range(heads)]))
        self.bias = nn.Parameter(torch.zeros(heads, 1, outputs))

    def forward(self, x: SparseMatrix | Tensor, step: Step) -> Tensor:
        """(heads, output nodes, units), for a step over as many copies of the graph as there are heads."""
        z = (x @ self.weight).view(x.shape[0], self.heads, -1).transpose(0, 1).contiguous()
        asks, answers = z[:, step.own] @ self.asking, z @ self.answering
        attention = edge_softmax(step.matrix.pattern, asks.flatten(), answers.flatten())
        attention = dropout(attention, self.attention_dropout, self.training)
        mean = step.matrix.with_values(attention) @ z.flatten(0, 1)
        return mean.view(self.heads, -1, z.shape[2]) + self.bias


def edge_softmax(pattern: Pattern, asks: Tensor, answers: Tensor) -> Tensor:
    """Softmax over each row of ``leakyrelu(asks_i + answers_j)`` in the places of a pattern without empty rows."""
    rows = pattern.rows
    scores = nn.functional.leaky_relu(asks.index_select(0, rows) + answers.index_select(0, pattern.columns), _SLOPE)
    highest = torch.segment_reduce(scores.detach(), "max", offsets=pattern.crow_indices.long())
    numerators = torch.exp(scores - highest.index_select(0, rows))
    sums = torch.zeros_like(asks).index_add(0, rows, numerators)
    return numerators / sums.index_select(0, rows)


def _copies(step: Step, count: int) -> Step:
    """A step over disjoint copies of its graph, one for each head, so that one sparse product serves all heads."""
    pattern = step.matrix.pattern
    inputs = pattern.shape[1]
    copies = torch.arange(count, dtype=torch.int32)[:, None]
    crow = pattern.crow_indices[1:] + copies * pattern.crow_indices[-1]
    columns = pattern.col_indices + copies * inputs
    crow = torch.cat([pattern.crow_indices[:1], crow.flatten()])
    copied = Pattern(crow, columns.flatten(), count * inputs)
    return Step(SparseMatrix(copied, step.matrix.values.repeat(count)), step.own)


def _glorot(inputs: int, outputs: int) -> Tensor:
    return nn.init.xavier_uniform_(torch.empty(inputs, outputs))
