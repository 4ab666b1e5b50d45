"""Randomised smoothing: a classifier averaged over Gaussian noise, with certified radii (Cohen et al., 2019)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, laplacian
from condiff.model import COIN
from condiff.theory.certificates import Certificates, Correction, check_correction, is_number, rejected

Codes = NDArray[np.int64]


class Voter:
    """A base classifier that answers rows with positions in ``classes``.

    Parameters
    ----------
    f
        A fitted estimator with ``predict``, or a torch callable from a batch to class scores (m, classes) or to
        classes (m,). A module is asked in evaluation mode, in its own precision and on its own device.
    n_classes
        Needed where neither ``f.classes_`` nor a table of scores says it.
    """

    def __init__(self, f: Any, n_classes: int | None = None) -> None:
        if n_classes is not None and (
            isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 2
        ):
            raise InvalidInputError(f"n_classes must be a whole number, 2 or more, not {n_classes!r}")
        self.is_estimator = callable(getattr(f, "predict", None))
        if not self.is_estimator and not callable(f):
            raise InvalidInputError(f"f must have a predict method or be callable, but is a {type(f).__name__}")
        self.f = f
        known = getattr(f, "classes_", None) if self.is_estimator else None
        self.classes: NDArray[Any] | None = None
        if known is not None:
            self.classes = np.asarray(known)
            if self.classes.ndim != 1 or (n_classes is not None and len(self.classes) != n_classes):
                raise InvalidInputError(f"n_classes is {n_classes} but f.classes_ has the shape {self.classes.shape}")
        elif n_classes is not None:
            self.classes = np.arange(n_classes)

    def __call__(self, rows: NDArray[np.float64]) -> Codes:
        """The position in ``classes`` of the answer to each row."""
        answers = np.asarray(self.f.predict(rows)) if self.is_estimator else _ask_torch(self.f, rows)
        if answers.ndim == 2 and answers.shape[0] == len(rows) and not self.is_estimator:
            return self._from_scores(answers)
        if answers.shape != (len(rows),):
            raise InvalidInputError(
                f"f answered {len(rows)} rows with the shape {answers.shape}; expected one class per row"
                + ("" if self.is_estimator else ", or scores of shape (rows, classes)")
            )
        return self._from_labels(answers)

    def _from_scores(self, scores: NDArray[Any]) -> Codes:
        if self.classes is None:
            self.classes = np.arange(scores.shape[1])
        if scores.shape[1] != len(self.classes) or scores.shape[1] < 2:
            raise InvalidInputError(
                f"f gives {scores.shape[1]} scores per row; there are {max(2, len(self.classes))} classes"
            )
        if np.isnan(scores).any():
            raise InvalidInputError("f gives scores that are NaN")
        return np.asarray(scores.argmax(axis=1))

    def _from_labels(self, labels: NDArray[Any]) -> Codes:
        if self.classes is None:
            raise InvalidInputError("f answers with classes but does not say how many there are: give n_classes")
        order = np.argsort(self.classes, kind="stable")
        try:
            place = np.searchsorted(self.classes, labels, sorter=order).clip(max=len(order) - 1)
        except TypeError as error:
            raise InvalidInputError(f"f answers with labels that are none of its classes {self.classes}") from error
        codes = order[place]
        foreign = self.classes[codes] != labels
        if foreign.any():
            answer = labels[foreign].tolist()[0]
            raise InvalidInputError(f"f answers {answer!r}, which is none of its classes {self.classes}")
        return np.asarray(codes)


def _ask_torch(f: Callable[[torch.Tensor], Any], rows: NDArray[np.float64]) -> NDArray[Any]:
    dtype, device = torch.get_default_dtype(), torch.device("cpu")
    if isinstance(f, torch.nn.Module):
        for parameter in f.parameters():
            dtype, device = parameter.dtype, parameter.device
            break
    with torch.no_grad(), evaluating(f):
        answers = f(torch.as_tensor(rows, dtype=dtype, device=device))
    return answers.cpu().numpy() if isinstance(answers, torch.Tensor) else np.asarray(answers)


@contextlib.contextmanager
def evaluating(f: Any) -> Iterator[None]:
    """A module, whole, in evaluation mode for a while."""
    # Dropout or batch statistics would make a vote depend on more than its own row.
    modules = [module for module in f.modules() if module.training] if isinstance(f, torch.nn.Module) else []
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module in modules:
            module.training = True


#: Streams of noise that never meet.
_PREDICTION, _SELECTION, _ESTIMATION = range(3)
#: What :meth:`SmoothedClassifier.predict` returns for no answer, by the kind of the labels.
_ABSTENTION: dict[str, Any] = {"i": -1, "u": -1, "f": math.nan, "U": "", "S": b""}


class SmoothedClassifier:
    r"""The majority vote of ``f`` over Gaussian noise on its input.

    .. math:: g(x) = \arg\max_c \, \mathbb P\big(f(x + \varepsilon) = c\big), \qquad
              \varepsilon \sim \mathcal N(0, \sigma^2 I)

    The shares of the votes solve :math:`\partial_t u = \tfrac12 \sigma^2 \Delta u` for a unit of time from the votes of
    ``f``: smoothing is the diffusion of the convection-diffusion framework, applied after the network. Where a class
    has a share of more than :math:`p > 1/2`, no change of ``x`` shorter than :math:`\sigma \Phi^{-1}(p)` changes
    :math:`g(x)`.

    Parameters
    ----------
    f
        A fitted estimator with ``predict``, or a torch callable from a batch to scores (m, classes) or classes (m,).
        A fitted :class:`condiff.COINClassifier` is smoothed as it predicts: noise is added to the features of the
        queried point, the base network reads them, and its output follows the flow of the point's neighbours among the
        training points, which stay as they are. For a COIN on a given graph, see :class:`SmoothedNodes`.
    noise
        Standard deviation :math:`\sigma` of the noise, in the units of the input.
    n_classes
        Needed only where ``f`` answers with classes 0, 1, ... and has no ``classes_``.
    alpha
        The probability of an error that is allowed.
    selection_samples
        Votes that choose the class of a certificate.
    samples
        Further, independent votes that bound its share, or that :meth:`predict` counts. With n of them the radius is
        at most :math:`\sigma \Phi^{-1}(\alpha^{1/n})`.
    batch_size
        Noisy inputs that ``f`` sees at once. Results do not depend on it.
    random_state
        Seed of the noise. Every sample of every point has noise of its own; the same call gives the same result.
    abstain
        What :meth:`predict` answers where it abstains: -1 for whole numbers, NaN for floats, "" for strings and None
        for objects by default, as for unlabelled points.

    Examples
    --------
    >>> import torch
    >>> from condiff.theory.smoothing import SmoothedClassifier
    >>> f = lambda x: (x[:, 0] > 0).long()
    >>> smoothed = SmoothedClassifier(f, noise=0.5, n_classes=2)
    >>> found = smoothed.certify([[1.0, 0.0], [0.0, 0.0]])
    >>> found.labels[0], bool(found.radius[0] < 1.0), found.abstained.tolist()
    (np.int64(1), True, [False, True])
    """

    def __init__(
        self,
        f: Any,
        noise: float,
        n_classes: int | None = None,
        *,
        alpha: float = 0.001,
        selection_samples: int = 100,
        samples: int = 1000,
        batch_size: int = 4096,
        random_state: int = 0,
        abstain: Any = None,
    ) -> None:
        if not is_number(noise) or not 0 < noise < math.inf:
            raise InvalidInputError(f"noise must be a positive number, not {noise!r}")
        if not is_number(alpha) or not 0 < alpha < 0.5:
            raise InvalidInputError(f"alpha must be a number above 0 and below 0.5, not {alpha!r}")
        for name, value, least in (
            ("selection_samples", selection_samples, 1),
            ("samples", samples, 1),
            ("batch_size", batch_size, 1),
            ("random_state", random_state, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidInputError(f"{name} must be a whole number, {least} or more, not {value!r}")
        self.noise, self.alpha = float(noise), float(alpha)
        self.selection_samples, self.samples = int(selection_samples), int(samples)
        self.batch_size, self.random_state = int(batch_size), int(random_state)
        self.abstain = abstain
        self._voter = Voter(f, n_classes)

    def predict(self, X: Any, *, correction: Correction = "none") -> NDArray[Any]:
        """The most frequent answer under noise, or ``abstain`` where the two most frequent are too close to call.

        Parameters
        ----------
        X
            Points, (n, ...).
        correction
            With ``none``, each answer that is given differs from that of the smoothed classifier with a probability of
            at most ``alpha``; with ``bonferroni``, or better ``holm``, any of the call's answers at all.
        """
        check_correction(correction)
        points = self._read(X)
        counts = self._count(points, self.samples, _PREDICTION)
        second, first = np.sort(counts, axis=1)[:, -2:].T
        # If the two were as likely, how often would one lead the other by so much (Hung and Fithian, 2019)? Given that
        # the wrong one leads it is rarer still, and the noise of points is independent: so Holm may be used as well.
        p_values = np.minimum(1.0, 2 * binom.sf(first - 1, first + second, 0.5))
        return self._labels(counts.argmax(axis=1), ~rejected(p_values, self.alpha, correction))

    def certify(self, X: Any, *, correction: Correction = "none") -> Certificates:
        """Certified radii: the class by one sample of votes, its share by another.

        Parameters
        ----------
        X
            Points, (n, ...).
        correction
            With ``none``, each certificate is wrong with a probability of at most ``alpha``, so among thousands some
            may be; with ``bonferroni``, all of the call's certificates are right together with 1 - ``alpha``.
        """
        check_correction(correction)
        points = self._read(X)
        chosen = self._count(points, self.selection_samples, _SELECTION).argmax(axis=1)
        votes = self._count(points, self.samples, _ESTIMATION)[np.arange(len(points)), chosen]
        return Certificates.from_votes(
            self._classes()[chosen], votes, self.samples, noise=self.noise, alpha=self.alpha, correction=correction
        )

    def _read(self, X: Any) -> NDArray[np.float64]:
        """Points as a dense array of floats."""
        dense = X.toarray() if sp.issparse(X) else X
        try:
            points = np.asarray(dense, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"the points are not an array of numbers: {error}") from error
        if points.ndim < 2 or points.size == 0:
            raise InvalidInputError(f"expected points of shape (n, features) and at least one, not {points.shape}")
        if not np.isfinite(points).all():
            raise InvalidInputError("the points hold NaN or infinite values; fill or drop them first")
        return points

    def _vote(self, rows: NDArray[np.float64], owner: Codes) -> Codes:
        """Classes of noisy rows; ``owner`` is the point that each is a copy of."""
        return self._voter(rows)

    def _count(self, points: NDArray[np.float64], samples: int, stream: int) -> NDArray[np.int64]:
        """Votes for each class, (n, classes)."""
        counts: NDArray[np.int64] | None = None
        for rows, owner in self._noisy(points, samples, stream):
            codes = self._vote(rows, owner)
            if counts is None:
                counts = np.zeros((len(points), len(self._classes())), dtype=np.int64)
            np.add.at(counts, (owner, codes), 1)
        assert counts is not None
        return counts

    def _noisy(
        self, points: NDArray[np.float64], samples: int, stream: int
    ) -> Iterator[tuple[NDArray[np.float64], Codes]]:
        """Batches of noisy rows with the point of each: a point's noise depends on its place and the seed alone."""
        shape = points.shape[1:]
        total = len(points) * samples
        generator = np.random.default_rng()
        for start in range(0, total, self.batch_size):
            number = np.arange(start, min(start + self.batch_size, total))
            owner = number // samples
            rows = np.empty((len(number), *shape))
            for point in range(owner[0], owner[-1] + 1):
                first = point * samples
                if first >= start:
                    seed = np.random.SeedSequence(self.random_state, spawn_key=(stream, point))
                    generator = np.random.default_rng(seed)
                # Drawn in pieces, a stream gives the same numbers as at once.
                own = slice(max(first, start) - start, min(first + samples, start + len(number)) - start)
                rows[own] = points[point] + self.noise * generator.standard_normal((own.stop - own.start, *shape))
            yield rows, owner

    def _classes(self) -> NDArray[Any]:
        assert self._voter.classes is not None
        return self._voter.classes

    def _labels(self, codes: Codes, abstained: NDArray[np.bool_]) -> NDArray[Any]:
        classes = self._classes()
        abstention = _ABSTENTION.get(classes.dtype.kind) if self.abstain is None else self.abstain
        if any(label is abstention or label == abstention for label in classes.tolist()):
            raise InvalidInputError(f"{abstention!r} is a class, so it cannot stand for abstaining: give abstain=...")
        # A type that holds both, so that a long word is not cut and a number not wrapped.
        given = np.asarray(abstention).dtype
        alike = any({classes.dtype.kind, given.kind} <= set(kinds) for kinds in ("iuf", "U", "S"))
        kind = np.result_type(classes.dtype, given) if alike else np.dtype(object)
        labels = classes[codes].astype(kind)
        labels[abstained] = abstention
        return labels


