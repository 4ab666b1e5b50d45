"""Rehearsals: what the unlabelled points say of how far to diffuse, and of which base to take.

Twenty labels cannot say how far to diffuse: held-out folds of four are noisier than the gain. The unlabelled points
can. A rehearsal takes the base's own answers for the truth, draws new labels from them, as many of each class as were
given, fits and diffuses anew, and counts how much of that truth every candidate finds again. Where points that are
joined in the graph do not belong together, diffusion loses in the rehearsal as it would in earnest. The candidate whose
gain over no diffusion is largest, less its standard error, is taken; no diffusion at all is always among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from condiff.bases.classical import Labelled
from condiff.diffusion.flow import Flow
from condiff.estimators.choice import BLEND, Candidate, Joined
from condiff.estimators.links import Ground
from condiff.estimators.recipe import Array, Recipe, clamped, half_strength, read_out
from condiff.graph import nearest

#: Rehearsals, and the points that they are held on at most.
REPLICAS, STAGE = 6, 3000
#: Unlabelled points below which a rehearsal says nothing.
FEWEST_TESTED = 10
# From this redundancy of the columns on a contest may be won; less will do where there are many points, because their
# neighbours are near enough to carry a label on.
_REDUNDANT, _REDUNDANT_OF_MANY = 0.6, 0.4
# Different values up to which a column shows categories.
_FEW_VALUES = 4
# Columns that unit vectors of an encoder have at least.
_EMBEDDED = 32
# Redundancy of columns: points that are looked at, among how many their neighbours are sought, neighbours that are
# asked, and halves of the columns that are hidden.
_POINTS, _AMONG, _ALIKE, _HALVES = 2000, 20_000, 6, 4
# Draws of a contest for each of the two truths; how far ahead the network must be over both, and how little behind
# where the truth is the other base's.
_CONTESTS, _AHEAD, _BEHIND = 3, 0.15, 0.05


def can_rehearse(ground: Ground, data: Labelled) -> bool:
    """Whether there are unlabelled points to judge by."""
    return len(ground.inputs) - len(np.unique(data.rows)) >= FEWEST_TESTED


def rehearse(ground: Ground, data: Labelled, base: Array, recipe: Recipe, noise: float) -> list[Candidate]:
    """Every candidate with its gain, no diffusion first.

    Parameters
    ----------
    ground, data
        Points and labels.
    base
        The base's answers at all points, taken for the truth.
    recipe
        What is fitted in a rehearsal, and how answers are read.
    noise
        For values, what to add to the truth where a label is drawn.
    """
    if not can_rehearse(ground, data):
        return [Candidate()]
    generator = np.random.default_rng(recipe.seed)
    gains: dict[tuple[Joined, int], list[float]] = {}
    for replica in range(REPLICAS):
        drawn = draw(data, base, noise, generator)
        fitted, trees = recipe.rehearsal(drawn, replica)
        answers = fitted.outputs(ground.inputs.values)
        tested = np.ones(len(base), bool)
        tested[drawn.rows] = False
        before, start = score(answers, base, data, tested), clamped(answers, drawn)
        for joined, (mix, steps) in recipe.graphs.items():
            links = ground.join(mix, fitted, trees, answers)
            graph, done, u = ground.own if links is None else links.graph, 0, start
            strength = half_strength(graph)
            for layers in steps:
                u, done = Flow(graph, layers - done, strength)(u), layers
                found = score(read_out(u, start, drawn, recipe.prior)(u), base, data, tested)
                gains.setdefault((joined, layers), []).append(100 * (found - before))
    return [Candidate()] + [
        Candidate(joined, layers, float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each))))
        for (joined, layers), each in gains.items()
    ]


def draw(data: Labelled, base: Array, noise: float, generator: np.random.Generator) -> Labelled:
    """New labels from the base's answers: as many of each class as were given, or as many values."""
    if not data.classifies:
        rows = generator.choice(len(base), min(len(data.rows), len(base)), replace=False)
        targets = base[rows] + noise * generator.normal(size=(len(rows), base.shape[1]))
        return replace(data, rows=rows, targets=targets, weights=np.ones(len(rows)))
    truth = base.argmax(axis=1)
    truth[data.rows] = data.targets
    rows_of = []
    for label, count in enumerate(np.bincount(data.targets, minlength=data.n_outputs)):
        members = np.flatnonzero(truth == label)
        # A class that the base sees nowhere else keeps the labels that it has.
        own = data.rows[data.targets == label]
        rows_of.append(generator.choice(members, min(count, len(members)), replace=False) if len(members) > 1 else own)
    rows = np.concatenate(rows_of)
    return replace(data, rows=rows, targets=truth[rows], weights=np.ones(len(rows)))


def score(answers: Array, base: Array, data: Labelled, tested: NDArray[np.bool_]) -> float:
    """How much of the truth is found again: the share of the classes, or less the unexplained share of the variance."""
    if data.classifies:
        return float((answers.argmax(axis=1) == base.argmax(axis=1))[tested].mean())
    spread = float(base[tested].var()) or 1.0
    return -float(((answers - base)[tested] ** 2).mean()) / spread


