r"""Classical bases: models of the labelled rows alone, regularised for few of them, any of which may be diffused.

The theorem asks of ``u(x, T-1)`` only that it is a function of ``x``: the paper's residual network is one choice. These
are others. Each is fitted on inputs of all points (unlabelled ones say how columns are scaled and which directions they
spread in) and on the labelled items among them, answers for any row, and is saved as arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax

from condiff.bases.forest import Forest
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.kernels.threads import thread_count

Array = NDArray[np.float64]

# Rows answered together, so that kernels and leaves of many rows never stand in memory at once.
_ROWS = 8192
# Principal directions that trees see beside the columns, and points that stand for all where a rough figure will do.
_DIRECTIONS, _SAMPLE = 64, 500
# Labelled rows up to which trees are grown here; beyond, scikit-learn's cost of a tree does not count.
_FEW = 500


class Inputs:
    """The inputs of all points, and what every fit on them needs to know: found once.

    Parameters
    ----------
    values
        (points, features).
    """

    def __init__(self, values: Array) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def mean(self) -> Array:
        """Of the columns."""
        return np.asarray(self.values.mean(axis=0))

    @cached_property
    def scale(self) -> Array:
        """The spread of the columns, 1 where there is none."""
        spread = self.values.std(axis=0)
        return np.where(spread > 1e-12, spread, 1.0)

    @cached_property
    def directions(self) -> Array:
        """The leading principal directions, (features, directions)."""
        centred = self.values - self.mean
        return np.ascontiguousarray(np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :_DIRECTIONS])

    @cached_property
    def sample(self) -> Array:
        """Some of the points, evenly among them."""
        return np.asarray(self.values[np.linspace(0, len(self) - 1, min(len(self), _SAMPLE)).astype(int)])


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a base is fitted on.

    Attributes
    ----------
    inputs
        Of all points.
    rows
        The point of every labelled item.
    targets
        A class code for each item, or its values, (items, outputs), of mean zero and unit variance.
    weights
        How much each counts; their mean is one.
    n_outputs
        Classes, or values.
    evens_out
        Whether small classes may be helped; not where the user has weighted the classes or knows their sizes.
    """

    inputs: Inputs
    rows: NDArray[np.int64]
    targets: NDArray[Any]
    weights: Array
    n_outputs: int
    evens_out: bool = True

    @property
    def classifies(self) -> bool:
        """Whether the targets are classes."""
        return self.targets.ndim == 1

    @property
    def indicators(self) -> Array:
        """The targets as numbers: one column for each class, or the values themselves."""
        return np.eye(self.n_outputs)[self.targets] if self.classifies else self.targets

    @property
    def points(self) -> Array:
        """The inputs of the labelled items."""
        return self.inputs.values[self.rows]

    def without(self, items: NDArray[np.bool_]) -> Labelled:
        """The same without some of the items."""
        weights = self.weights[~items]
        return replace(
            self, rows=self.rows[~items], targets=self.targets[~items], weights=weights * (len(weights) / weights.sum())
        )


