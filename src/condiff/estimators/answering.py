"""What a fitted model answers with: new rows as numbers, their place on the graph, what the diffusion makes of them.

Arrays alone: neither torch nor scikit-learn is imported to answer. The estimators inherit from these classes and add
what fits them; :func:`load_answers` makes a model that answers, and no more, of a folder.
"""

from __future__ import annotations

import copy
import warnings
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.bases.averaged import Averaged
from condiff.bases.classical import Base, Inputs, Labelled
from condiff.bases.network import Network
from condiff.diffusion.flow import SOLVER_NAMES, Flow
from condiff.diffusion.readout import ReadOut
from condiff.encoders.encoding import Encoding
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators.checks import Check, Mismatch, flag, one_of, whole
from condiff.estimators.choice import Choice
from condiff.estimators.coverage import Asked, class_sets, labelled_throughout, value_intervals
from condiff.estimators.domain import Domain, follow, means_of
from condiff.estimators.folders import load_state
from condiff.estimators.inputs import features_of, find_rows, fingerprints, slices, without
from condiff.estimators.nearness import beside_labels
from condiff.estimators.recipe import Affine, clamped
from condiff.estimators.scope import out_of_scope
from condiff.estimators.state import check_state
from condiff.files import refusing
from condiff.graph.graph import Graph
from condiff.uncertainty.calibration import apply_temperature, shrink
from condiff.uncertainty.record import FitRecord

Array = NDArray[np.float64]