def is_embedding(points: Array) -> bool:
    """Whether rows are an encoder's unit vectors, as far as some of them show.

    Rows of categories alone, each as zeros and a one, may have one length too, but their columns have few values.
    """
    some = points[:: max(1, len(points) // _POINTS)]
    lengths = np.linalg.norm(some, axis=1)
    if points.shape[1] < _EMBEDDED or np.ptp(lengths) >= 1e-3 * lengths.max():
        return False
    return bool(np.median([len(np.unique(column)) for column in some.T[:_EMBEDDED]]) > _FEW_VALUES)


def may_cluster(points: Array, scaled: Callable[[Array], Array], seed: int) -> bool:
    """Whether the residual network may be the better base of points, of which a function makes what distances see."""
    generator = np.random.default_rng(seed)
    some = scaled(points[generator.permutation(len(points))[:_AMONG]])
    return redundancy(some, generator) >= (_REDUNDANT if len(points) <= _AMONG else _REDUNDANT_OF_MANY)


def redundancy(points: Array, generator: np.random.Generator) -> float:
    """How well a point's neighbours in half of the columns tell its other half: 1 entirely, 0 not at all.

    High where many columns show the same thing, as pixels do, or bands of a spectrum, or an encoder's output: there
    neighbours are alike in what no column says by itself. Low where every column of a table says something of its own.
    """
    points = points[:, points.std(axis=0) > 1e-12]
    width = points.shape[1]
    if width < 2 or len(points) <= _ALIKE:
        return 0.0
    shares = []
    for _ in range(_HALVES):
        order = generator.permutation(width)
        shown, hidden = points[:, order[: (width + 1) // 2]], points[:, order[(width + 1) // 2 :]]
        near = nearest(shown, _ALIKE + 1, queries=shown[:_POINTS]).indices[:, 1:]
        hidden, told = hidden[:_POINTS], hidden[near].mean(axis=1)
        error = ((hidden - told) ** 2).sum() / (1 + 1 / _ALIKE)
        shares.append(1 - error / ((hidden - hidden.mean(axis=0)) ** 2).sum())
    return float(np.mean(shares))


@dataclass(frozen=True)
class Contest:
    """The residual network against another base: which finds more of what either says again, from other labels.

    Attributes
    ----------
    network, other
        Shares of the network's answers that the network itself and the other base find again.
    other_own
        Share of its own answers that the other base finds again.
    lead, lead_away
        How far the network is ahead in finding its own answers and the other base's: the difference of the errors
        relative to their sum, from -1 to 1.
    of_many
        Whether there are many points beside those of the contest. With a few labels for all of them, what a base says
        may be what these labels happen to be. Where the other one finds less of its own answers again than the network
        of its own, the network then only must not be behind: taken wrongly it is some points worse, but where there
        are clusters the other base misses whole ones.
    """

    network: float
    other: float
    other_own: float
    lead: float
    lead_away: float
    of_many: bool = False

    @property
    def won(self) -> bool:
        """Whether the network should be the base."""
        over_both = self.lead + self.lead_away
        if self.of_many and self.other_own < self.network:
            return over_both > 0
        return over_both > _AHEAD and self.lead_away > -_BEHIND

    def __str__(self) -> str:
        return f"from other labels it finds {self.network:.0%} of its answers again, and {BLEND} {self.other:.0%}"


def contest(
    ground: Ground,
    data: Labelled,
    answers: Array,
    chosen: Candidate,
    recipe: Recipe,
    networks: Callable[[Labelled], Array],
    *,
    of_many: bool = False,
) -> Contest:
    """Let the residual network and another base rehearse what either says.

    Where columns are redundant, points form clusters, and a network that was trained through the diffusion finds these
    whichever points are labelled; a base that was fitted on the labels alone finds something else each time. Where
    there are no clusters, it is the other way round.

    Parameters
    ----------
    ground, data
        Points and labels.
    answers, chosen
        The other base's answers at all points, and how it was diffused.
    recipe
        How it is fitted.
    networks
        From labels to the network's answers at all points.
    of_many
        As of :class:`Contest`.
    """
    generator = np.random.default_rng(recipe.seed)
    shares = np.empty((2, _CONTESTS, 2))
    for of, truth in enumerate((networks(data), answers)):
        for replica in range(_CONTESTS):
            drawn = draw(data, truth, 0.0, generator)
            tested = np.ones(len(truth), bool)
            tested[drawn.rows] = False
            base, trees = recipe.rehearsal(drawn, replica)
            own = base.outputs(ground.inputs.values)
            other = recipe.finish(ground, drawn, base, trees, own, chosen).answers
            shares[of, replica] = [score(each, truth, data, tested) for each in (networks(drawn), other)]
    errors = 1 - shares
    leads = (errors[..., 1] - errors[..., 0]) / (errors.sum(axis=-1) + 0.01)
    (network, other_share), (_, other_own) = shares.mean(axis=1).tolist()
    lead, lead_away = leads.mean(axis=1).tolist()
    return Contest(network, other_share, other_own, lead, lead_away, of_many)