class Base(ABC):
    """A fitted base: from rows of inputs to ``u(x, T-1)``, probabilities of classes or values."""

    kinds: ClassVar[dict[str, type[Base]]] = {}

    def __init_subclass__(cls) -> None:
        Base.kinds[cls.__name__] = cls

    def outputs(self, inputs: NDArray[Any]) -> Array:
        """(rows, outputs), worked out in the precision of the inputs; rows of probabilities sum to one."""
        if len(inputs) <= _ROWS:
            return np.asarray(self._answer(inputs), np.float64)
        with ThreadPoolExecutor(thread_count()) as pool:
            return np.concatenate(list(pool.map(self._answer, _blocks(inputs))), dtype=np.float64)

    @abstractmethod
    def _answer(self, inputs: NDArray[Any]) -> Array: ...

    def to_dict(self) -> dict[str, Any]:
        """Arrays and plain values alone, to be saved."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__name__, **{name: _plain(value) for name, value in found.items()}}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Base:
        """The base that :meth:`to_dict` described."""
        state = dict(state)
        kind = state.pop("kind", None)
        if kind not in cls.kinds:
            raise InvalidFileError(f"the model has a base {kind!r}, which this version of condiff does not know")
        return cls.kinds[kind]._restored(state)

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        return cls(**state)


@dataclass(frozen=True, eq=False)
class Linear(Base):
    """``inputs @ weight + intercept``, through a softmax for classes."""

    weight: Array
    intercept: Array
    classifies: bool

    def _answer(self, inputs: NDArray[Any]) -> Array:
        z = inputs @ self.weight + self.intercept
        return np.asarray(softmax(z, axis=1)) if self.classifies else z


@dataclass(frozen=True, eq=False)
class Trees(Base):
    """Extremely randomised trees on the inputs and on their principal directions beside them."""

    forest: Forest
    directions: Array

    def _answer(self, inputs: NDArray[Any]) -> Array:
        return self.forest.outputs(self.seen(inputs))

    def seen(self, inputs: Array) -> Array:
        """What the trees split on."""
        return np.hstack([inputs, inputs @ self.directions])

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        return cls(Forest.from_dict(state["forest"]), state["directions"])


@dataclass(frozen=True, eq=False)
class GaussianProcess(Base):
    r"""The posterior mean of a Gaussian process with the kernel :math:`(1-a) e^{-g |x-y|^2 / m} + a\, x \cdot y / s`.

    Kernels and noise are averaged by their marginal likelihood, so that what is stored is one sum: a linear function,
    and for every length scale weights of the labelled points.

    Attributes
    ----------
    points
        The labelled inputs, centred.
    centre
        What was taken off them.
    rates
        ``g / m`` of every length scale.
    pulls
        (scales, points, outputs): the weights of the points.
    weight, offset
        The linear part.
    classifies
        Whether outputs are to be probabilities.
    """

    points: Array
    centre: Array
    rates: Array
    pulls: Array
    weight: Array
    offset: Array
    classifies: bool

    def _answer(self, inputs: NDArray[Any]) -> Array:
        rows = inputs - self.centre.astype(inputs.dtype)
        found = rows @ self.weight + self.offset
        if rows.dtype == np.float64:
            distances = cdist(rows, self.points, "sqeuclidean")
        else:
            # A product of matrices is far faster, and single precision has no digits that it would lose.
            points = self.points.astype(rows.dtype)
            distances = (rows**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * rows @ points.T
        for rate, pull in zip(self.rates, self.pulls, strict=True):
            found = found + np.exp(distances.dtype.type(-rate) * distances) @ pull.astype(distances.dtype)
        if not self.classifies:
            return np.asarray(found)
        kept = np.clip(found, 0.01, None)
        return np.asarray(kept / kept.sum(axis=1, keepdims=True))


class Wrapped(Base):
    """Any classifier or regressor of scikit-learn's kind; it lives in memory and cannot be saved."""

    def __init__(self, model: Any, n_outputs: int, *, classifies: bool) -> None:
        self.model, self.n_outputs, self.classifies = model, n_outputs, classifies

    def outputs(self, inputs: NDArray[Any]) -> Array:
        # Nothing is known of what else may use the threads, or whether it may be asked by several.
        return np.concatenate([self._answer(block) for block in _blocks(inputs)])

    def _answer(self, inputs: NDArray[Any]) -> Array:
        if not self.classifies:
            return np.asarray(self.model.predict(inputs), np.float64).reshape(len(inputs), -1)
        found = np.zeros((len(inputs), self.n_outputs))
        found[:, self.model.classes_] = self.model.predict_proba(inputs)
        return found

    def to_dict(self) -> dict[str, Any]:
        raise InvalidInputError(
            f"a model whose base is a {type(self.model).__name__} cannot be saved without a pickle; keep it in memory, "
            "or use base='residual' or base='blend'"
        )


@dataclass(frozen=True, eq=False)
class Blend(Base):
    """The weighted mean of several bases.

    Attributes
    ----------
    members, weights
        The bases, and how much each counts.
    tilt
        What the mean is multiplied by, class by class, before rows are made to sum to one again; None for values.
    """

    members: tuple[Base, ...]
    weights: tuple[float, ...]
    tilt: Array | None = None

    def _answer(self, inputs: NDArray[Any]) -> Array:
        total = sum(self.weights)
        parts = [
            each.outputs(inputs) * (weight / total) for each, weight in zip(self.members, self.weights, strict=True)
        ]
        mean = np.asarray(np.sum(parts, axis=0))
        if self.tilt is None:
            return mean
        mean = mean * self.tilt
        return np.asarray(mean / mean.sum(axis=1, keepdims=True))

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        members = tuple(Base.from_dict(each) for each in state["members"])
        return cls(members, tuple(state["weights"]), state["tilt"])


