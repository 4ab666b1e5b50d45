"""What a smoothed classifier can promise, from counted votes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom, norm

from condiff.errors import InvalidInputError, did_you_mean

Correction = Literal["none", "bonferroni", "holm"]


def check_correction(correction: str) -> None:
    """Raise for a name that is not in :data:`Correction`."""
    known = get_args(Correction)
    if correction not in known:
        raise InvalidInputError(
            f"unknown correction {correction!r}{did_you_mean(str(correction), known)}; known are {', '.join(known)}"
        )


def rejected(p_values: NDArray[np.float64], alpha: float, correction: Correction = "holm") -> NDArray[np.bool_]:
    """Which of the tests reject their hypothesis.

    Parameters
    ----------
    p_values
        One per test, of any dependence.
    alpha
        The probability of an error: of each test (``none``), or of any at all among those whose hypothesis is true.
    correction
        ``bonferroni`` compares every p-value with ``alpha / m``. ``holm`` goes from the smallest up, comparing the
        k-th smallest with ``alpha / (m - k + 1)``, and stops at the first that fails; it rejects all that Bonferroni
        does, often more, under the same guarantee.
    """
    check_correction(correction)
    p_values = np.asarray(p_values, dtype=np.float64)
    if correction == "none":
        return p_values <= alpha
    if correction == "bonferroni":
        return p_values <= alpha / max(1, len(p_values))
    order = np.argsort(p_values, kind="stable")
    passes = p_values[order] <= alpha / np.arange(len(p_values), 0, -1)
    found = np.zeros(len(p_values), dtype=bool)
    found[order] = np.logical_and.accumulate(passes)
    return found


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Certificates:
    r"""One certificate per point: within the open ball of ``radius``, the smoothed classifier's answer is ``labels``.

    Attributes
    ----------
    labels
        The class that the certificate is about, also where it abstains.
    radius
        Certified :math:`\ell_2` radius, 0 where it abstains.
    abstained
        Where the votes do not settle the answer.
    lower_bound
        Of the share of votes for the class, by Clopper and Pearson.
    votes, samples
        Votes for the class among so many, in the estimation sample.
    noise
        Standard deviation of the Gaussian noise.
    alpha, correction
        With ``none``, each certificate is wrong with a probability of at most ``alpha``; with ``bonferroni``, any of
        them at all.
    """

    labels: NDArray[Any]
    radius: Floats
    abstained: NDArray[np.bool_]
    lower_bound: Floats
    votes: NDArray[np.int64]
    samples: int
    noise: float
    alpha: float
    correction: Correction

    @classmethod
    def from_votes(
        cls,
        labels: NDArray[Any],
        votes: NDArray[np.int64],
        samples: int,
        *,
        noise: float,
        alpha: float,
        correction: Correction = "none",
    ) -> Certificates:
        """Certify from votes for classes that were chosen on *other* samples; see the attributes."""
        if correction == "holm":
            raise InvalidInputError(
                "Holm's procedure gives decisions, not radii: take correction='bonferroni' for radii that hold "
                "together, or ask robust_at(radius) for what holds at one radius"
            )
        level = alpha / max(1, len(votes)) if correction == "bonferroni" else alpha
        bound = lower_confidence_bound(votes, samples, level)
        radius = certified_radius(bound, noise)
        return cls(labels, radius, bound <= 0.5, bound, votes, samples, noise, alpha, correction)

    def __len__(self) -> int:
        return len(self.votes)

    def robust_at(self, radius: float, *, correction: Correction = "holm") -> NDArray[np.bool_]:
        r"""Which points keep their label up to a radius that was fixed beforehand.

        Tests for each point that the share of votes is at most :math:`\Phi(r / \sigma)`. With ``holm`` (or
        ``bonferroni``), the probability that any point is marked wrongly is at most ``alpha``.
        """
        if not is_number(radius) or not 0 <= radius < math.inf:
            raise InvalidInputError(f"radius must be a number, 0 or more, not {radius!r}")
        share = norm.cdf(radius / self.noise)
        p_values = np.asarray(binom.sf(self.votes - 1, self.samples, share))
        return rejected(p_values, self.alpha, correction)

    def certified_accuracy(self, truth: Any, radii: Any) -> Floats:
        """The share of points that are answered correctly and certified beyond each radius."""
        truth = np.asarray(truth)
        if truth.shape != self.labels.shape:
            raise InvalidInputError(f"there are {len(self)} certificates but the truth has the shape {truth.shape}")
        if not len(self):
            raise InvalidInputError("there is no certificate to judge")
        right = (self.labels == truth) & ~self.abstained
        radii = np.atleast_1d(np.asarray(radii, dtype=np.float64))
        return np.asarray((right & (self.radius > radii[:, None])).mean(axis=1))


def lower_confidence_bound(successes: Any, trials: int, alpha: float) -> Floats:
    """The exact (Clopper-Pearson) lower bound of a probability, at the level ``1 - alpha``."""
    successes = np.asarray(successes)
    # The quantile of Beta(0, .) does not exist: no success bounds nothing.
    some = np.maximum(successes, 1)
    return np.where(successes > 0, beta.ppf(alpha, some, trials - some + 1), 0.0)


def certified_radius(share: Any, noise: float) -> Floats:
    r"""The radius :math:`\sigma \Phi^{-1}(p)` within which a share ``p > 1/2`` of the votes stays a majority."""
    return noise * np.asarray(norm.ppf(np.maximum(share, 0.5)))


def is_number(value: Any) -> bool:
    """Whether a setting is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)