class Answers:
    """What :class:`ClassAnswers` and :class:`ValueAnswers` share."""

    #: Whether answers are classes.
    classifies: ClassVar[bool]
    _domain: Domain
    record_: FitRecord
    networks_: list[Network]
    averaged_: list[Averaged] = []  # noqa: RUF012 - of models that were saved before there were any
    encoder_: Encoding | None
    base_: Base | None
    choice_: Choice
    readout_: ReadOut | Affine | None
    label_directions_: Array | None = None  # of models that were saved before there were any
    label_spread_: Array | None = None
    layers_: int
    strength_: float
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    metadata_: Any
    _graph_is_given: bool
    solver: str = "euler"
    folds: int = 5

    @property
    def graph_(self) -> Graph:
        """The normalised graph of the nodes: the distinct training rows, or all rows of a given graph."""
        self._require_fitted()
        graph: Graph = self._domain.graph
        return graph

    @property
    def points_(self) -> Any:
        """The graph's nodes as distances see them, dense or CSR."""
        self._require_fitted()
        return self._domain.features.scaled(self._domain.points)

    @property
    def _flow(self) -> Flow:
        """The diffusion of arrays over the graph."""
        return Flow(self._domain.graph, self.layers_, self.strength_, self.solver)

    def on_numbers(self) -> Self:
        """The same model for what ``encoder_`` makes of a table, where that is known already."""
        model = copy.copy(self)
        if self.encoder_ is not None:
            model.encoder_, model.n_features_in_ = None, self.encoder_.blocks_[-1].stop
            del model.feature_names_in_
        return model

    def _require_fitted(self) -> None:
        """Nothing: what answers and no more was made of a fitted model."""

    def _numbers(self, X: Any, *, learn: bool = False) -> Any:
        """Rows as a matrix of finite numbers, dense or CSR; columns of a table are encoded."""
        found = X if self.encoder_ is None else self.encoder_.transform(X)
        found = sp.csr_array(found) if sp.issparse(found) else np.asarray(found)
        if found.dtype not in (np.float64, np.float32):
            found = found.astype(np.float64)
        width = self.n_features_in_ if self.encoder_ is None else self.encoder_.blocks_[-1].stop
        if found.ndim != 2 or not found.shape[0] or found.shape[1] != width:
            raise InvalidInputError(f"the model reads rows of {width} numbers, not an array of the shape {found.shape}")
        if not np.isfinite(found.data if sp.issparse(found) else found).all():
            raise InvalidInputError("some values are NaN or infinite, but the model was fitted on numbers alone")
        return found

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over a state that has been checked."""
        self._domain = Domain.from_dict(state.pop("_domain"))
        self._domain.graph.require_symmetric("a saved model")
        self.record_ = FitRecord(**state.pop("record_"))
        encoder = state.pop("encoder_")
        self.encoder_ = None if encoder is None else self._encoder_of(encoder)
        width = self._domain.points.shape[1]
        if self.encoder_ is not None and self.encoder_.blocks_[-1].stop != width:
            raise Mismatch(f"encoder_ gives {self.encoder_.blocks_[-1].stop} columns for {width}")
        base, read = state.pop("base_"), state.pop("readout_")
        self.choice_ = Choice.from_dict(state.pop("choice_"))
        self.base_ = None if base is None else Base.from_dict(base)
        self.readout_ = None if read is None else (ReadOut if self.classifies else Affine)(**read)
        self.networks_ = [Network.from_dict(arrays, self.classifies) for arrays in state.pop("models_")]
        self.averaged_ = [Averaged(**each) for each in state.pop("averaged_", [])]
        self.__dict__.update(state)

    def _encoder_of(self, state: dict[str, Any]) -> Encoding:
        return Encoding.from_state(state)

    def base_outputs(self, rows: Any, adjacency: Any = None) -> Array:
        """The base's answers for rows, in double precision: the mean of the networks, or another base's output."""
        if self.base_ is not None:
            return self.base_.outputs(self._domain.features.columns(rows))
        if self.averaged_:
            return self._averaged_outputs(rows, adjacency)
        parts = []
        rows, features = self._domain.read(rows, adjacency)
        for here in slices(rows.shape[0]):
            inputs = features.inputs(rows[here])
            parts.append(np.mean([network.outputs(inputs) for network in self.networks_], axis=0))
        return np.concatenate(parts)

    def _averaged_outputs(self, rows: Any, adjacency: Any) -> Array:
        domain = self._domain
        points, walk = domain.points, domain.walk
        if rows is points:
            return np.asarray(sum(each.share * each.at_nodes(points, walk) for each in self.averaged_))
        towards = domain.walk_of(rows.shape[0], adjacency)
        return np.asarray(sum(each.share * each.at_new(rows, towards, points, walk) for each in self.averaged_))

    def _at_nodes(self) -> Array:
        """What is answered for the nodes."""
        return self.record_.output

    def _answer(self, X: Any, adjacency: Any = None) -> Array:
        """Outputs for any rows: those of the training data as they were fitted, others through their neighbours."""
        return self._answer_at(X, adjacency)[0]

    def _answer_at(self, X: Any, adjacency: Any = None) -> tuple[Array, NDArray[np.int64]]:
        """Outputs for any rows, and their nodes, -1 for new ones."""
        self._require_fitted()
        X = self._numbers(features_of(X), learn=False)
        X = self._domain.in_own_form(X)
        found = self._domain.find(X) if adjacency is None else np.full(X.shape[0], -1)
        fitted = self._at_nodes()
        outputs = np.empty((X.shape[0], fitted.shape[1]))
        outputs[found >= 0] = fitted[found[found >= 0]]
        new = found < 0
        if new.any() and (nothing := self._blank_row()) is not None:
            blank = new & (find_rows(X, fingerprints(nothing)) >= 0)
            outputs[blank] = self.record_.output.mean(axis=0)
            new &= ~blank
        if new.any():
            outputs[new] = self._induce(X[new], adjacency)
        return outputs, found

    def _blank_row(self) -> Any:
        """The row of a table in which nothing is written, encoded; None where no texts or images are read.

        It is near to whatever is common, and would be answered as if it were that. All that is known of it is how the
        others are answered on average.
        """
        if self.encoder_ is None or not self.encoder_.embeds:
            return None
        return self._domain.in_own_form(self.encoder_.blank_row())

    @property
    def _reads_edges(self) -> bool:
        return self._domain.of_edges is not None or any(each.of_edges for each in self.averaged_)

    def _induce(self, rows: Any, adjacency: Any) -> Array:
        domain = self._domain
        if self._graph_is_given and adjacency is None:
            reads = ", and reads edges that it was not given" if self._reads_edges else ""
            warnings.warn(
                f"{rows.shape[0]} points are new and came without adjacency: the base network answers them alone"
                f"{reads}",
                UserWarning,
                stacklevel=4,
            )
        weights = domain.weights_of(rows, adjacency)
        # Nodes that no label reaches have nothing to pass on.
        weights = sp.csr_array(weights @ sp.diags_array(self.record_.reached.astype(np.float64)))
        start, own = self.record_.base, self.base_outputs(rows, adjacency)
        if self.readout_ is None:
            found = follow(self._flow, start, own, weights)
            if self.label_directions_ is None:
                return found
            spread = None if self.label_spread_ is None else means_of(weights) @ self.label_spread_
            return beside_labels(found, rows, self.label_directions_, spread)
        if not self.layers_:
            return self.readout_(own)
        record = self.record_
        labels = Labelled(Inputs(start), record.nodes, record.targets, record.weights, own.shape[1])
        return self.readout_(follow(self._flow, clamped(start, labels), own, weights))


class ClassAnswers(Answers):
    """Answers of a classifier."""

    classifies = True
    classes_: NDArray[Any]
    temperature_: float
    shrinkage_: float = 0.0  # of models that were saved before there was any
    prices_: Array | None = None
    label_noise: Any = False

    def _answer_at(self, X: Any, adjacency: Any = None) -> tuple[Array, NDArray[np.int64]]:
        outputs, nodes = super()._answer_at(X, adjacency)
        return self._priced(outputs), nodes

    def _chances_at(self, outputs: Array, nodes: NDArray[np.int64]) -> Array:
        """Outputs at nodes as probabilities: calibrated, but for labels that were given and are kept."""
        found = self.probabilities_of(outputs)
        if self._keeps_labels:
            kept = (nodes >= 0) & (outputs.max(axis=1) == 1.0) & labelled_throughout(self.record_)[nodes]
            found[kept] = outputs[kept]
        return found

    def _priced(self, outputs: Array) -> Array:
        """Outputs at the prices of the classes, where these have quotas."""
        if self.prices_ is None:
            return outputs
        found = outputs * np.exp(self.prices_ - self.prices_.max())
        return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300))

    @property
    def _keeps_labels(self) -> bool:
        return self.label_noise == "auto" or not self.label_noise

    def _at_nodes(self) -> Array:
        """The given labels where there are any; those of equal rows that contradict each other are averaged."""
        record = self.record_
        if not self._keeps_labels:
            return record.output
        given = np.zeros_like(record.output)
        np.add.at(given, (record.nodes, record.targets), record.weights)
        total = given.sum(axis=1, keepdims=True)
        return np.where(total > 0, given / np.where(total > 0, total, 1.0), record.output)

    def predict_proba(self, X: Any, *, adjacency: Any = None) -> Array:
        """Probabilities of the classes.

        Training points get their fitted answer. Others get the base's output, diffused through their neighbours
        among the training points; with a precomputed graph pass those as ``adjacency`` (n_new, n_samples), or the base
        network answers alone.
        """
        return self._chances_at(*self._answer_at(X, adjacency))

    def probabilities_of(self, outputs: Array) -> Array:
        """Outputs, such as those of ``record_``, as calibrated probabilities."""
        return shrink(apply_temperature(outputs, self.temperature_), self.shrinkage_)

    def predict(
        self, X: Any, *, abstain: float | None = None, none_of_these: float | None = None, adjacency: Any = None
    ) -> Any:
        """The most probable class; for training points exactly ``transduction_``.

        Parameters
        ----------
        X, adjacency
            As for :meth:`predict_proba`.
        abstain : float, optional
            Leave out answers whose chance of being wrong, by the calibrated probabilities, is larger than this. Given
            labels stay.
        none_of_these : float, optional
            Leave out answers for rows that are out of scope: no more than this share of the labelled rows would be as
            far from all other labels. Of rows that are like the labelled ones about this share is left out too.

        Returns
        -------
        ndarray of shape (n_rows,)
            Classes. An answer that was left out is what marks a missing label: -1 among integers, NaN among floats,
            None among others, and among integers of which -1 is a class.
        """
        outputs, nodes = self._answer_at(X, adjacency)
        answers = self.classes_[outputs.argmax(axis=1)]
        if abstain is None and none_of_these is None:
            return answers
        left_out = np.zeros(len(answers), bool)
        asked: dict[str, Any] = {"abstain": abstain, "none_of_these": none_of_these}
        for name, share in asked.items():
            if share is not None and (not isinstance(share, Real) or not 0 <= float(share) <= 1):
                raise InvalidInputError(f"{name} must be a number between 0 and 1, not {share!r}")
        if abstain is not None:
            left_out |= 1 - self._chances_at(outputs, nodes).max(axis=1) > abstain
        if none_of_these is not None:
            left_out |= out_of_scope(self, X, Asked.rows(self, X, adjacency))[1] <= none_of_these
        return without(answers, left_out)

    def out_of_scope(self, X: Any, *, adjacency: Any = None) -> Array:
        """How far rows are from what the labels can speak of: 0 at a label, up to 1.

        High where a random walk along the graph's edges is unlikely to meet a labelled row, as from rows of a class
        that has no label, and for rows much farther from their neighbours than these are from theirs.
        """
        return out_of_scope(self, X, Asked.rows(self, X, adjacency))[0]

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, per_class: bool = False, proved: bool = False, adjacency: Any = None
    ) -> NDArray[np.bool_]:
        """Sets of classes that hold the true one with a given probability: cross-conformal prediction.

        If the labelled rows are a random draw of all rows, the sets of unlabelled rows hold the true class in about
        ``coverage`` of the cases; see :mod:`condiff.uncertainty.conformal` for what is proved. On given graphs a class
        is also judged by how it fits the neighbours. New rows are judged by how answers differ at their neighbours.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            Rows of the training data, or new ones. A row with a label has a set of that label alone, unless
            ``label_noise`` is set.
        coverage : float, default=0.9
            Where labels are too few to promise it, a warning says what they can promise, and that is given.
        per_class : bool, default=False
            Promise the coverage for each class by itself, from its own labels; also the right choice where so many
            rows of each class were labelled, instead of a random draw.
        proved : bool, default=False
            Larger sets, whose coverage is a theorem.
        adjacency : array-like or sparse matrix of shape (n_rows, n_samples), optional
            As for :meth:`predict_proba`.

        Returns
        -------
        ndarray of bool, shape (n_rows, n_classes)
            Which classes belong to the set of each row, in the order of ``classes_``; at least one does.
        """
        return class_sets(self, Asked.rows(self, X, adjacency), coverage, per_class=per_class, proved=proved)

    def answers_at(self, nodes: NDArray[np.int64], coverage: float | None = None, **how: bool) -> NDArray[Any]:
        """Probabilities at nodes of the graph, by their numbers; with a coverage, their prediction sets."""
        if coverage is None:
            return self.probabilities_of(self._priced(self.record_.output[nodes]))
        return class_sets(self, Asked.of_nodes(self, nodes), coverage, **how)


class ValueAnswers(Answers):
    """Answers of a regressor."""

    classifies = False
    _single: bool
    _logarithmic: NDArray[np.bool_]
    _offset: Array
    _spread: Array
    _low: Array
    _high: Array

    def predict(self, X: Any, *, adjacency: Any = None) -> Any:
        """Values; for training points exactly ``transduction_``, for others through their neighbours among those."""
        return self.values_of(self._answer(X, adjacency))

    def predict_interval(self, X: Any, coverage: float = 0.9, *, proved: bool = False, adjacency: Any = None) -> Array:
        """Intervals that hold the true value with a given probability, wider where neighbours disagree.

        If the labelled rows are a random draw of all rows, the intervals of unlabelled rows hold the true value in
        about ``coverage`` of the cases; see :mod:`condiff.uncertainty.conformal` for what is proved. For a labelled row
        it is what would be said without its label.

        Parameters
        ----------
        X, coverage, proved, adjacency
            As for :meth:`COINClassifier.predict_set`.

        Returns
        -------
        ndarray of shape (n_rows, 2) or (n_rows, n_outputs, 2)
            The lower and the upper end of each interval.
        """
        return self._ends(value_intervals(self, Asked.rows(self, X, adjacency), coverage, proved=proved))

    def answers_at(self, nodes: NDArray[np.int64], coverage: float | None = None) -> Array:
        """Values at nodes of the graph, by their numbers; with a coverage, their intervals."""
        if coverage is None:
            return self.values_of(self.record_.output[nodes])
        return self._ends(value_intervals(self, Asked.of_nodes(self, nodes), coverage))

    def _ends(self, found: Array) -> Array:
        """Ends of intervals on the scale of the targets."""
        values = found * self._spread[:, None] + self._offset[:, None]
        bent = self._logarithmic[:, None]
        values = np.where(bent, np.exp(np.where(bent, values, 0.0)), values)
        return values[:, 0] if self._single else values

    def within_reach(self, outputs: Array) -> Array:
        """Outputs that do not go far past what was seen, where values are learned as logarithms."""
        low, high = (self._low - self._offset) / self._spread, (self._high - self._offset) / self._spread
        return np.where(self._logarithmic, np.clip(outputs, low, high), outputs)

    def values_of(self, outputs: Array) -> Array:
        """Outputs on the scale of the targets."""
        values = self._values(outputs)
        return values[:, 0] if self._single else values

    def _values(self, outputs: Array) -> Array:
        values = outputs * self._spread + self._offset
        # A logarithm that is off by little is a value that is off by much: none goes far past what was seen.
        inside = np.clip(values, self._low, self._high)
        return np.where(self._logarithmic, np.exp(np.where(self._logarithmic, inside, 0.0)), values)


class SeveralAnswers:
    """Answers of a classifier that gives several labels to a row: those of a head for each."""

    classes_: NDArray[Any]
    heads_: list[Any]
    metadata_: Any

    def _require_fitted(self) -> None:
        """Nothing: what answers and no more was made of a fitted model."""

    def predict_proba(self, X: Any, *, adjacency: Any = None) -> Array:
        """The probability that each label applies, (n_samples, n_labels)."""
        rows, heads = self._read_once(X)
        return np.stack([head.predict_proba(rows, adjacency=adjacency)[:, 1] for head in heads], axis=1)

    def predict(self, X: Any, *, adjacency: Any = None) -> NDArray[np.int64]:
        """1 where a label applies and 0 where it does not, (n_samples, n_labels)."""
        rows, heads = self._read_once(X)
        return np.stack([head.predict(rows, adjacency=adjacency) for head in heads], axis=1)

    def _read_once(self, X: Any) -> tuple[Any, list[Any]]:
        """Rows, and heads that read them: a table is encoded once for all."""
        self._require_fitted()
        first = self.heads_[0]
        if first.encoder_ is None:
            return X, self.heads_
        return first._numbers(features_of(X), learn=False), [head.on_numbers() for head in self.heads_]

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over a state that has been checked."""
        self.heads_ = [self._head_of(saved["params"], dict(saved["state"])) for saved in state.pop("heads_")]
        self.__dict__.update(state)

    def _head_of(self, params: dict[str, Any], state: dict[str, Any]) -> Any:
        return _answering(ClassAnswers(), params, state)


