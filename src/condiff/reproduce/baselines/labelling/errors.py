"""Which given labels are wrong: by held-out answers and the graph, and by cleanlab."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from condiff.errors import MissingDependencyError
from condiff.reproduce.baselines.labelling.method import Array, Codes, Doubting, DoubtProblem
from condiff.uncertainty.label_noise import trust


def _held_out(problem: DoubtProblem) -> tuple[Array, Array, Codes, Codes]:
    """The classifier's answers without each label, its neighbours' answers, the labels, and which labelled rows."""
    model = problem.model
    record = model.record_
    items = record.held_out
    nodes, codes = record.nodes[items], record.targets[items]
    weights = model.graph_.weights[nodes]
    around = weights @ model.probabilities_of(record.output) / np.maximum(weights.sum(axis=1), 1e-300)[:, None]
    rows = record.node_of_row[np.flatnonzero(problem.given >= 0)]
    return model.probabilities_of(record.answers), np.asarray(around), codes, _place(nodes, rows)


def _place(nodes: Codes, of: Codes) -> Codes:
    """Where each labelled row's node is among those that were held out; -1 for one that never was."""
    where = {node: place for place, node in enumerate(nodes.tolist())}
    return np.array([where.get(node, -1) for node in of.tolist()])


def _at_rows(values: Array, place: Codes) -> Array:
    """Values at the labelled rows; what was never held out is believed."""
    return np.where(place >= 0, values[place], np.inf)


@dataclass(frozen=True)
class Issues(Doubting):
    """What ``COINClassifier.label_issues`` ranks by."""

    def trust(self, problem: DoubtProblem) -> Array:
        answers, around, codes, place = _held_out(problem)
        return _at_rows(trust(answers, around, codes), place)


def _quality(codes: Codes, answers: Array) -> Array:
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError as error:
        raise MissingDependencyError("this method needs cleanlab: pip install 'condiff[bench]'") from error
    return np.asarray(get_label_quality_scores(codes, answers))


@dataclass(frozen=True)
class CleanlabOnCOIN(Doubting):
    """cleanlab's label quality, from the classifier's answers without each label."""

    def trust(self, problem: DoubtProblem) -> Array:
        answers, _, codes, place = _held_out(problem)
        return _at_rows(_quality(codes, answers), place)


@dataclass(frozen=True)
class CleanlabOnRegression(Doubting):
    """cleanlab's label quality from a cross-validated logistic regression, as in its own examples."""

    def trust(self, problem: DoubtProblem) -> Array:
        rows = np.flatnonzero(problem.given >= 0)
        codes = np.unique(problem.given[rows], return_inverse=True)[1]
        folds = int(min(5, np.bincount(codes).min()))
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return _quality(codes, cross_val_predict(model, problem.x[rows], codes, cv=folds, method="predict_proba"))
