"""A model that follows while labels come in: rows are encoded and joined once, only the labelled part is fitted anew.

The base is a blend of a linear model, a Gaussian process and a few trees, fitted on the labels; its answers are
diffused over the graph with the labels held, or left as they are where held-out labels are better off without. It is
lighter than :class:`condiff.COINClassifier`, which rehearses what it decides; fit that on the labels in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from condiff.bases.classical import (
    Inputs,
    Labelled,
    blend,
    fit_gaussian_process,
    fit_linear,
    fit_trees,
)
from condiff.diffusion.flow import Flow
from condiff.estimators.domain import Domain
from condiff.estimators.inputs import Nodes, class_items, held_out_folds
from condiff.estimators.recipe import clamped, half_strength, read_out
from condiff.labelling.score import Score
from condiff.uncertainty import apply_temperature, fit_temperature
from condiff.uncertainty.suggestions import DEFAULT, Situation, suggest

Array = NDArray[np.float64]

_NEIGHBOURS, _RANK, _WIDTH = 12, 6, 64
# Labels are held anew after every so many layers.
_ROUNDS, _LAYERS = 3, 16
_TREES = 25
# Folds that hold labels out in turn, and those of more labels or of more nodes than so many.
_FOLDS, _FEWER_FOLDS, _MANY, _LARGE = 4, 3, 150, 5000
# Held-out labels that may decide against the diffusion, and standard errors by which they must.
_FEWEST_TO_CHOOSE, _CLEARLY = 20, 1.0
# Labels up to which a Gaussian process is worth its time.
_MOST_FOR_PROCESS = 250
# Held-out labels of rows drawn at random that are enough to calibrate on by themselves.
_FEWEST_FAIR = 10


@dataclass(frozen=True, eq=False)
class Answers:
    """What is answered at every node.

    Attributes
    ----------
    chances
        Calibrated probabilities, (nodes, classes); labelled nodes have their label.
    plain
        The same as if no node had one.
    held_out, codes, judged
        Nodes whose labels were held out in turn, these labels, and the probabilities that were answered for them.
    fair
        Which of them were drawn at random. The others were asked for because they are hard: a score over them would
        be far too low for the rest.
    """

    chances: Array
    plain: Array
    held_out: NDArray[np.int64]
    codes: NDArray[np.int64]
    judged: Array
    fair: NDArray[np.bool_]

    @property
    def score(self) -> Score | None:
        """Over held-out labels of rows drawn at random."""
        return Score.counted((self.judged.argmax(axis=1) == self.codes)[self.fair])


@dataclass(frozen=True, eq=False)
class Learner:
    """Rows as nodes of a graph, and what a base sees of them.

    Attributes
    ----------
    domain
        Nodes and graph.
    node_of_row, row_of_node
        Equal rows share a node; of them the first stands for it.
    inputs
        What a base sees.
    """

    domain: Domain
    node_of_row: NDArray[np.int64]
    row_of_node: NDArray[np.int64]
    inputs: Inputs

    @classmethod
    def of(cls, rows: Any, *, encoded: bool = False, adjacency: Any = None) -> Self:
        """Join rows of numbers, dense or CSR.

        Parameters
        ----------
        rows
            (rows, features).
        encoded
            Whether an encoder has given every column its due weight.
        adjacency
            The edges, where they are given.
        """
        shared: dict[str, Any] = {"scaling": "none" if encoded else "auto", "width": _WIDTH}
        if adjacency is not None:
            nodes = Nodes.separate(rows)
            domain = Domain.of_graph(nodes, adjacency, purpose="condiff label", extensible=False, **shared)
        else:
            nodes = Nodes.merged(rows, np.ones(rows.shape[0], bool))
            domain = Domain.of_points(nodes, n_neighbors=_NEIGHBOURS, bandwidth_rank=_RANK, metric="auto", **shared)
        first = np.unique(nodes.of_row, return_index=True)[1]
        return cls(domain, nodes.of_row, first, Inputs(domain.features.columns(domain.points)))

    def fit(
        self,
        nodes: NDArray[np.int64],
        codes: NDArray[np.int64],
        n_classes: int,
        fair: NDArray[np.bool_] | None = None,
        *,
        judged: bool = True,
    ) -> Answers | None:
        """Answers from labels at nodes; None while fewer than two classes have one.

        Parameters
        ----------
        nodes, codes
            A label each.
        n_classes
            How many classes there are.
        fair
            Which of them are at nodes that were drawn at random; all by default.
        judged
            Whether labels are held out in turn, to score and calibrate; it takes most of the time.
        """
        if len(np.unique(codes)) < 2:
            return None
        items = class_items(nodes, codes, np.ones(len(nodes)))
        data = Labelled(
            self.inputs, items.nodes, items.targets, items.weights * (len(items.nodes) / len(nodes)), n_classes
        )
        fewer = len(items.nodes) > _MANY or len(self.inputs) > _LARGE
        folds = held_out_folds(items, items.targets, (_FEWER_FOLDS if fewer else _FOLDS) if judged else 0)
        fold, item = np.nonzero(folds)
        tried = np.zeros((2, len(item), n_classes))
        for number, left_out in enumerate(folds):
            tried[:, fold == number] = [each[items.nodes[left_out]] for each in self._answers(data.without(left_out))]
        targets, weights = items.targets[item], items.weights[item]
        alone = self._better_alone(tried, targets)
        without, temperature = tried[int(not alone)], 1.0
        drawn = nodes if fair is None else nodes[fair]
        at_random = np.isin(items.nodes[item], drawn)
        if len(item):
            counts = weights * at_random if at_random.sum() >= _FEWEST_FAIR else weights
            temperature = fit_temperature(without, targets, counts)
        output = self._answers(data)[int(not alone)]
        plain = apply_temperature(output, temperature)
        chances = apply_temperature(without, temperature)
        return Answers(clamped(plain, data), plain, items.nodes[item], targets, chances, at_random)

    def _answers(self, data: Labelled) -> tuple[Array, Array]:
        """What the base answers alone, and diffused with the labels held."""
        graph = self.domain.graph
        members = [(fit_linear(data), 1.0), (fit_trees(data, n_trees=_TREES), 1.0)]
        if len(data.rows) <= _MOST_FOR_PROCESS:
            members.append((fit_gaussian_process(data), 1.0))
        base = blend(members).outputs(self.inputs.values)
        u, step = base, half_strength(graph)
        for _ in range(_ROUNDS):
            u = Flow(graph, _LAYERS, step)(clamped(u, data))
        return base, read_out(u, clamped(base, data), data, None)(u)

    def _better_alone(self, tried: Array, codes: NDArray[np.int64]) -> bool:
        """Whether held-out labels speak against the diffusion, clearly."""
        if len(codes) < _FEWEST_TO_CHOOSE:
            return False
        own = np.log(np.maximum(tried[:, np.arange(len(codes)), codes], 1e-3))
        gains = own[0] - own[1]
        return bool(gains.mean() > _CLEARLY * gains.std() / np.sqrt(len(gains)))

    def suggest(
        self,
        labelled: NDArray[np.bool_],
        answers: Answers | None,
        closed: NDArray[np.bool_],
        n: int,
        strategy: str = DEFAULT,
        seed: int = 0,
    ) -> NDArray[np.int64]:
        """Nodes to label next; ``closed`` ones are not asked for."""
        chances = None if answers is None or len(answers.chances) != len(labelled) else answers.chances
        situation = Situation(self.domain.graph, labelled, chances, closed, seed)
        return suggest(situation, n, strategy) if situation.open.any() else np.empty(0, np.int64)

    def neighbours(self, node: int, most: int = 5) -> list[tuple[int, float]]:
        """The nodes that a node is joined to most closely, and their shares of its weights."""
        weights = self.domain.graph.weights
        start, stop = weights.indptr[node], weights.indptr[node + 1]
        joined, pull = weights.indices[start:stop], weights.data[start:stop]
        joined, pull = joined[joined != node], pull[joined != node]
        closest = np.argsort(-pull, kind="stable")[:most]
        return [(int(joined[at]), float(pull[at] / pull.sum())) for at in closest]
