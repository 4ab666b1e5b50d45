"""Residual networks that are trained through the diffusion: what they learn on, how far it goes, what they answer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from condiff.bases import Residual
from condiff.bases.classical import Labelled
from condiff.bases.network import Network
from condiff.diffusion import SOLVERS, Diffusion, diffusion_time
from condiff.diffusion.stability import max_diagonal
from condiff.diffusion.time import PROBES
from condiff.errors import HomophilyWarning, StepSizeWarning
from condiff.estimators.domain import MANY, Domain
from condiff.estimators.inputs import Items, slices
from condiff.estimators.nearness import beside_labels, label_directions
from condiff.estimators.reading import Reading
from condiff.graph import Graph, Laplacian
from condiff.graph.coarse import Coarse
from condiff.graph.homophily import Homophily
from condiff.model import COIN, Head
from condiff.training import ClassBalance, Problem, Training, fit

Array = NDArray[np.float64]
ItemLosses = Callable[[Array, NDArray[np.int64]], Array]

# Layers of a solver without a step-size limit: enough for the points outside the graph to follow the flow.
_UNLIMITED_LAYERS = 10
# What is tried where labels can be held out: shares of the longest diffusion, and total times on a graph that was
# given, for links of any kind may mix classes soon, and how soon only labels can say. 0 is the network alone.
SHORTER, GIVEN_TIMES = (0.25, 0.0), (8.0, 4.0, 2.0, 0.0)
# Where networks have learned on merged points and answer at all, merging has smoothed a little already: the share of
# the longest diffusion that is taken there, and the shares that enough held-out labels may choose in its place.
_OF_ALL, _OTHERS_OF_ALL, _FEWEST_OF_ALL = 0.5, (0.25, 1.0), 100
#: Labels that must be held out to choose by them.
FEWEST_TO_CHOOSE = 20
# Standard errors by which a shorter diffusion must be better, or edges than columns: few labels are noisy judges.
_CLEARLY = 1.0
# Numbers that are kept of what was answered without each fold.
MOST_KEPT = 5_000_000
# How far off the degrees of freedom of many points may be, relatively.
_OFF = 0.05
# Merged points at least, and for each labelled one.
_MERGED, _PER_LABEL = 4_000, 8


@dataclass(frozen=True, eq=False)
class _Attempt:
    """Networks that were fitted without the folds: what they read, their diffusion, what they answer and lose there.

    ``everywhere`` is what they answer at all nodes, where that is kept.
    """

    domain: Domain
    diffusion: Diffusion
    networks: Sequence[COIN] = ()
    answers: Array = field(default_factory=lambda: np.zeros((0, 0)))
    losses: Array = field(default_factory=lambda: np.zeros(0))
    everywhere: Array | None = None


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What networks learn on: a graph, the items on it, and its points if these are not all nodes, perhaps merged."""

    graph: Graph
    items: Items
    points: Any = None
    is_merged: bool = False