# The parameters that answers depend on, with what they must look like in a file.
_PARAMETERS: dict[str, Check] = {
    "solver": one_of(*SOLVER_NAMES),
    "folds": whole(0),
    "label_noise": lambda value, name, sizes: (one_of("auto") if isinstance(value, str) else flag)(value, name, sizes),
}
_ANSWERS: dict[str, type[Answers | SeveralAnswers]] = {
    "COINClassifier": ClassAnswers,
    "COINMultiLabelClassifier": SeveralAnswers,
    "COINRegressor": ValueAnswers,
}


def load_answers(folder: str | Path) -> Answers | SeveralAnswers:
    """What answers instead of the classifier or regressor that was saved in a folder.

    It has the methods that predict, and is checked as :func:`condiff.load` does, which also loads what fits.
    """
    content = load_state(Path(folder))
    kind = _ANSWERS.get(content["kind"])
    if kind is None:
        raise InvalidFileError(f"{folder} holds a {content['kind']!r}, not a classifier or a regressor")
    with refusing(folder, "a model that this version of condiff can load", "save it again"):
        check_state(content["kind"], content["state"])
        model: Answers | SeveralAnswers = _answering(kind(), content["params"], dict(content["state"]))
    model.metadata_ = content["metadata"]
    return model


def _answering(model: Any, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """A model that takes over a state that has been checked, and the parameters that answers depend on."""
    for name, check in _PARAMETERS.items():
        if name in params:
            check(params[name], name, {})
            setattr(model, name, params[name])
    model._restore(state)
    return model
