"""What the classifier and the regressor share before any label is looked at: parameters, rows and the graph."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from condiff.diffusion import SOLVERS
from condiff.encoders.encoding import Encoding, is_table
from condiff.encoders.table import TableEncoder, encoder_of
from condiff.errors import InvalidInputError
from condiff.estimators.answering import Answers
from condiff.estimators.domain import MANY, Domain
from condiff.estimators.inputs import Nodes, unpacked
from condiff.estimators.prepared import OF_THE_ROWS, Prepared
from condiff.estimators.saving import Saveable
from condiff.graph.ordering import locality_order

Array = NDArray[np.float64]
#: Single precision is kept as it is: a million rows need not become twice as large.
PRECISIONS = (np.float64, np.float32)
#: The kinds of graph that can be mixed.
KINDS = ("knn", "leaves", "answers", "precomputed")


class Reading(Answers, Saveable):
    """Rows of numbers or of a table as the nodes of a graph."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "base": [StrOptions({"auto", "residual", "blend"}), HasMethods(["fit", "predict"])],
        "graph": [StrOptions({"auto", "knn", "leaves", "answers", "precomputed"}), dict, callable],
        "n_neighbors": [Interval(Integral, 2, None, closed="left")],
        "bandwidth_rank": [Interval(Integral, 2, None, closed="left")],
        "metric": [StrOptions({"auto", "euclidean", "cosine"})],
        "scaling": [StrOptions({"auto", "standard", "none"})],
        "layers": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "strength": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions(set(SOLVERS))],
        "strict": ["boolean"],
        "width": [Interval(Integral, 1, None, closed="left")],
        "n_inits": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "folds": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "engine": [StrOptions({"auto", "reference"})],
        "device": [str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        base: Any = "auto",
        graph: Any = "auto",
        n_neighbors: int = 12,
        bandwidth_rank: int = 6,
        metric: str = "auto",
        scaling: str = "auto",
        layers: Any = "auto",
        strength: Any = "auto",
        solver: str = "euler",
        strict: bool = False,
        width: int = 64,
        n_inits: int = 2,
        epochs: int = 60,
        learning_rate: float = 0.03,
        weight_decay: float = 5e-4,
        folds: int = 5,
        random_state: Any = 0,
        engine: str = "auto",
        device: str = "cpu",
        verbose: int | bool = False,
    ) -> None:
        self.base = base
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.bandwidth_rank = bandwidth_rank
        self.metric = metric
        self.scaling = scaling
        self.layers = layers
        self.strength = strength
        self.solver = solver
        self.strict = strict
        self.width = width
        self.n_inits = n_inits
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.folds = folds
        self.random_state = random_state
        self.engine = engine
        self.device = device
        self.verbose = verbose

    def _require_fitted(self) -> None:
        check_is_fitted(self)

    def _encoder_of(self, state: dict[str, Any]) -> Encoding:
        return TableEncoder.from_state(state)

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if not isinstance(params["base"], str):
            params["base"] = "blend"  # its fitted state is saved, or says that it cannot be
        if callable(params["graph"]):
            raise InvalidInputError("a model whose graph is a function cannot be saved; pass its result as adjacency")
        return params

    def _state(self) -> dict[str, Any]:
        fitted = self._fitted()
        fitted["models_"] = [network.to_dict() for network in fitted.pop("networks_")]
        fitted["averaged_"] = [vars(each) for each in self.averaged_]
        fitted["_domain"] = self._domain.to_dict()
        fitted["record_"] = vars(self.record_)
        fitted["encoder_"] = None if self.encoder_ is None else self.encoder_.to_state()
        fitted["base_"] = None if self.base_ is None else self.base_.to_dict()
        fitted["choice_"] = self.choice_.to_dict()
        fitted["readout_"] = None if self.readout_ is None else vars(self.readout_)
        return fitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def prepare(self, X: Any, *, adjacency: Any = None) -> Prepared:
        """Encode rows and join them by a graph, once for several fits with other labels.

        The result takes the place of X in ``fit`` and ``predict`` of estimators with the same parameters of the graph.
        Rows of weight zero stay in its graph, without their labels.

        >>> from condiff import COINClassifier
        >>> rows = COINClassifier().prepare([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
        >>> COINClassifier().fit(rows, [0, -1, -1, 1, -1, -1]).transduction_.tolist()
        [0, 0, 0, 1, 1, 1]
        >>> COINClassifier().fit(rows, [1, -1, -1, -1, -1, 0]).transduction_.tolist()
        [1, 1, 1, 0, 0, 0]
        """
        self._validate_params()
        X, _, adjacency = unpacked(X, None, adjacency, self.graph)
        reader = clone(self)
        numbers = reader._numbers(X, learn=True)
        nodes = reader._join(numbers, adjacency, np.ones(numbers.shape[0], bool))
        known = {name: value for name, value in vars(reader).items() if name not in reader.get_params(deep=False)}
        return Prepared(numbers, nodes, known, {name: getattr(self, name) for name in OF_THE_ROWS})

    def _read(self, X: Any, y: Any, sample_weight: Any, adjacency: Any) -> tuple[Nodes, Array]:
        """Check the inputs and build the domain; returns the nodes and the weight of every row."""
        numbers = self._numbers(X, learn=True)
        if y is None:
            raise InvalidInputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        check_consistent_length(numbers, y)
        weights = np.asarray(_check_sample_weight(sample_weight, numbers, dtype=np.float64, ensure_non_negative=True))
        if not weights.any():
            raise InvalidInputError("all sample weights are zero; at least one must be positive")
        if not isinstance(X, Prepared):
            return self._join(numbers, adjacency, weights > 0), weights
        if adjacency is not None:
            raise InvalidInputError("the rows were prepared with their graph: leave out the adjacency")
        return X.nodes, weights

    @property
    def _scaling_of_columns(self) -> Any:
        # An encoder gives every column of a table its due weight; standardised again, rare levels would drown the rest.
        return "none" if self.scaling == "auto" and self.encoder_ is not None else self.scaling

    def _join(self, X: Any, adjacency: Any, keep: NDArray[np.bool_]) -> Nodes:
        """Build the domain of rows of numbers; returns its nodes."""
        mix = self._mix(adjacency is not None)
        self._graph_is_given = "precomputed" in mix
        shared: dict[str, Any] = {"scaling": self._scaling_of_columns, "width": self.width}
        if self._graph_is_given:
            nodes = Nodes.separate(X)
            source = X if adjacency is None else adjacency
            if adjacency is None and X.shape[0] != X.shape[1]:
                raise InvalidInputError(
                    "graph='precomputed' needs fit(X, y, adjacency=...), or a square adjacency instead of X; "
                    f"X is {X.shape[0]} x {X.shape[1]}"
                )
            purpose = type(self).__name__
            self._domain = Domain.of_graph(nodes, source, purpose=purpose, extensible=True, **shared)
            if "knn" in mix:
                self._domain = self._domain.with_neighbours(mix, self.n_neighbors, self.bandwidth_rank)
        elif not callable(self.graph):
            nodes = Nodes.merged(X, keep)
            self._domain = Domain.of_points(
                nodes,
                n_neighbors=self.n_neighbors,
                bandwidth_rank=self.bandwidth_rank,
                metric=self.metric,
                **shared,
            )
            if self._domain.graph.n_nodes > MANY:
                # Neighbours stand close together, so that a diffusion finds them in the cache.
                order = locality_order(self._domain.graph.laplacian()).numpy()
                self._domain, nodes = self._domain.in_order(order), nodes.in_order(order)
            if self.verbose:
                print(f"[condiff] graph of {nodes.points.shape[0]:,} points; {_search_line(self._domain.recall)}")
        else:
            nodes = Nodes.merged(X, keep)
            self._domain = Domain.of_function(nodes, self.graph, purpose=type(self).__name__, **shared)
        return nodes

    def _numbers(self, X: Any, *, learn: bool = False) -> Any:
        """A matrix of numbers as it is, or the columns of a table encoded; ``learn`` decides which it is."""
        if isinstance(X, Prepared):
            if learn:
                X.lend_to(self)
            return X.numbers
        if learn:
            self.encoder_ = encoder_of(X)
        if self.encoder_ is None:
            if not learn and is_table(X):
                raise InvalidInputError("X has text or missing values (NaN), but the model was fitted on numbers alone")
            return validate_data(self, X, accept_sparse="csr", dtype=list(PRECISIONS), reset=learn)
        if learn:
            self.n_features_in_, self.feature_names_in_ = self.encoder_.n_features_in_, self.encoder_.feature_names_in_
        return check_array(self.encoder_.transform(X), accept_sparse="csr", dtype=list(PRECISIONS))

    def _mix(self, given: bool) -> dict[str, float]:
        """What each kind of graph counts, as far as the parameters say; the weights sum to one."""
        if callable(self.graph):
            if given:
                raise InvalidInputError("an adjacency was passed, but the graph is a function: give one of them")
            return {"function": 1.0}
        if not isinstance(self.graph, dict):
            if given and self.graph in ("leaves", "answers"):
                raise InvalidInputError(
                    f"an adjacency was passed, but graph={self.graph!r}: mix them, "
                    f"graph={{'precomputed': 1, {self.graph!r}: 1}}, or leave one out"
                )
            named = "knn" if self.graph == "auto" else self.graph
            return {"precomputed" if given else named: 1.0}
        unknown = [name for name in self.graph if name not in KINDS]
        if unknown or not self.graph:
            raise InvalidInputError(f"graph={self.graph!r} must give weights to some of {', '.join(KINDS)}")
        weights = np.array([float(each) if isinstance(each, Real) else math.nan for each in self.graph.values()])
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise InvalidInputError(f"the weights of graph={self.graph!r} must be positive and finite")
        if given != ("precomputed" in self.graph):
            missing = "no adjacency was passed" if not given else "an adjacency was passed, which it does not name"
            raise InvalidInputError(f"graph={self.graph!r}, but {missing}")
        return dict(zip(self.graph, (weights / weights.sum()).tolist(), strict=True))


def _search_line(recall: float) -> str:
    return "neighbours are exact" if recall == 1.0 else f"faiss found {100 * recall:.1f} % of a sample's neighbours"