# Nodes whose own share of the diffusion is computed at once.
_AT_ONCE = 256


class SmoothedNodes(SmoothedClassifier):
    r"""A trained COIN as a function of one node's features; all other features and the edges stay as they are.

    The diffusion is linear, :math:`u_K = P u_0`, so that the output at node :math:`i` is
    :math:`P_{ii} \, u_0(x_i) + \sum_{j \ne i} P_{ij} \, u_0(x_j)`: noise on :math:`x_i` reaches the first term alone,
    and a vote costs one pass of the base network, however large the graph.

    Parameters
    ----------
    model
        The network, with a softmax head, or a sigmoid head of one output.
    x
        Features of all nodes, (n, features).
    graph
        A Laplacian, a :class:`condiff.Graph` or the matrix L as a tensor, as :meth:`condiff.COIN.forward` takes it.
    noise, options
        As in :class:`SmoothedClassifier`; points are named by their node.
    """

    def __init__(self, model: COIN, x: Any, graph: Any, noise: float, **options: Any) -> None:
        if not isinstance(model, COIN) or model.head == "identity":
            raise InvalidInputError("model must be a COIN with a softmax or sigmoid head")
        super().__init__(model, noise, **options)
        self.model = model
        parameter = next(model.parameters())
        self._dtype, self._device = parameter.dtype, parameter.device
        self.features = super()._read(x.to_dense().detach().cpu().numpy() if isinstance(x, torch.Tensor) else x)
        self._operator: Laplacian = laplacian(graph, self._dtype, self._device)
        if self._operator.n_nodes != len(self.features):
            raise InvalidInputError(
                f"the graph has {self._operator.n_nodes} nodes, but there are features of {len(self.features)}"
            )
        with torch.no_grad(), evaluating(model):
            self._u0 = model.base(torch.as_tensor(self.features, dtype=self._dtype, device=self._device))
            self._u = model.diffusion(self._u0, self._operator)
        if model.head == "sigmoid" and self._u.shape[1] != 1:
            raise InvalidInputError("with a sigmoid head, there must be exactly one output, for two classes")
        self._voter.classes = np.arange(max(2, self._u.shape[1]))

    def predict(self, nodes: Any = None, *, correction: Correction = "none") -> NDArray[Any]:
        """As :meth:`SmoothedClassifier.predict`, for these nodes, or for all."""
        return super().predict(nodes, correction=correction)

    def certify(self, nodes: Any = None, *, correction: Correction = "none") -> Certificates:
        """As :meth:`SmoothedClassifier.certify`, for these nodes, or for all."""
        return super().certify(nodes, correction=correction)

    def _read(self, X: Any) -> NDArray[np.float64]:
        n = len(self.features)
        nodes = np.arange(n) if X is None else np.atleast_1d(np.asarray(X))
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu" or not len(nodes) or nodes.min() < 0 or nodes.max() >= n:
            raise InvalidInputError(f"nodes must be whole numbers from 0 to {n - 1}, at least one")
        asked = torch.as_tensor(nodes.astype(np.int64), device=self._device)
        self._own = torch.cat([self._share_of_itself(some) for some in asked.split(_AT_ONCE)])[:, None]
        self._others = self._u[asked] - self._own * self._u0[asked]
        return np.asarray(self.features[nodes])

    def _share_of_itself(self, nodes: torch.Tensor) -> torch.Tensor:
        """The diagonal entries of P, by diffusing a unit from each node."""
        places = torch.arange(len(nodes), device=self._device)
        unit = torch.zeros(len(self.features), len(nodes), dtype=self._dtype, device=self._device)
        unit[nodes, places] = 1.0
        with torch.no_grad(), evaluating(self.model):
            spread: torch.Tensor = self.model.diffusion(unit, self._operator)
        return spread[nodes, places]

    def _vote(self, rows: NDArray[np.float64], owner: Codes) -> Codes:
        of = torch.as_tensor(owner, device=self._device)
        with torch.no_grad(), evaluating(self.model):
            u0 = self.model.base(torch.as_tensor(rows, dtype=self._dtype, device=self._device))
        u = self._others[of] + self._own[of] * u0
        scores = torch.cat([1 - u, u], dim=1) if u.shape[1] == 1 else u
        return np.asarray(scores.argmax(dim=1).cpu().numpy())
