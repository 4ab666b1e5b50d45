"""The blend of bases that suits tables, and any base fitted on the labels alone, diffused as far as is supported.

Candidates diffuse over nearest neighbours, over shared leaves of trees (those that the base has grown on the labels,
cut further by random ones that know no label), along which columns that do not matter are passed over, or over a mix
that was asked for. A rehearsal on the unlabelled points decides (:mod:`condiff.estimators.rehearsal`). For values,
held-out labels must agree: a rehearsal draws from the base's answers, which are smoother than what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.bases.classical import (
    Base,
    Blend,
    Labelled,
    Trees,
    blend,
    fit_discriminant,
    fit_gaussian_process,
    fit_linear,
    fit_trees,
    fit_wrapped,
    tilted,
)
from condiff.diffusion import degrees_of_freedom, diffusion_time
from condiff.estimators.choice import Candidate, Joined
from condiff.estimators.links import Ground
from condiff.estimators.recipe import Array, Finished, FitBase, Recipe, half_strength
from condiff.estimators.rehearsal import rehearse
from condiff.graph import Graph
from condiff.uncertainty.record import can_score

#: Half steps that are compared on each graph: from hardly any to what mixes a neighbourhood.
STEPS: Mapping[Joined, tuple[int, ...]] = {
    "near": (4, 16, 48),
    "given": (4, 16, 48),
    "leaves": (4,),
    "answers": (4, 16),
    "mixed": (4, 16),
}
# A Gaussian process costs the cube of the labels.
_MOST_FOR_PROCESS = 1500
_TREES, _REHEARSAL_TREES = 200, 50


def fit_blend(data: Labelled, seed: int) -> tuple[Blend, Trees]:
    """The default base, and its trees: trees count twice for classes, a Gaussian process for values."""
    trees = fit_trees(data, n_trees=_TREES, seed=seed)
    linear = fit_linear(data)
    process = fit_gaussian_process(data) if len(data.rows) <= _MOST_FOR_PROCESS else None
    if not data.classifies:
        return blend([(trees, 1.0), (linear, 1.0), (process, 2.0)]), trees
    found = blend([(trees, 2.0), (linear, 1.0), (process, 1.0), (fit_discriminant(data), 0.5)])
    return tilted(found, data), trees


def fit_for_rehearsal(data: Labelled, seed: int) -> tuple[Base, Trees]:
    """The two cheapest of the blend."""
    trees = fit_trees(data, n_trees=_REHEARSAL_TREES, seed=seed)
    return blend([(trees, 1.0), (fit_linear(data), 1.0)]), trees


def fit_any(estimator: Any) -> FitBase:
    """Fits copies of a classifier or regressor, and trees beside it for graphs of shared leaves."""

    def fit(data: Labelled, seed: int) -> tuple[Base, Trees]:
        return fit_wrapped(data, estimator), fit_trees(data, n_trees=_REHEARSAL_TREES, seed=seed)

    return fit


@dataclass(frozen=True, eq=False)
class Diffused:
    """A base that was fitted and diffused.

    Attributes
    ----------
    base, before
        The base, and its answers at all points.
    chosen, finished
        The diffusion, and what it made of them.
    answers
        What was answered for held-out items, (held-out items, outputs).
    at_folds
        What was answered at all points without each fold, (folds, points, outputs); None where only some were asked.
    candidates
        What a rehearsal found, no diffusion first; empty where the layers were given.
    why
        What spoke against the rehearsal's best, if anything did.
    """

    base: Base
    before: Array
    chosen: Candidate
    finished: Finished
    answers: Array
    at_folds: Array | None
    candidates: list[Candidate]
    why: str


@dataclass(frozen=True, eq=False)
class _Fold:
    """A base that was fitted without some of the items: its labels, trees, answers at all points, and those items."""

    labels: Labelled
    base: Base
    trees: Trees
    before: Array
    rows: NDArray[np.int64]
    targets: Array

    @classmethod
    def fit(cls, ground: Ground, data: Labelled, left_out: NDArray[np.bool_], recipe: Recipe) -> _Fold:
        fewer = data.without(left_out)
        base, trees = recipe.fit(fewer, recipe.seed)
        before = base.outputs(ground.inputs.values)
        return cls(fewer, base, trees, before, data.rows[left_out], data.indicators[left_out])

    def finish(self, ground: Ground, recipe: Recipe, how: Candidate) -> Array:
        """Answers at all points."""
        return recipe.finish(ground, self.labels, self.base, self.trees, self.before, how).answers


@dataclass(frozen=True, eq=False)
class Decided:
    """A base that was fitted, and how to diffuse it.

    Attributes
    ----------
    base, trees
        The base, and trees beside it.
    stage, on_stage
        Points and labels of rehearsals and folds, and what the base answers there.
    folds
        Bases without some of the items.
    candidates, chosen, why
        As in :class:`Diffused`.
    recipe
        How it was done.
    """

    base: Base
    trees: Trees
    stage: tuple[Ground, Labelled]
    on_stage: Array
    folds: list[_Fold]
    candidates: list[Candidate]
    chosen: Candidate
    why: str
    recipe: Recipe

    def diffuse(self, ground: Ground, data: Labelled, how: Candidate | None = None) -> Diffused:
        """Answer at points, and for the items that folds hold out; ``how`` is for the points, if not as was chosen."""
        some, recipe, chosen = self.stage[0], self.recipe, how or self.chosen
        before = self.on_stage if some is ground else self.base.outputs(ground.inputs.values)
        finished = recipe.finish(ground, data, self.base, self.trees, before, chosen)
        without = [fold.finish(some, recipe, self.chosen) for fold in self.folds]
        answers = [every[fold.rows] for every, fold in zip(without, self.folds, strict=True)]
        found = np.concatenate(answers) if answers else np.zeros((0, data.n_outputs))
        at_folds = np.stack(without) if without and some is ground else None
        return Diffused(self.base, before, chosen, finished, found, at_folds, self.candidates, self.why)

    def carried_to(self, graph: Graph) -> Candidate:
        """The chosen diffusion on a denser graph of neighbours: until as many degrees of freedom are left.

        A layer reaches a point's neighbours, and these are the nearer the more points there are. What was found good is
        a reach among the points, whatever their number.
        """
        if not self.candidates or self.chosen.graph != "near":
            return self.chosen
        sparse, given = self.stage[0].own, self.recipe.strength
        time = self.chosen.layers * (half_strength(sparse) if given is None else given)
        time = diffusion_time(graph, degrees_of_freedom(sparse, time))
        layers = round(time / (half_strength(graph) if given is None else given))
        return replace(self.chosen, layers=max(layers, self.chosen.layers))


def decide(data: Labelled, stage: tuple[Ground, Labelled], held_out: NDArray[np.bool_], recipe: Recipe) -> Decided:
    """Fit a base, and decide how far to diffuse it.

    Parameters
    ----------
    data
        Labels, and inputs that say how columns spread.
    stage
        Points and labels for rehearsals and folds: all of the points, or some with all of the labels.
    held_out
        Which items each fold leaves out, (folds, items).
    recipe
        How to do it.
    """
    base, trees = recipe.fit(data, recipe.seed)
    some, labels = stage
    on_stage = base.outputs(some.inputs.values)
    folds = [_Fold.fit(some, labels, left_out, recipe) for left_out in held_out]
    candidates: list[Candidate] = []
    chosen, why = recipe.given(), ""
    if recipe.layers is None:
        # How far an answer is off without its label: labels that are drawn anew are as noisy.
        scored = folds if can_score(labels.rows[held_out.any(axis=0)]) else []
        misses = [fold.before[fold.rows] - fold.targets for fold in scored]
        noise = 0.7 * float(np.sqrt(np.mean(np.concatenate(misses) ** 2))) if misses else 0.0
        candidates = rehearse(some, labels, on_stage, recipe, noise)
        chosen = max(candidates, key=lambda each: each.worth)
        if chosen.layers and scored and not data.classifies and not _agree(scored, some, recipe, chosen):
            chosen, why = Candidate(), f"held-out labels gain nothing from {chosen}"
    return Decided(base, trees, stage, on_stage, folds, candidates, chosen, why, recipe)


def _agree(folds: list[_Fold], ground: Ground, recipe: Recipe, how: Candidate) -> bool:
    """Whether held-out values are nearer after the diffusion, by more than the standard error."""
    gains = []
    for fold in folds:
        after = fold.finish(ground, recipe, how)[fold.rows]
        gains.append(((fold.before[fold.rows] - fold.targets) ** 2 - (after - fold.targets) ** 2).mean(axis=1))
    every = np.concatenate(gains)
    return bool(every.mean() > every.std() / np.sqrt(len(every)))
