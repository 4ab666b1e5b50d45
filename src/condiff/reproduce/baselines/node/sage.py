r"""GraphSAGE with the mean aggregator (Hamilton et al., NeurIPS 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.graph.sparse import SparseMatrix, dropout
from condiff.reproduce.baselines.node.field import Field, FieldNetwork, Step
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem


@dataclass(frozen=True)
class GraphSAGE(HiddenLayerMethod):
    r"""Two layers :math:`h_i \mapsto h_i W + \bar h_i V + b` with :math:`\bar h_i` the mean over the neighbours of i.

    This is the paper's weight matrix on the concatenation :math:`(h_i, \bar h_i)`, with relu between the layers and
    log-softmax at the end; all neighbours, none sampled. The paper has no settings for citation graphs: 32 hidden units
    and dropout 0.4 before both layers are those that Shchur et al. (2018) found for this protocol; learning rate 0.01
    and weight decay 5e-4 are the common ones.

    Parameters
    ----------
    normalise
        Whether every node's outputs of a layer are scaled to the length one, as in the paper's algorithm 1.
    """

    hidden: int = 32
    dropout: float = 0.4
    normalise: bool = False

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(FieldNetwork):
    def __init__(self, problem: NodeProblem, settings: GraphSAGE) -> None:
        super().__init__(problem, problem.graph.normalised("random_walk", self_loops="remove").weights)
        self.settings = settings
        self.first = _Layer(problem.n_features, settings.hidden)
        self.second = _Layer(settings.hidden, problem.n_classes)

    def scores(self, field: Field) -> Tensor:
        probability, (inner, outer) = self.settings.dropout, field.steps
        hidden = torch.relu(self._scaled(self.first(field.x.dropped(probability, self.training), inner)))
        output = self._scaled(self.second(dropout(hidden, probability, self.training), outer))
        return torch.log_softmax(output, dim=-1)

    def _scaled(self, hidden: Tensor) -> Tensor:
        return nn.functional.normalize(hidden, dim=-1) if self.settings.normalise else hidden


class _Layer(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        # Both matrices side by side, so that one product serves a node itself and its neighbours.
        self.weight = nn.Parameter(torch.cat([_glorot(inputs, outputs) for _ in range(2)], dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: SparseMatrix | Tensor, step: Step) -> Tensor:
        own, neighbours = (x @ self.weight).chunk(2, dim=1)
        return own[step.own] + step.matrix @ neighbours.contiguous() + self.bias


def _glorot(inputs: int, outputs: int) -> Tensor:
    return nn.init.xavier_uniform_(torch.empty(inputs, outputs))