def _blocks(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Rows that are answered together; at least one block, which may be empty."""
    for start in range(0, max(len(rows), 1), _ROWS):
        yield rows[start : start + _ROWS]


def _plain(value: Any) -> Any:
    if isinstance(value, Base | Forest):
        return value.to_dict()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


# From a fit that all but interpolates to one that is all but constant.
_PENALTIES = np.logspace(-2, 3, 16)


def fit_linear(data: Labelled) -> Linear:
    """Logistic regression on standardised inputs, every class counting alike; ridge regression for values.

    The ridge's penalty is that with the least leave-one-out error.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV

    centre, scale = data.inputs.mean, data.inputs.scale
    points = (data.points - centre) / scale
    if data.classifies:
        balance = "balanced" if data.evens_out else None
        model = LogisticRegression(C=0.3, class_weight=balance, max_iter=300)
        model.fit(points, data.targets, sample_weight=data.weights)
        weight, intercept = _columns(model.coef_, model.intercept_, model.classes_, data.n_outputs)
    else:
        ridge = RidgeCV(_PENALTIES).fit(points, data.targets, sample_weight=data.weights)
        weight, intercept = ridge.coef_.reshape(data.n_outputs, -1).T, np.ravel(ridge.intercept_)
    weight = weight / scale[:, None]
    return Linear(weight, intercept - centre @ weight, data.classifies)


def fit_discriminant(data: Labelled) -> Linear | None:
    """Linear discriminant analysis, the covariance within classes shrunk as Ledoit and Wolf (2004) do.

    None where no class has two points.
    """
    from sklearn.covariance import ledoit_wolf

    present, codes, counts = np.unique(data.targets, return_inverse=True, return_counts=True)
    if counts.max() < 2:
        return None
    weights = np.bincount(codes, data.weights)
    points = (data.points - data.inputs.mean) / data.inputs.scale
    means = np.zeros((len(present), points.shape[1]))
    np.add.at(means, codes, points * data.weights[:, None])
    means /= weights[:, None]
    residuals = (points - means[codes]) * np.sqrt(len(points) / max(len(points) - len(present), 1))
    covariance, _ = ledoit_wolf(residuals, assume_centered=True)
    # Rounding alone may make a covariance singular, and so may points that coincide.
    covariance[np.diag_indices_from(covariance)] += 1e-9 + 1e-6 * np.trace(covariance) / len(covariance)
    weight = np.linalg.solve(covariance, means.T)
    intercept = np.log(weights / weights.sum()) - 0.5 * (means.T * weight).sum(axis=0)
    weight = weight / data.inputs.scale[:, None]
    columns, offsets = np.zeros((weight.shape[0], data.n_outputs)), np.full(data.n_outputs, -np.inf)
    columns[:, present], offsets[present] = weight, intercept - data.inputs.mean @ weight
    return Linear(columns, offsets, classifies=True)


def fit_wrapped(data: Labelled, estimator: Any) -> Wrapped:
    """Fit a copy of a classifier or regressor, with weights where it takes any."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    model = clone(estimator)
    targets = data.targets[:, 0] if not data.classifies and data.n_outputs == 1 else data.targets
    weights = {"sample_weight": data.weights} if has_fit_parameter(model, "sample_weight") else {}
    return Wrapped(model.fit(data.points, targets, **weights), data.n_outputs, classifies=data.classifies)


def fit_trees(data: Labelled, *, n_trees: int = 200, seed: int = 0) -> Trees:
    """Extremely randomised trees (Geurts et al., 2006) on the inputs and their principal directions."""
    directions = data.inputs.directions
    seen = np.hstack([data.points, data.points @ directions])
    n_tried = max(1, int(np.sqrt(seen.shape[1]))) if data.classifies else max(1, seen.shape[1] // 3)
    if len(seen) <= _FEW:
        forest = Forest.grow(seen, data.indicators, data.weights, n_trees=n_trees, n_tried=n_tried, fewest=1, seed=seed)
        return Trees(forest, directions)
    from sklearn.ensemble import ExtraTreesRegressor

    # Variance of the indicators is the Gini impurity: one kind of tree for classes and values.
    grown = ExtraTreesRegressor(n_trees, max_features=n_tried, random_state=seed, n_jobs=-1)
    indicators = data.indicators if data.n_outputs > 1 else data.indicators[:, 0]
    return Trees(Forest.from_sklearn(grown.fit(seen, indicators, data.weights).estimators_), directions)


# Length scales relative to the median distance, shares of the linear kernel, and noise relative to the signal.
_SCALES, _LINEAR, _NOISE = (0.25, 1.0, 4.0), (0.0, 0.5, 1.0), (0.03, 0.1, 0.3, 1.0, 3.0)


def fit_gaussian_process(data: Labelled) -> GaussianProcess:
    """A Gaussian process of the indicators of the classes, or of the values; see :class:`GaussianProcess`."""
    centre = data.inputs.mean
    points, sample = data.points - centre, data.inputs.sample - centre
    targets = data.indicators
    offset = np.average(targets, axis=0, weights=data.weights)
    free = max(data.n_outputs - 1, 1) if data.classifies else data.n_outputs
    distances = cdist(points, points, "sqeuclidean")
    typical = float(np.median(cdist(sample, points, "sqeuclidean"))) or 1.0
    size = float((sample**2).sum(axis=1).mean()) or 1.0
    products = points @ points.T / size
    # A point of weight w is as good as w points: its noise is divided by w.
    unit = 1.0 / np.sqrt(data.weights)
    found: list[tuple[float, float, float, Array]] = []
    for scale in _SCALES:
        for share in _LINEAR:
            if share == 1.0 and scale != 1.0:
                continue
            kernel = (1 - share) * np.exp(-scale * distances / typical) + share * products
            values, vectors = np.linalg.eigh(kernel / unit[:, None] / unit)
            along = vectors.T @ ((targets - offset) / unit[:, None])
            for noise in _NOISE:
                spectrum = np.maximum(values, 0.0) + noise
                signal = (along**2 / spectrum[:, None]).sum() / (len(points) * free)
                evidence = -0.5 * free * (np.log(spectrum).sum() + len(points) * np.log(max(signal, 1e-12)))
                found.append((evidence, scale, share, (vectors @ (along / spectrum[:, None])) / unit[:, None]))
    top = max(each[0] for each in found)
    chances = np.exp([each[0] - top for each in found])
    pulls = np.zeros((len(_SCALES), len(points), data.n_outputs))
    weight = np.zeros((points.shape[1], data.n_outputs))
    for chance, (_, scale, share, pull) in zip(chances / chances.sum(), found, strict=True):
        pulls[_SCALES.index(scale)] += chance * (1 - share) * pull
        weight += chance * share * points.T @ pull / size
    rates = np.array(_SCALES) / typical
    return GaussianProcess(points, centre, rates, pulls, weight, offset, data.classifies)


# The power of the classes' sizes, and rounds of estimating them.
_TILT, _ROUNDS = 1 / 3, 10


def blend(members: Sequence[tuple[Base | None, float]]) -> Blend:
    """The weighted mean of the bases that could be fitted."""
    fitted = [(base, weight) for base, weight in members if base is not None]
    return Blend(tuple(base for base, _ in fitted), tuple(weight for _, weight in fitted))


def tilted(base: Blend, data: Labelled) -> Blend:
    """Halfway between what is most often right and what is right as often in every class.

    Labels that were drawn at random show the classes' sizes; answers are then divided by a third power of those, which
    small classes gain more from than large ones lose. Equally many labels of every class were picked and show no
    sizes; these are estimated from the answers at all points (Saerens et al., 2002), and a third of that is believed.
    """
    if not data.evens_out:
        return base
    counts = np.bincount(data.targets, minlength=data.n_outputs)
    if (counts != counts[0]).any():
        factor = ((counts + 1.0) / (counts + 1.0).sum()) ** -_TILT
    else:
        answers = base.outputs(data.inputs.sample)
        factor = np.ones(data.n_outputs)
        for _ in range(_ROUNDS):
            moved = answers * factor
            sizes = (moved / moved.sum(axis=1, keepdims=True)).sum(axis=0) + 2.0
            factor = (sizes / sizes.mean()) ** _TILT
    return replace(base, tilt=factor)


def _columns(weight: Array, intercept: Array, present: NDArray[Any], n_outputs: int) -> tuple[Array, Array]:
    """scikit-learn's coefficients as one column for each class; a class without a label has no chance."""
    if len(present) == 2:  # one column says by how much the second class is ahead
        weight, intercept = np.vstack([-weight, weight]) / 2, np.concatenate([-intercept, intercept]) / 2
    columns, offsets = np.zeros((weight.shape[1], n_outputs)), np.full(n_outputs, -np.inf)
    columns[:, present], offsets[present] = weight.T, intercept
    return columns, offsets
