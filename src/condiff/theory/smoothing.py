"""Randomised smoothing: a classifier averaged over Gaussian noise, with certified radii (Cohen et al., 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import binom

from condiff.errors import InvalidInputError
from condiff.theory.certificates import Certificates, is_number
from condiff.theory.multiple_testing import Correction, check_correction, rejected
from condiff.theory.voting import Codes, Voter

#: Streams of noise that never meet.
_PREDICTION, _SELECTION, _ESTIMATION = range(3)
#: What stands for no answer, by the kind of the labels.
_NOTHING: dict[str, Any] = {"i": -1, "u": -1, "f": math.nan, "U": "", "S": b""}


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
        A fitted :class:`condiff.COINClassifier` is smoothed as it predicts: noise goes on the features of the queried
        point, the base network reads them, and its output follows the flow of the point's neighbours among the
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
        """Classes of noisy rows; ``owner`` says of which point each is a copy."""
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
        nothing = _NOTHING.get(classes.dtype.kind) if self.abstain is None else self.abstain
        if any(label is nothing or label == nothing for label in classes.tolist()):
            raise InvalidInputError(f"{nothing!r} is a class, so it cannot say that predict abstains: give abstain=...")
        # A type that holds both, so that a long word is not cut and a number not wrapped.
        given = np.asarray(nothing).dtype
        alike = any({classes.dtype.kind, given.kind} <= set(kinds) for kinds in ("iuf", "U", "S"))
        kind = np.result_type(classes.dtype, given) if alike else np.dtype(object)
        labels = classes[codes].astype(kind)
        labels[abstained] = nothing
        return labels
