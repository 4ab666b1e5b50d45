"""What a fit did and what would help it: points that the diffusion changed, held-out answers, points to label next.

Every answer is a sum over base outputs, ``u(x_i, T) = sum_j P_ij u(x_j, T-1)``, where ``P`` is the diffusion. So a
point that changed can name those it listened to, and ``P`` applied to the labelled points says how far labels reach.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from condiff.uncertainty.label_noise import doubted, trust
from condiff.uncertainty.record import FitRecord
from condiff.uncertainty.suggestions import DEFAULT, Situation, suggest

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Neighbour:
    """A point that another one is joined to.

    Attributes
    ----------
    row
        Its row in the training data, from 0.
    share
        Its part of the other's weights, from 0 to 1.
    before, after
        What it was answered before and after the diffusion: a class, or a value.
    label
        Its own label, None where it has none.
    """

    row: int
    share: float
    before: Any
    after: Any
    label: Any


@dataclass(frozen=True)
class Change:
    """A point whose answer the diffusion changed.

    Attributes
    ----------
    row
        Its row in the training data, from 0.
    before, after
        The answer of the base network alone and that after the diffusion.
    size
        For classes, how much probability the new one gained; for values, how far the answer moved.
    own
        Part of the answer that comes from the point itself, ``P_ii``.
    received
        For classes, the part of the answer that comes from points which the base network gives the class ``after``;
        None for values.
    neighbours
        The points it is joined to most closely, the closest first.
    """

    row: int
    before: Any
    after: Any
    size: float
    own: float
    received: float | None
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True)
class Suggestion:
    """A point whose label would help.

    Attributes
    ----------
    row
        Its row in the training data, from 0.
    answer, probability
        The answer now, and for classes its probability.
    rival, rival_probability
        The second class and its probability; None for values.
    reach
        Part of the answer that comes from labelled points.
    unreached
        Number of points in its component if that has no label at all and no suggestion before this one, else 0.
    """

    row: int
    answer: Any
    probability: float | None
    rival: Any
    rival_probability: float | None
    reach: float
    unreached: int


@dataclass(frozen=True)
class LabelIssue:
    """A given label that looks wrong.

    Attributes
    ----------
    row
        Its row in the training data, from 0; of equal rows the first.
    label, probability
        The given label, and its probability by a model that had not seen it.
    answer, answer_probability
        What that model answers, and its probability.
    neighbours
        The probability of the label on average over the neighbours.
    clear
        Whether it is what ``label_noise="auto"`` would leave out: all labels together show that some are wrong, and
        this one very likely is.
    """

    row: int
    label: Any
    probability: float
    answer: Any
    answer_probability: float
    neighbours: float
    clear: bool


class Inspection:
    """Looks into a fitted model.

    Parameters
    ----------
    model
        A fitted :class:`COINClassifier` or :class:`COINRegressor`.

    Attributes
    ----------
    row
        The training row of every node; of equal rows the first.
    before, after
        The answer at every node before and after the diffusion: a class, or a value.
    label
        The target of every node, None where it has none.
    reach
        Part of every node's answer that comes from labelled nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from condiff import COINClassifier
    >>> from condiff.uncertainty import Inspection
    >>> X = np.concatenate([np.linspace(0, 1, 30), np.linspace(2, 3, 30)])[:, None]
    >>> y = np.full(60, -1)
    >>> y[[0, 59]] = 0, 1
    >>> found = Inspection(COINClassifier().fit(X, y))
    >>> bool(found.reach.max() <= 1)
    True
    """

    def __init__(self, model: Any) -> None:
        check_is_fitted(model)
        self.model = model
        self.record: FitRecord = model.record_
        self._classifies = is_classifier(model)
        n = model.graph_.n_nodes
        node_of_row = self.record.node_of_row
        rows = np.flatnonzero(node_of_row >= 0)
        self.row: NDArray[np.int64] = np.full(n, -1, dtype=np.int64)
        self.row[node_of_row[rows[::-1]]] = rows[::-1]  # the last to be written is the first
        self.before, self.after = self._answers(self.record.base), self._answers(self.record.output)
        self.label: list[Any] = [None] * n
        for node, target in zip(self.record.nodes.tolist(), self._targets(self.record.targets), strict=True):
            self.label[node] = target
        labelled = np.isin(np.arange(n), self.record.nodes).astype(np.float64)
        self.reach: Array = self._influence(labelled[:, None])[:, 0]

    @property
    def points(self) -> Any:
        """The nodes' rows as distances see them, dense or CSR."""
        return self.model.points_

    @property
    def n_changed(self) -> int:
        """How many nodes the diffusion gave another class; for values, how many it moved at all."""
        return int(self._changed().sum())

    @property
    def n_labelled(self) -> int:
        """How many nodes have a label."""
        return len(np.unique(self.record.nodes))

    def changes(self, most: int = 50, neighbours: int = 5) -> list[Change]:
        """The points that the diffusion changed, the largest change first."""
        weights = self.model.graph_.weights
        size = self._change_size()
        nodes = np.flatnonzero(self._changed())
        nodes = nodes[np.argsort(-size[nodes], kind="stable")][:most]
        # P is symmetric, so that its rows are what it makes of single points.
        influence = self._influence(_columns(len(self.row), nodes))
        codes = self.record.base.argmax(axis=1)
        found = []
        for column, node in enumerate(nodes.tolist()):
            start, stop = weights.indptr[node], weights.indptr[node + 1]
            joined, pull = weights.indices[start:stop], weights.data[start:stop]
            others = joined != node
            joined, pull = joined[others], pull[others]
            closest = np.argsort(-pull, kind="stable")[:neighbours]
            received = None
            if self._classifies:
                agree = codes == self.record.output[node].argmax()
                received = float(influence[agree, column].sum())
            found.append(
                Change(
                    int(self.row[node]),
                    self.before[node],
                    self.after[node],
                    float(size[node]),
                    float(influence[node, column]),
                    received,
                    tuple(self._neighbour(int(joined[i]), float(pull[i] / pull.sum())) for i in closest),
                )
            )
        return found

    def suggestions(self, most: int = 20, strategy: str = DEFAULT) -> list[Suggestion]:
        """Points to label next: one of each large component without a label, then those that tell most.

        Parameters
        ----------
        most
            How many.
        strategy
            One of :data:`condiff.uncertainty.STRATEGIES`. For values, where no answer is more uncertain than another,
            ``change``, ``margin`` and ``entropy`` stand for ``variance``.
        """
        labelled = np.array([label is not None for label in self.label])
        chances = self._chances(self.record.output) if self._classifies else None
        if chances is None and strategy in ("change", "margin", "entropy"):
            strategy = "variance"
        situation = Situation(self.model.graph_, labelled, chances, closed=self.row < 0)
        nodes = suggest(situation, most, strategy).tolist() if situation.open.any() else []
        parts, found = situation.graph.components, dict[int, Suggestion]()
        for node in nodes:
            stood_for = parts[node] in parts[list(found)]
            found[node] = self._suggestion(node, 0 if stood_for else int(situation.unreached[node]))
        return list(found.values())

    def label_issues(self) -> list[LabelIssue]:
        """Given labels that look wrong, the worst first: held-out answers or neighbours speak for another class.

        Empty for values, and where there were too few labels to hold some out.
        """
        items = self.record.held_out
        if not self._classifies or not self.record.is_scored:
            return []
        chances, codes = self._chances(self.record.answers), self.record.targets[items]
        nodes = self.record.nodes[items]
        weights = self.model.graph_.weights[nodes]
        around = weights @ self._chances(self.record.output) / np.maximum(weights.sum(axis=1), 1e-300)[:, None]
        believed = trust(chances, around, codes)
        clear = doubted(self.record.answers, codes, self.record.weights[items])
        wrong = (chances * around).argmax(axis=1) != codes
        answers = self.model.classes_[chances.argmax(axis=1)].tolist()
        labels = self._targets(codes)
        return [
            LabelIssue(
                int(self.row[nodes[at]]),
                labels[at],
                float(chances[at, codes[at]]),
                answers[at],
                float(chances[at].max()),
                float(around[at, codes[at]]),
                bool(clear[at]),
            )
            for at in np.argsort(believed, kind="stable").tolist()
            if wrong[at]
        ]

    def held_out(self) -> tuple[list[Any], Array] | None:
        """Labels that the folds held out, and the outputs for them: probabilities of the classes, or values.

        None where there were too few labels to hold some out.
        """
        items = self.record.held_out
        if not self.record.is_scored:
            return None
        answers = self.record.answers
        if self._classifies:
            answers = self._chances(answers)
        else:
            answers = np.asarray(self._answers(answers), dtype=np.float64).reshape(len(items), -1)
        return self._targets(self.record.targets[items]), answers

    # ---- classes and values -------------------------------------------------------------------------------------

    def _answers(self, outputs: Array) -> list[Any]:
        if self._classifies:
            found: list[Any] = self.model.classes_[outputs.argmax(axis=1)].tolist()
            return found
        values: list[Any] = self.model.values_of(outputs).tolist()
        return values

    def _targets(self, targets: NDArray[Any]) -> list[Any]:
        if self._classifies:
            labels: list[Any] = self.model.classes_[targets].tolist()
            return labels
        return self._answers(targets)

    def _changed(self) -> NDArray[np.bool_]:
        if self._classifies:
            changed: NDArray[np.bool_] = self.record.base.argmax(axis=1) != self.record.output.argmax(axis=1)
            return changed & (self.row >= 0)
        return (self._change_size() > 0) & (self.row >= 0)

    def _change_size(self) -> Array:
        before, after = self.record.base, self.record.output
        if self._classifies:
            code = after.argmax(axis=1)[:, None]
            return np.asarray(np.take_along_axis(after - before, code, axis=1)[:, 0])
        moved = self.model.values_of(after) - self.model.values_of(before)
        return np.asarray(np.linalg.norm(moved.reshape(len(after), -1), axis=1))

    def _chances(self, outputs: Array) -> Array:
        return np.asarray(self.model.probabilities_of(outputs))

    def _neighbour(self, node: int, share: float) -> Neighbour:
        return Neighbour(int(self.row[node]), share, self.before[node], self.after[node], self.label[node])

    def _suggestion(self, node: int, unreached: int) -> Suggestion:
        probability = rival = rival_probability = None
        if self._classifies:
            [chances] = self._chances(self.record.output[[node]])
            second, first = np.argsort(chances, kind="stable")[-2:].tolist()
            probability, rival_probability = float(chances[first]), float(chances[second])
            rival = self.model.classes_[second : second + 1].tolist()[0]
        row, reach = int(self.row[node]), float(self.reach[node])
        return Suggestion(row, self.after[node], probability, rival, rival_probability, reach, unreached)

    def _influence(self, columns: Array) -> Array:
        """The diffusion applied to columns, as the fit applied it to the base output."""
        operator = self.model.graph_.laplacian(torch.float64)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit has said what there is to say of the step size
            found = self.model.diffusion_(torch.as_tensor(columns), operator).numpy()
        alone = ~self.record.reached
        found[alone] = columns[alone]
        return np.asarray(found)


def _columns(n: int, nodes: NDArray[np.int64]) -> Array:
    """These columns of the identity matrix."""
    found = np.zeros((n, len(nodes)))
    found[nodes, np.arange(len(nodes))] = 1.0
    return found
