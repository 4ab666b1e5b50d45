"""What the classifier and the regressor share: parameters, the fit through the diffusion, answers, persistence."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from condiff.bases.classical import Inputs, Labelled
from condiff.diffusion import SOLVERS, Certificate, certify
from condiff.errors import InvalidInputError, StepSizeWarning, UnlabelledComponentWarning
from condiff.estimators.averaged import HOPS, HOPS_OF_EDGES, TIMES, GivenGraph
from condiff.estimators.blended import STEPS, Diffused, decide, fit_any, fit_blend, fit_for_rehearsal
from condiff.estimators.choice import BLEND, LINEAR, LINEAR_OF_EDGES, NETWORK, Candidate, Choice, Joined
from condiff.estimators.domain import MANY
from condiff.estimators.inputs import Items, Nodes
from condiff.estimators.links import LEARNED, Ground, Mix, Part
from condiff.estimators.nearness import beside_labels, label_directions, spread_labels
from condiff.estimators.recipe import Recipe
from condiff.estimators.rehearsal import FEWEST_TESTED, STAGE, can_rehearse, contest, is_embedding, may_cluster
from condiff.estimators.trained import FEWEST_TO_CHOOSE, MOST_KEPT, Array, ItemLosses, Trained
from condiff.graph import Graph
from condiff.graph.chance import looks_random
from condiff.training import ClassBalance
from condiff.uncertainty import FitRecord, Inspection, Suggestion

# Why the network is taken for an encoder's vectors, of which the labels are then asked directly too.
_EMBEDDING = "rows of length one are an embedding"
# More labels than this are no longer few: the residual network learns from them in less time.
_FEW = 5000


class BaseCOIN(Trained):
    """Base class of :class:`COINClassifier` and :class:`COINRegressor`: the fit through the diffusion."""

    @property
    def certificate_(self) -> Certificate:
        """Step-size limits of the graph."""
        return certify(self.graph_)

    def suggest(self, n: int = 10, *, strategy: str = "change") -> list[Suggestion]:
        """Training rows whose labels would help most, the first first.

        Parameters
        ----------
        n : int, default=10
            How many; fewer where fewer rows are without a label.
        strategy : {"change", "margin", "entropy", "coverage", "variance", "sigma", "random"}, default="change"
            Where a label is expected to change the answers most; where the two best classes are closest; where
            probabilities are spread most; dense regions without a label; VarOpt and SigmaOpt, what is left unknown of
            a Gaussian field on the graph; or any rows. A large part of the graph without any label comes first. See
            :mod:`condiff.uncertainty.suggestions`.
        """
        return Inspection(self).suggestions(n, strategy)

    def _graphs(self) -> dict[Joined, tuple[Mix, tuple[int, ...]]]:
        """The graphs that a base fitted on the labels alone may be diffused over, with the layers to compare."""
        own: Joined = "given" if self._domain.bandwidth is None else "near"
        mix = self._mix(self._graph_is_given)
        learned: dict[Part, float] = {part: mix[part] for part in LEARNED if part in mix}
        if learned:
            joined: Joined = "mixed" if len(mix) > 1 else "leaves" if "leaves" in mix else "answers"
            parts: dict[Part, float] = dict(learned)
            if len(mix) > len(learned):
                parts["own"] = 1.0 - sum(learned.values())
            return {joined: (parts, STEPS[joined])}
        graphs: dict[Joined, tuple[Mix, tuple[int, ...]]] = {own: ({"own": 1.0}, STEPS[own])}
        if self.graph == "auto" and not self._graph_is_given:
            graphs["leaves"] = {"leaves": 1.0}, STEPS["leaves"]
        return graphs

    # ---- the fit --------------------------------------------------------------------------------------------------

    def _fit(
        self,
        nodes: Nodes,
        items: Items,
        held_out: NDArray[np.bool_],
        n_outputs: int,
        *,
        item_losses: ItemLosses,
        prior: Array | None = None,
    ) -> Array:
        """Choose base and diffusion, fit, diffuse; returns the answers at the held-out items.

        Parameters
        ----------
        nodes, items
            The training rows as nodes, and their targets.
        held_out
            Which items each fold leaves out, (folds, items).
        n_outputs
            Columns of ``u``.
        item_losses
            From answers at the held-out items, and which items these are, to the loss of each.
        prior
            Known shares of the classes.
        """
        if self.strength != "auto" and SOLVERS[self.solver].limited and self.layers != 0:
            certify(self._domain.graph).check(float(self.strength), strict=self.strict)
        why = self._why_networks(items)
        found = self._fit_then_diffuse(items, held_out, n_outputs, prior) if why is None else why
        self.label_directions_ = self.label_spread_ = None
        if isinstance(found, str):
            if found == _EMBEDDING:
                self.label_directions_ = label_directions(self._domain.points, items, n_outputs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StepSizeWarning)  # already warned
                fits = self._fit_linear if self._is_linear() else self._fit_networks
                answers, at_folds = fits(items, held_out, n_outputs, item_losses)
            base, output = self._diffuse()
            if self.label_directions_ is not None:
                beside = partial(beside_labels, output, self._domain.points, self.label_directions_)
                self.label_spread_ = spread_labels(self._domain.graph, items, beside())
                output = beside(self.label_spread_)
            joined: Joined = "given" if self._domain.bandwidth is None else "near"
            agreement = self._agreement(items) if self._graph_is_given else None
            found = f"{found}; {agreement}" if found and agreement else found
            of_edges = self._reads_edges and sum(each.share for each in self.averaged_ if not each.of_edges) < 0.5
            found = f"{found}; the edges tell more than the columns" if of_edges else found
            kinds = (LINEAR, LINEAR_OF_EDGES) if self.averaged_ else (NETWORK, f"{NETWORK} of the edges")
            self.choice_ = Choice(kinds[of_edges], Candidate(joined, self.layers_), found)
        else:
            finished, answers, at_folds = found.finished, found.answers, found.at_folds
            base, output = found.before, finished.answers.copy()
            self.base_, self.readout_, self.networks_, self.averaged_ = found.base, finished.read, [], []
            self.layers_, self.strength_ = found.chosen.layers, finished.strength
            self.diffusion_time_ = self.layers_ * self.strength_
            self.choice_ = Choice(self._base_in_words(), found.chosen, found.why, tuple(found.candidates))
            if finished.links is not None:
                self._domain = self._domain.over(finished.links)
        if self.verbose:
            print(f"[condiff] {self.choice_}")
        reached = self._find_reached(nodes, items)
        output[~reached] = base[~reached]
        if (nothing := self._blank_row()) is not None:
            output[np.setdiff1d(self._domain.find(nothing), [-1, *items.nodes])] = output.mean(axis=0)
        self.record_ = FitRecord(
            nodes.of_row,
            base,
            output,
            reached,
            items.nodes,
            items.targets,
            items.weights,
            np.nonzero(held_out)[1],
            answers,
            np.nonzero(held_out)[0],
            None if at_folds is None or at_folds.size > MOST_KEPT else at_folds.astype(np.float32),
        )
        return answers

    def _why_networks(self, items: Items) -> str | None:
        """Why the residual network is the base, as far as that can be said before anything was fitted."""
        named = self.graph if isinstance(self.graph, dict) else [self.graph]
        learned = [kind for kind in LEARNED if kind in named]
        if self.base == "residual" and learned:
            raise InvalidInputError(
                f"a graph of {learned[0]} comes from a base that is fitted on the labels alone; base='residual' is "
                "trained through the graph: take base='blend', or graph='knn'"
            )
        if self.base != "auto" or learned:
            return "" if self.base == "residual" else None
        if self._graph_is_given or callable(self.graph):
            return "the graph was given"
        if sp.issparse(self._domain.points):
            return "the columns are sparse"
        if self.solver != "euler":
            return f"solver={self.solver!r}"
        # There a network that is trained through the diffusion wins nearly every contest, and none is held.
        unlabelled = self._domain.graph.n_nodes - items.n_labelled
        diffuses = self._head == "softmax" and self.layers != 0 and unlabelled >= FEWEST_TESTED
        if diffuses and is_embedding(self._domain.points):
            return _EMBEDDING
        return f"{len(items.nodes):,} labels" if len(items.nodes) > _FEW else None

    def _is_linear(self) -> bool:
        """Whether linear bases are trained on the graph: for classes, where it was given and is not too large."""
        automatic = isinstance(self.base, str) and self.base == "auto" and self._head == "softmax"
        return automatic and self._domain.is_given and self._domain.graph.n_nodes <= MANY

    def _fit_linear(
        self, items: Items, held_out: NDArray[np.bool_], n_outputs: int, item_losses: ItemLosses
    ) -> tuple[Array, Array | None]:
        """Let held-out labels choose the diffusion and weigh linear bases, as :meth:`_fit_networks` does for networks.

        Where too few labels can be held out, columns and their means over neighbours count alike; columns that have
        nothing to do with the edges are passed over for these, unless the edges look like random ones. Where columns
        of neighbours are unlike, and no labels say otherwise, nothing is diffused.
        """
        domain, disagree = self._domain, self._disagree(items)
        operator = domain.graph.laplacian(torch.float32)
        longest = self._longest_diffusion(items, n_outputs, domain.graph)
        used = torch.as_tensor(np.concatenate([~held_out, np.ones((1, len(items.nodes)), bool)]) * items.weights)
        penalties = [each for each in self._penalties(items, used.float()) if each is not None]
        balance = ClassBalance.stacked(penalties) if penalties else None
        diffusion_of = partial(self._diffusion, strength=float(longest.strength))
        graph = GivenGraph(
            domain,
            operator,
            items,
            held_out,
            n_outputs,
            balance,
            item_losses,
            self.weight_decay,
            self._scaling_of_columns,
            diffusion_of,
        )
        edges = self._may_read_edges(items)
        follow = domain.columns_follow_edges()
        strangers = edges and not disagree and not follow
        if held_out.sum() >= FEWEST_TO_CHOOSE:
            layers = [longest.layers, *self._shorter(longest, TIMES)]
            found = graph.choose(layers, edges=edges, strangers=strangers)
        elif self.layers == "auto" and (disagree or (strangers and looks_random(domain.graph.weights))):
            found = graph.take([graph.reading(0)], diffusion_of(0))
        elif strangers:
            found = graph.take([graph.reading(HOPS_OF_EDGES, of_edges=True)], longest)
        elif self.layers == "auto" and follow < 0 and not self._agree(items):
            found = graph.take([graph.reading(hops) for hops in HOPS], diffusion_of(0))
        else:
            found = graph.take([graph.reading(hops) for hops in HOPS], longest)
        self.averaged_, self.networks_, self.base_, self.readout_ = list(found.bases), [], None, None
        self.layers_, self.strength_ = found.diffusion.layers, float(found.diffusion.strength)
        self.diffusion_time_ = self.layers_ * self.strength_
        if not self.layers_ and sum(each.share for each in found.bases if each.hops) < 0.5:
            self._warn_of_neighbours(items)
        without = found.outputs[:-1]
        if not len(without) or without.numel() > MOST_KEPT:
            return found.answers, None
        with torch.no_grad():
            return found.answers, torch.stack([found.diffusion(each, operator) for each in without]).double().numpy()

    def _base_in_words(self) -> str:
        return BLEND if isinstance(self.base, str) else type(self.base).__name__

    def _fit_then_diffuse(
        self, items: Items, held_out: NDArray[np.bool_], n_outputs: int, prior: Array | None
    ) -> Diffused | str:
        """Fit a base on the labels alone, then diffuse it; or say why the residual network should be fitted instead."""
        domain, n = self._domain, self._domain.graph.n_nodes
        weights = items.weights * (len(items.weights) / items.weights.sum())
        # Where classes are weighted or their sizes known, that is what the answers are to follow.
        evens_out = prior is None and getattr(self, "class_weight", None) is None
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

        def ground(inputs: Inputs, graph: Graph, rows: NDArray[np.int64]) -> tuple[Ground, Labelled]:
            data = Labelled(inputs, rows, items.targets, weights, n_outputs, evens_out)
            return Ground(inputs, graph, self.n_neighbors, self.bandwidth_rank, seed), data

        def everything() -> tuple[Ground, Labelled]:
            precision = np.float64 if n <= MANY else np.float32
            return ground(Inputs(domain.features.columns(domain.points, precision)), domain.graph, items.nodes)

        whole, nodes = everything() if n <= MANY else None, np.arange(n)
        if whole is not None and n <= STAGE:
            stage = whole
        else:
            labelled = np.unique(items.nodes)
            others = np.random.default_rng(seed).permutation(np.setdiff1d(nodes, labelled))
            nodes = np.sort(np.concatenate([labelled, others[: max(STAGE - len(labelled), STAGE // 2)]]))
            part = domain.features.columns(domain.points[nodes]) if whole is None else whole[0].inputs.values[nodes]
            stage = ground(Inputs(part), domain.graph_of(nodes), np.searchsorted(nodes, items.nodes))
        recipe = Recipe(
            fit_blend if isinstance(self.base, str) else fit_any(self.base),
            fit_for_rehearsal if isinstance(self.base, str) else fit_any(self.base),
            self._graphs(),
            layers=None if self.layers == "auto" else int(self.layers),
            strength=None if self.strength == "auto" else float(self.strength),
            prior=prior,
            seed=seed,
        )
        decided = decide(stage[1] if whole is None else whole[1], stage, held_out, recipe)
        found = None if whole is None else decided.diffuse(*whole)
        automatic = isinstance(self.base, str) and self.base == "auto" and self._head == "softmax"
        automatic = automatic and self.layers != 0 and can_rehearse(*stage)
        embeds = self.encoder_ is not None and self.encoder_.embeds
        if automatic and (embeds or may_cluster(domain.points, domain.features.scaled, seed)):
            networks = partial(self._answers_of_networks, graph=stage[0].own, points=domain.points[nodes])
            truth = decided.diffuse(*stage).finished.answers if found is None else found.finished.answers[nodes]
            judged = contest(*stage, truth, decided.chosen, recipe, networks, of_many=n > MANY)
            if judged.won:
                return str(judged)
        if found is not None:
            return found
        ground_of_all, data = everything()
        return decided.diffuse(ground_of_all, data, decided.carried_to(domain.graph))

    def _find_reached(self, nodes: Nodes, items: Items) -> NDArray[np.bool_]:
        """Which nodes some label reaches: without one there is nothing to diffuse, and the base answers alone."""
        graph = self._domain.graph
        reached = graph.reached_from(items.nodes)
        known = nodes.of_row >= 0
        self.unlabelled_component_ = np.zeros(len(known), dtype=bool)
        self.unlabelled_component_[known] = ~reached[nodes.of_row[known]]
        if not reached.all():
            components = len(np.unique(graph.components[~reached]))
            warnings.warn(
                f"{int(self.unlabelled_component_.sum())} points lie in {components} component(s) of the graph without "
                "any label and are answered by the base alone; see unlabelled_component_",
                UnlabelledComponentWarning,
                stacklevel=4,
            )
        return reached

    # ---- answers --------------------------------------------------------------------------------------------------

    def _outputs_of_rows(self, nodes: Nodes, X: Any) -> Array:
        """Outputs of the training rows; those that were left out of the graph are answered like new ones."""
        return self._at_nodes()[nodes.of_row] if (nodes.of_row >= 0).all() else self._answer(X)
