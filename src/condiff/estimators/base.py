"""What the classifier and the regressor share: parameters, the fit through the diffusion, answers, persistence."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from condiff.convection import Residual
from condiff.diffusion import SOLVERS, Certificate, Diffusion, certify, diffusion_time
from condiff.diffusion.stability import max_diagonal
from condiff.errors import InvalidInputError, UnlabelledComponentWarning
from condiff.estimators import persistence
from condiff.estimators.domain import Domain
from condiff.estimators.induction import follow
from condiff.estimators.labels import Items
from condiff.estimators.nodes import Nodes
from condiff.graph import Graph
from condiff.model import COIN, Head
from condiff.training import Training, fit_projected, projection

Array = NDArray[np.float64]
Penalty = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# Layers of a solver without a step-size limit: enough for the points outside the graph to follow the flow.
_UNLIMITED_LAYERS = 10


class BaseCOIN(BaseEstimator):  # type: ignore[misc]
    """Base class of :class:`COINClassifier` and :class:`COINRegressor`."""

    _head: ClassVar[Head]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "graph": [StrOptions({"knn", "precomputed"}), callable],
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
        "device": [str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        graph: Any = "knn",
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
        device: str = "cpu",
        verbose: int | bool = False,
    ) -> None:
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
        self.device = device
        self.verbose = verbose

    @property
    def graph_(self) -> Graph:
        """The normalised graph of the nodes: the distinct training rows, or all rows of a given graph."""
        check_is_fitted(self)
        graph: Graph = self._domain.graph
        return graph

    @property
    def certificate_(self) -> Certificate:
        """Step-size limits of the graph."""
        return certify(self.graph_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- from data to a graph -------------------------------------------------------------------------------------

    def _read(self, X: Any, y: Any, sample_weight: Any, adjacency: Any) -> tuple[Nodes, Array]:
        """Check the inputs and build the domain; returns the nodes and the weight of every row."""
        self._validate_params()
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        if y is None:
            raise InvalidInputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        check_consistent_length(X, y)
        weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        if not weights.any():
            raise InvalidInputError("all sample weights are zero; at least one must be positive")
        if adjacency is not None and self.graph != "precomputed":
            raise InvalidInputError("an adjacency was passed; set graph='precomputed' to use it")
        shared: dict[str, Any] = {"scaling": self.scaling, "width": self.width}
        if self.graph == "precomputed":
            nodes = Nodes.separate(X)
            source = X if adjacency is None else adjacency
            if adjacency is None and X.shape[0] != X.shape[1]:
                raise InvalidInputError(
                    "graph='precomputed' needs fit(X, y, adjacency=...), or a square adjacency in the place of X; "
                    f"X is {X.shape[0]} x {X.shape[1]}"
                )
            purpose = type(self).__name__
            self._domain = Domain.of_graph(nodes, source, purpose=purpose, extensible=adjacency is not None, **shared)
        elif self.graph == "knn":
            nodes = Nodes.merged(X, weights > 0)
            self._domain = Domain.of_points(
                nodes,
                n_neighbors=self.n_neighbors,
                bandwidth_rank=self.bandwidth_rank,
                metric=self.metric,
                **shared,
            )
        else:
            nodes = Nodes.merged(X, weights > 0)
            self._domain = Domain.of_function(nodes, self.graph, purpose=type(self).__name__, **shared)
        return nodes, weights

    def _graph_factor(self) -> float:
        # A graph that was given, of citations say, mixes classes more than one of nearest neighbours, and bears less
        # diffusion: more degrees of freedom are kept.
        return 1.0 if self.graph == "knn" else 4.0

    def _choose_diffusion(self, dimension: float) -> Diffusion:
        """Layers and strength: as given, or such that ``dimension`` degrees of freedom are left."""
        operator = self._domain.graph.laplacian(torch.float32)
        largest = max_diagonal(operator)
        limit = 1.0 / largest if largest > 0 else 1.0
        layers, strength = self.layers, self.strength
        if layers == "auto":
            time = diffusion_time(operator, dimension)
            step = float(strength) if strength != "auto" else limit
            if strength == "auto" and not SOLVERS[self.solver].limited:
                step = max(time, limit) / _UNLIMITED_LAYERS
            layers = max(1, math.ceil(time / step - 1e-9))
            strength = step if strength != "auto" or time == 0 else time / layers
        elif strength == "auto":
            strength = limit
        self.layers_, self.strength_ = int(layers), float(strength)
        self.diffusion_time_ = self.layers_ * self.strength_
        return Diffusion(self.layers_, self.strength_, solver=self.solver, strict=self.strict)

    # ---- the fit --------------------------------------------------------------------------------------------------

    def _train(
        self,
        diffusion: Diffusion,
        items: Items,
        held_out: NDArray[np.bool_],
        n_outputs: int,
        penalty: Penalty | None = None,
    ) -> Array:
        """Fit all networks at once; returns the outputs of each fold's network at the items, (folds, items, outputs).

        ``penalty`` gets ``u_0`` of shape (networks, n, outputs) and the weights, (networks, items).
        """
        device, domain = torch.device(self.device), self._domain
        inputs = torch.as_tensor(domain.features.inputs(domain.points), dtype=torch.float32, device=device)
        operator = domain.graph.laplacian(torch.float32, device)
        project = projection(diffusion, operator, torch.as_tensor(items.nodes, device=device))
        networks = self._new_networks(inputs.shape[1], n_outputs, diffusion, self.n_inits + len(held_out))
        shares = np.concatenate([np.tile(items.weights, (self.n_inits, 1)), ~held_out * items.weights])
        weight = torch.as_tensor(shares, dtype=torch.float32, device=device)
        classes = self._head == "softmax"
        fit_projected(
            networks,
            inputs,
            project,
            torch.as_tensor(items.targets, dtype=torch.long if classes else torch.float32, device=device),
            weight,
            penalty=None if penalty is None else lambda u: penalty(u, weight),
            settings=Training("adam", self.learning_rate, weight_decay=self.weight_decay, epochs=self.epochs),
            on_epoch=_print_epoch if self.verbose else None,
        )
        with torch.no_grad():
            held = [project(network.base(inputs)).cpu().double().numpy() for network in networks[self.n_inits :]]
        self.models_ = [network.cpu().double().eval() for network in networks[: self.n_inits]]
        return np.stack(held) if held else np.zeros((0, len(items.nodes), n_outputs))

    def _new_networks(self, n_inputs: int, n_outputs: int, diffusion: Diffusion, number: int) -> list[COIN]:
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=number)
        networks = []
        with torch.random.fork_rng(devices=[]):
            for seed in seeds:
                torch.manual_seed(int(seed))
                base = Residual(n_inputs, n_outputs, width=max(self.width, n_inputs))
                networks.append(COIN(base, diffusion, head=self._head).to(self.device))
        return networks

    def _diffuse(self, nodes: Nodes, items: Items) -> None:
        """Diffuse the mean base output over all nodes, and find those that no label can reach."""
        graph = self._domain.graph
        self._base = self._base_output(self._domain.points)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the fit has said it
            diffused = self.models_[0].diffusion(torch.as_tensor(self._base), graph.laplacian(torch.float64))
        self._outputs = diffused.numpy()
        # Without a label in reach there is nothing to diffuse: the base network answers alone.
        self._unreached = ~np.isin(graph.components, graph.components[items.nodes])
        self._outputs[self._unreached] = self._base[self._unreached]
        known = nodes.of_row >= 0
        self.unlabelled_component_ = np.zeros(len(known), dtype=bool)
        self.unlabelled_component_[known] = self._unreached[nodes.of_row[known]]
        if self._unreached.any():
            components = len(np.unique(graph.components[self._unreached]))
            warnings.warn(
                f"{int(self.unlabelled_component_.sum())} points lie in {components} component(s) of the graph without "
                "any label and are answered by the base network alone; see unlabelled_component_",
                UnlabelledComponentWarning,
                stacklevel=4,
            )

    # ---- answers --------------------------------------------------------------------------------------------------

    def _base_output(self, rows: Any) -> Array:
        """The mean output of the base networks, in double precision."""
        inputs = torch.as_tensor(self._domain.features.inputs(rows), dtype=torch.float64)
        with torch.no_grad():
            return np.asarray(torch.stack([model.base(inputs) for model in self.models_]).mean(0).numpy())

    def _outputs_of_rows(self, nodes: Nodes, X: Any) -> Array:
        """Outputs of the training rows; those that were left out of the graph are answered like new ones."""
        return self._outputs[nodes.of_row] if (nodes.of_row >= 0).all() else self._answer(X)

    def _answer(self, X: Any, adjacency: Any = None) -> Array:
        """Outputs for any rows: those of the training data as they were fitted, others through their neighbours."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        X = self._domain.in_own_form(X)
        found = self._domain.find(X) if adjacency is None else np.full(X.shape[0], -1)
        outputs = np.empty((X.shape[0], self._outputs.shape[1]))
        outputs[found >= 0] = self._outputs[found[found >= 0]]
        new = found < 0
        if new.any():
            outputs[new] = self._induce(X[new], adjacency)
        return outputs

    def _induce(self, rows: Any, adjacency: Any) -> Array:
        domain = self._domain
        if self.graph == "precomputed" and adjacency is None:
            warnings.warn(
                f"{rows.shape[0]} points are new and came without adjacency: the base network answers them alone",
                UserWarning,
                stacklevel=4,
            )
        weights = domain.weights_of(rows, adjacency)
        # Nodes that no label reaches have nothing to pass on.
        weights = sp.csr_array(weights @ sp.diags_array((~self._unreached).astype(np.float64)))
        operator = domain.graph.laplacian(torch.float64)
        return follow(self.models_[0].diffusion, operator, self._base, self._base_output(rows), weights)

    # ---- persistence ----------------------------------------------------------------------------------------------

    def save(self, folder: str | Path, metadata: Any = None) -> Path:
        """Write the fitted model to a folder: safetensors and JSON with checksums, no pickle; see :func:`condiff.load`.

        The folder holds the training points, because answers for new points need their neighbours among them.
        ``metadata`` may be any JSON value; the loaded model has it as ``metadata_``.
        """
        check_is_fitted(self)
        params = self.get_params(deep=False)
        if callable(params["graph"]):
            raise InvalidInputError("a model whose graph is a function cannot be saved; pass its result as adjacency")
        if not isinstance(params["random_state"], int | np.integer | None):
            params["random_state"] = None  # a generator has moved on since; the fit is not repeated on loading
        return persistence.save_state(Path(folder), type(self).__name__, params, self._state(), metadata)

    def _state(self) -> dict[str, Any]:
        """Everything that the fit has set, in terms of arrays and plain values."""
        fitted = {name: value for name, value in vars(self).items() if name not in self.get_params(deep=False)}
        fitted.pop("metadata_", None)
        fitted["models_"] = [{k: v.numpy() for k, v in m.convection.state_dict().items()} for m in self.models_]
        fitted["_domain"] = self._domain.to_dict()
        return fitted

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self._domain = Domain.from_dict(state.pop("_domain"))
        diffusion = Diffusion(state["layers_"], state["strength_"], solver=self.solver, strict=self.strict)
        parameters = state.pop("models_")
        n_outputs, width = parameters[0]["readout.weight"].shape
        n_inputs = parameters[0]["blocks.0.weight"].shape[1]
        self.models_ = []
        for arrays in parameters:
            model = COIN(Residual(n_inputs, n_outputs, width=width).double(), diffusion, head=self._head).eval()
            model.convection.load_state_dict({name: torch.as_tensor(value) for name, value in arrays.items()})
            self.models_.append(model)
        self.__dict__.update(state)


def _print_epoch(epoch: int, loss: float) -> None:
    if epoch % 10 == 0:
        print(f"[condiff] epoch {epoch}: loss {loss:.4f}")