class Trained(Reading):
    """What of an estimator fits networks through the diffusion."""

    _head: ClassVar[Head]

    @property
    def diffusion_(self) -> Diffusion:
        """The diffusion that was used."""
        check_is_fitted(self)
        return self._diffusion(self.layers_, self.strength_)

    @property
    def models_(self) -> list[COIN]:
        """The fitted networks, in double precision."""
        check_is_fitted(self)
        return [COIN(each.module(), self.diffusion_, head=self._head).eval() for each in self.networks_]

    def _graph_factor(self) -> float:
        # A graph that was given, of citations say, mixes classes more than one of nearest neighbours, and bears less
        # diffusion: more degrees of freedom are kept.
        return 4.0 if self._graph_is_given or callable(self.graph) else 1.0

    def _longest_diffusion(self, items: Items, n_outputs: int, graph: Graph) -> Diffusion:
        """Layers and strength: as given, or such that degrees of freedom are left for the classes and labels."""
        operator = graph.laplacian(torch.float32)
        largest = max_diagonal(operator)
        limit = 1.0 / largest if largest > 0 else 1.0
        if self.layers != "auto":
            return self._diffusion(self.layers, limit if self.strength == "auto" else self.strength)
        classes = n_outputs if self._head == "softmax" else 1
        dimension = self._graph_factor() * math.sqrt(classes * items.n_labelled)
        # Among many points some hang on the others by next to nothing, near duplicates above all. There a probe costs
        # most, and fewer will do the more degrees of freedom are left: the trace of d is sqrt(2 / (d * probes)) off.
        robust = self._domain.graph.n_nodes > MANY
        probes = min(PROBES, max(8, math.ceil(2 / (dimension * _OFF**2)))) if robust else PROBES
        time = diffusion_time(graph, dimension, probes=probes, robust=robust)
        if self.strength != "auto":
            return self._diffusion(math.ceil(time / self.strength - 1e-9), self.strength)
        step = limit if SOLVERS[self.solver].limited else max(time, limit) / _UNLIMITED_LAYERS
        layers = max(1, math.ceil(time / step - 1e-9))
        return self._diffusion(layers, time / layers or limit)

    def _shorter(self, longest: Diffusion, given_times: Sequence[float] = GIVEN_TIMES) -> list[int]:
        """Numbers of layers below the longest that held-out labels may choose."""
        if self.layers != "auto":
            return []
        step = float(longest.strength)
        times = given_times if self._graph_is_given else [share * longest.layers * step for share in SHORTER]
        return [layers for layers in (round(time / step) for time in times) if layers < longest.layers]

    def _diffusion(self, layers: int, strength: float) -> Diffusion:
        return Diffusion(int(layers), float(strength), solver=self.solver, strict=self.strict)

    def _fit_networks(
        self, items: Items, held_out: NDArray[np.bool_], n_outputs: int, item_losses: ItemLosses
    ) -> tuple[Array, Array | None]:
        """Let held-out labels choose among the longest diffusion and shorter ones, then fit with all labels.

        On a given graph they also choose what the network reads, columns or edges: columns may know nothing of the
        classes. Where too few labels can be held out, columns that have nothing to do with the edges are passed over.

        Returns the answers at the held-out items, and those at all nodes without each fold, where these are kept.
        """
        lesson = self._lesson(items)
        longest = self._longest_diffusion(items, n_outputs, lesson.graph if lesson.is_merged else self._domain.graph)
        fold, item = np.nonzero(held_out)
        # One for all fits: what an engine makes of it is then made once.
        operator = lesson.graph.laplacian(torch.float32, torch.device(self.device))
        train = partial(self._train, operator=operator, items=lesson.items, n_outputs=n_outputs, points=lesson.points)
        read = self._with_labels(items, held_out, n_outputs)

        def attempt(domain: Domain, layers: int) -> _Attempt:
            self._domain, diffusion = domain, self._diffusion(layers, float(longest.strength))
            if not len(held_out):
                return _Attempt(domain, diffusion, answers=np.zeros((0, n_outputs)))
            networks, every = train(diffusion, used=~held_out)
            answers = read(every[fold, item], fold, items.nodes[item])
            return _Attempt(domain, diffusion, networks, answers, item_losses(answers, item))

        chooses, disagree = len(item) >= FEWEST_TO_CHOOSE, self._disagree(items)
        columns = self._domain
        edges = columns.reading_edges(self.width) if self._may_read_edges(items) else None
        strangers = edges is not None and not disagree and not columns.columns_follow_edges()
        if edges is not None and strangers and not chooses:
            columns = edges
        best, tried = attempt(columns, longest.layers), [columns]
        if chooses and edges is not None:
            other = attempt(edges, longest.layers)
            if _clear(best.losses - other.losses) or (strangers and not _clear(other.losses - best.losses)):
                best, tried = other, [edges, columns]  # columns may be better where less is diffused
        for domain in tried if chooses else ():
            for layers in self._shorter(longest):
                shorter = attempt(domain, layers)
                gains = best.losses - shorter.losses
                # Held-out labels may favour less diffusion than the graph allows; where the graph is made of the
                # points, or something else is read, only by a clear margin.
                if gains.mean() > 0 if self._graph_is_given and domain is best.domain else _clear(gains):
                    best = shorter
                elif gains.mean() <= 0 and not self._graph_is_given:
                    break  # a still shorter one would not help either
        self._domain, chosen, without, answers = best.domain, best.diffusion, best.networks, best.answers
        if self.layers == "auto" and not chooses and disagree:
            # No label could be held out to ask, but the labelled edges answer.
            chosen = self._diffusion(0, float(longest.strength))
        networks, _ = train(chosen, used=np.ones((self.n_inits, len(items.nodes)), bool))
        if not chosen.layers and self._domain.of_edges is None:
            self._warn_of_neighbours(items)
        at_folds: Array | None = None
        if lesson.points is not None:
            carried, at = chosen.layers, items.nodes[item]
            others: tuple[float, ...] = ()
            if lesson.is_merged:
                others = _OTHERS_OF_ALL if len(item) >= _FEWEST_OF_ALL else ()
                longest = self._longest_diffusion(items, n_outputs, self._domain.graph)
                carried = round(_OF_ALL * longest.layers) if chosen.layers else 0
            chosen = self._diffusion(carried, float(longest.strength))
            if without:
                numbers = {carried, *(round(part * longest.layers) for part in others)}
                spread: dict[int, _Attempt] = {}
                for diffusion, every in self._spread_over_all(without, numbers, float(longest.strength)):
                    answers = read(every[fold, at], fold, at).astype(np.float64)
                    kept = every if every.size <= MOST_KEPT else None
                    losses = item_losses(answers, item)
                    spread[diffusion.layers] = _Attempt(self._domain, diffusion, without, answers, losses, kept)
                least = min(spread.values(), key=lambda each: each.losses.mean())
                best = least if _clear(spread[carried].losses - least.losses) else spread[carried]
                chosen, answers, at_folds = best.diffusion, best.answers, best.everywhere
        elif without and len(without) * operator.n_nodes * n_outputs <= MOST_KEPT:
            at_folds = self._outputs_of(list(without), operator)
        if at_folds is not None:
            for each, outputs in enumerate(at_folds):
                outputs[:] = read(outputs, np.full(len(outputs), each), np.arange(len(outputs)))
        self.layers_, self.strength_ = chosen.layers, float(chosen.strength)
        self.diffusion_time_ = self.layers_ * self.strength_
        self.base_, self.readout_, self.averaged_ = None, None, []
        self.networks_ = [Network.of(each.convection, classifies=self.classifies) for each in networks]
        return answers, at_folds

    def _warn_of_neighbours(self, items: Items) -> None:
        """Say that a given graph was of no use, where that was found and not asked for."""
        if self.layers == "auto" and self._graph_is_given:
            warnings.warn(
                f"neighbours of the given graph tell less than the columns do ({self._agreement(items)}): the base "
                "answers alone, and nothing is diffused",
                HomophilyWarning,
                stacklevel=7,
            )

    def _with_labels(
        self, items: Items, held_out: NDArray[np.bool_], n_outputs: int
    ) -> Callable[[Array, NDArray[np.int64], NDArray[np.int64]], Array]:
        """From outputs, the fold that each was made without, and its node, to answers: of embeddings, with labels."""
        points = self._domain.points
        if self.label_directions_ is None:
            return lambda outputs, fold, nodes: outputs
        directions = [label_directions(points, items, n_outputs, ~each) for each in held_out]

        def read(outputs: Array, fold: NDArray[np.int64], nodes: NDArray[np.int64]) -> Array:
            found = outputs.copy()
            for each in np.unique(fold):
                own = fold == each
                found[own] = beside_labels(outputs[own], points[nodes[own]], directions[each])
            return found

        return read

    def _may_read_edges(self, items: Items) -> bool:
        """Whether the edges of a given graph may be read instead of its columns."""
        automatic = isinstance(self.base, str) and self.base == "auto" and self._graph_is_given
        # Edges of parts that have no label are like none that was learned.
        reached = self._domain.graph.reached_from(items.nodes).sum()
        return automatic and 2 * int(reached) >= self._domain.graph.n_nodes and self._domain.edges_are_new

    def _lesson(self, items: Items) -> _Lesson:
        """What networks learn on.

        Many points of a graph of neighbours are merged, each with the nearest of some thousand: a network is a smooth
        function of the points, and sees as much of the clusters and of what separates them. Of a given graph that
        falls into many parts those with a label are learned on, as what is diffused there comes from there, and some
        nodes of the others, which say how common the classes are.
        """
        domain, labelled = self._domain, np.unique(items.nodes)
        n, size = domain.graph.n_nodes, max(_MERGED, _PER_LABEL * len(labelled))
        automatic = self.layers == "auto" and self.strength == "auto" and self.engine == "auto"
        if not automatic or n <= max(MANY, 2 * size) or domain.links:
            return _Lesson(domain.graph, items)
        generator = np.random.default_rng(0)
        if domain.bandwidth is not None and self._head == "softmax":
            others = generator.choice(np.setdiff1d(np.arange(n), labelled), size - len(labelled), replace=False)
            coarse = Coarse.around(domain.graph, np.concatenate([labelled, others]))
            moved = replace(items, nodes=np.searchsorted(labelled, items.nodes))
            return _Lesson(coarse.graph, moved, coarse.means(domain.points), is_merged=True)
        reached = domain.graph.reached_from(labelled)
        if domain.bandwidth is None and 2 * (reached.sum() + size) < n:
            others = generator.choice(np.flatnonzero(~reached), size, replace=False)
            nodes = np.sort(np.concatenate([np.flatnonzero(reached), others]))
            moved = replace(items, nodes=np.searchsorted(nodes, items.nodes))
            return _Lesson(domain.graph_of(nodes), moved, domain.points[nodes])
        return _Lesson(domain.graph, items)

    def _train(
        self,
        diffusion: Diffusion,
        operator: Laplacian,
        items: Items,
        used: NDArray[np.bool_],
        n_outputs: int,
        points: Any = None,
    ) -> tuple[list[COIN], Array]:
        """Fit one network for each row of ``used``, on the items that it marks; returns them and their answers.

        The answers are at all items, of shape (networks, items, outputs). ``points`` are the nodes, if not all.
        """
        device = torch.device(self.device)
        rows, features = self._domain.read(self._domain.points if points is None else points)
        inputs = torch.as_tensor(features.inputs(rows, np.float32), device=device)
        networks = self._new_networks(inputs.shape[1], n_outputs, diffusion, len(used))
        kind = torch.long if self._head == "softmax" else torch.float32
        weights = torch.as_tensor(used * items.weights, dtype=torch.float32, device=device)
        balances = self._penalties(items, weights)
        problem = Problem(
            networks[0],
            inputs,
            operator,
            torch.as_tensor(items.targets, dtype=kind, device=device),
            nodes=items.nodes,
            settings=Training("adam", self.learning_rate, weight_decay=self.weight_decay, epochs=self.epochs),
        )
        # Few of many points: nothing hangs on the rounding of such a fit, and the fastest way will do.
        few_of_many = points is not None and len(inputs) <= MANY < self._domain.graph.n_nodes
        engine = "written" if self.engine == "auto" and few_of_many and self._head == "softmax" else self.engine
        fitted = fit(
            [
                problem.replace(model=network, sample_weight=weight, penalty=balance)
                for network, weight, balance in zip(networks, weights, balances, strict=True)
            ],
            engine,
            on_epoch=_print_epoch if self.verbose else None,
        )
        if self.verbose:
            print(f"[condiff] {len(networks)} network(s) fitted; engine {fitted[0].engine}: {fitted[0].reason}")
        return networks, torch.stack([each.outputs for each in fitted]).cpu().double().numpy()

    def _new_networks(self, n_inputs: int, n_outputs: int, diffusion: Diffusion, number: int) -> list[COIN]:
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=number)
        networks = []
        with torch.random.fork_rng(devices=[]):
            for seed in seeds:
                torch.manual_seed(int(seed))
                base = Residual(n_inputs, n_outputs, width=max(self.width, n_inputs))
                networks.append(COIN(base, diffusion, head=self._head).to(self.device))
        return networks

    def _penalties(self, items: Items, weights: torch.Tensor) -> Sequence[ClassBalance | None]:
        """What is added to the loss of each network, from the weights, (networks, items)."""
        return [None] * len(weights)

    def _agreement(self, items: Items) -> Homophily | None:
        """How often labelled neighbours agree; None where targets are no classes."""
        return None

    def _disagree(self, items: Items) -> bool:
        """Whether labelled neighbours of a given graph agree no more often than by chance."""
        agreement = self._agreement(items) if self._graph_is_given else None
        return agreement is not None and agreement.is_absent

    def _agree(self, items: Items) -> bool:
        """Whether labelled neighbours of a given graph agree more often than by chance, however few they are."""
        agreement = self._agreement(items) if self._graph_is_given else None
        return agreement is not None and agreement.adjusted > 0

    def _answers_of_networks(self, data: Labelled, *, graph: Graph, points: Any) -> Array:
        """What one network trained through the diffusion answers at points of a graph."""
        items = Items(data.rows, data.targets, data.weights)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore", StepSizeWarning)
            diffusion = self._longest_diffusion(items, data.n_outputs, graph)
            operator = graph.laplacian(torch.float32, torch.device(self.device))
            everything = np.ones((1, len(items.nodes)), bool)
            with torch.enable_grad():
                [network], _ = self._train(diffusion, operator, items, everything, data.n_outputs, points)
            return np.asarray(self._outputs_of([network], operator, points)[0])

    def _outputs_of(self, networks: list[COIN], operator: Laplacian, points: Any = None) -> Array:
        """What networks answer at the nodes of a graph, or at points of a smaller one: (networks, nodes, outputs)."""
        rows, features = self._domain.read(self._domain.points if points is None else points)
        with torch.no_grad():
            inputs = torch.as_tensor(features.inputs(rows, np.float32), device=self.device)
            return np.stack([network.eval()(inputs, operator).cpu().double().numpy() for network in networks])

    @torch.no_grad()
    def _spread_over_all(
        self, networks: Sequence[COIN], numbers: Collection[int], strength: float
    ) -> Iterator[tuple[Diffusion, Array]]:
        """What networks answer at all nodes after each of some numbers of layers, (networks, nodes, outputs)."""
        rows, features = self._domain.read(self._domain.points)
        operator = self._domain.graph.laplacian(torch.float32, torch.device(self.device))
        parts = []
        for here in slices(rows.shape[0]):
            inputs = torch.as_tensor(features.inputs(rows[here], np.float32), device=self.device)
            parts.append(torch.cat([network.eval().base(inputs) for network in networks], dim=-1))
        columns, done = torch.cat(parts), 0
        del parts
        for layers in sorted(numbers):
            if layers > done:
                columns, done = self._diffusion(layers - done, strength)(columns, operator), layers
            every = columns.unflatten(1, (len(networks), -1)).movedim(1, 0)
            yield self._diffusion(layers, strength), every.cpu().numpy()

    def _diffuse(self) -> tuple[Array, Array]:
        """The mean output of the networks at all nodes, and what the diffusion makes of it."""
        base, graph = self.base_outputs(self._domain.points), self._domain.graph
        dtype = torch.float64 if graph.n_nodes <= MANY else torch.float32
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore", StepSizeWarning)  # the fit has warned already
            output = self.diffusion_(torch.as_tensor(base, dtype=dtype), graph.laplacian(dtype)).double().numpy()
        return base, output


def _clear(gains: Array) -> bool:
    """Whether held-out labels gain clearly."""
    return bool(gains.mean() > _CLEARLY * gains.std() / math.sqrt(len(gains)))


def _print_epoch(epoch: int, loss: float) -> None:
    if epoch % 10 == 0:
        print(f"[condiff] epoch {epoch}: loss {loss:.4f}")
