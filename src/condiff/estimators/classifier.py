"""The semi-supervised classifier."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from condiff.errors import ChanceWarning, InvalidInputError
from condiff.estimators.answering import ClassAnswers
from condiff.estimators.base import BaseCOIN
from condiff.estimators.coverage import check_held_out, decided
from condiff.estimators.inputs import (
    UNLABELLED,
    Items,
    Nodes,
    are_soft,
    class_items,
    class_targets,
    class_weights,
    held_out_folds,
    known_shares,
    likeliest,
    soft_targets,
    unpacked,
)
from condiff.estimators.trained import Array
from condiff.graph.homophily import Homophily, homophily
from condiff.model import Head
from condiff.training import ClassBalance
from condiff.uncertainty import Inspection, LabelIssue
from condiff.uncertainty.calibration import apply_temperature, fit_temperature
from condiff.uncertainty.label_noise import doubted
from condiff.uncertainty.quota import assign, quotas
from condiff.uncertainty.reliable import Reliability, reliability, reliability_per_class
from condiff.uncertainty.volumes import settle

_TINY = 1e-12
# By how much the class that fills a quota is ahead of the others, beyond rounding.
_AHEAD = 1e-9
# Held-out labels from which a score can be told from chance.
_FEWEST_TO_JUDGE = 30


class COINClassifier(ClassAnswers, ClassifierMixin, BaseCOIN):  # type: ignore[misc]
    """Classify points from few labels, with a network whose output is diffused over a graph of all points.

    Unlabelled points are those whose target is -1 (integers), NaN (floats), or None, NaN or "" (objects and strings);
    they take part in the graph. A fully labelled fit works too.

    Parameters
    ----------
    base : {"auto", "residual", "blend"} or a scikit-learn classifier, default="auto"
        What is diffused. ``"residual"``: the paper's network, trained through the diffusion. ``"blend"``: trees, linear
        models and a Gaussian process, fitted on the labels alone, for ordinary tables; a rehearsal on the unlabelled
        points decides whether, how far and over which graph to diffuse. Any classifier likewise. ``"auto"`` takes, for
        given graphs of up to 20,000 nodes, linear models of the columns, of their means over neighbours and of the
        edges, trained through the diffusion too and weighed by held-out labels; the network for larger graphs, sparse
        columns and embeddings; and the blend for others, unless these are redundant, as pixels are, and the network
        wins a contest. ``choice_`` says what was decided, and why. In embeddings (rows of one length) answers are also
        weighed by how near a row is to the labelled ones of each class.
    graph : {"auto", "knn", "leaves", "answers", "precomputed"}, dict or callable, default="auto"
        What joins points. ``"knn"``: nearest neighbours. ``"leaves"``: leaves shared in trees that were grown on the
        labels. ``"answers"``: neighbours in what the base says. ``"precomputed"``: the symmetric ``adjacency`` given
        to :meth:`fit` (without one, X itself is the adjacency). A dict of these mixes them by its weights,
        ``{"knn": 1, "leaves": 2}``. A function of the distinct rows returns anything :meth:`condiff.Graph.of` reads.
        ``"auto"``: the adjacency where one is given, nearest neighbours for networks, and for other bases nearest
        neighbours or shared leaves, whichever a rehearsal finds better.
    n_neighbors : int, default=12
        A point's weights are kept for the points nearer than its ``n_neighbors``-th, itself being the first.
    bandwidth_rank : int, default=6
        The Gaussian weights' bandwidth is the distance to the neighbour of this rank, itself being the first.
    metric : {"auto", "euclidean", "cosine"}, default="auto"
        Cosine for sparse data by default, Euclidean for dense.
    scaling : {"auto", "standard", "none"}, default="auto"
        Standardise the columns of dense data: always, never, or only where a few of them carry nearly all the
        variance. Sparse data stay as they are.
    layers : int or "auto", default="auto"
        Diffusion layers. By default as many as leave ``sqrt(classes * labelled points)`` degrees of freedom on the
        graph (four times that on a given graph; see :func:`condiff.diffusion_time`), or fewer where held-out labels
        say so: on a given graph total times of 8, 4, 2, 1 and 0 are compared with it.
    strength : float or "auto", default="auto"
        Diffusion strength of one layer; by default within the graph's positivity limit.
    solver : {"euler", "power", "exact", "chebyshev", "implicit"}, default="euler"
        How the diffusion is computed.
    strict : bool, default=False
        Raise instead of warn where ``strength`` is past a certified limit.
    width : int, default=64
        Hidden width of the residual network, which reads at most this many principal components of the data.
    n_inits : int, default=2
        Networks whose outputs are averaged.
    epochs, learning_rate, weight_decay : default=60, 0.03, 5e-4
        Full-batch Adam.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss.
    class_balance : float, "auto" or None, default="auto"
        Weight of a penalty on outputs whose mean strays from the smoothed label proportions. By default
        ``classes / labelled points``: it settles ties where labels are few, and fades as they come in.
    class_prior : dict or None, default=None
        Known sizes or proportions of the classes among all points; by default they are estimated.
    quota : {"soft", "exact"}, default="soft"
        How they are met: by the mean of the probabilities, or exactly, by the answers at the distinct training rows:
        of all assignments that fill the quotas the one with the most probable classes, which is then diffused and made
        anew until it settles (:mod:`condiff.uncertainty.volumes`). New rows follow its prices.
    calibration : "temperature" or None, default="temperature"
        Fit a temperature on held-out labels, where there are at least ten in classes of two or more; with fewer, mix
        equal chances into the probabilities.
    label_noise : bool or "auto", default=False
        Whether given labels may be wrong. By default a labelled point is answered with its label; with True the model
        answers for it too. ``"auto"`` asks whether labels contradict sure answers more often than answers that are
        merely unsure would explain; if so it fits anew without those that are very likely wrong, and answers for them;
        ``doubted_`` marks them.
    folds : int, default=5
        Folds of labelled points that are held out in turn, for prediction sets and, where ten points or more can be
        held out, for ``cv_score_`` and the calibration; 0 for none.
    random_state : int, RandomState instance or None, default=0
        Seed of the initialisations.
    engine : {"auto", "reference"}, default="auto"
        The exact fast fit of all networks at once, or plain autograd through every layer, network by network: the same
        numbers up to rounding.
    device : str, default="cpu"
        Where to train.
    verbose : int or bool, default=False
        Print the loss as the fit goes on, and which engine fits and why.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    transduction_ : ndarray of shape (n_samples,)
        The class of every training point, labelled or not; what :meth:`predict` returns for them.
    unlabelled_component_ : ndarray of bool, shape (n_samples,)
        Points that no label reaches through the graph; the base network answers them alone.
    choice_ : Choice
        The base and the diffusion that were taken, and why; ``print`` it for one line.
    homophily_ : Homophily
        How often edges between labelled points join equals, and how often they would by chance.
    layers_, strength_, diffusion_time_ : int, float, float
        The diffusion that was used; the time is their product.
    doubted_ : ndarray of bool, shape (n_samples,)
        Rows whose label was found to be wrong, with ``label_noise="auto"``.
    label_directions_ : ndarray of shape (n_classes, n_columns) or None
        In embeddings, the mean directions of the classes' labelled rows, as long as they count.
    label_spread_ : ndarray of shape (n_nodes, n_classes) or None
        In embeddings where no class has a second label and classes come out unequal, what labels say when they are
        spread over the graph.
    prices_ : ndarray of shape (n_classes,) or None
        What is added to the logarithms of the outputs so that quotas are filled.
    temperature_ : float
        1 where there were too few labels to calibrate.
    shrinkage_ : float
        The share of equal chances in the probabilities where there were too few: ``1 / (1 + labels)``; 0 otherwise.
    cv_score_ : float
        Accuracy on held-out labels, NaN where there were too few.
    graph_, certificate_ : Graph, Certificate
        The normalised graph and its step-size limits.
    models_ : list of COIN
        The fitted networks; empty for other bases.
    averaged_ : list of Averaged
        The linear models of a given graph, with the share of each.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from condiff import COINClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> labels = np.full(len(y), -1)
    >>> shown = [np.flatnonzero(y == digit)[0] for digit in range(10)]
    >>> labels[shown] = y[shown]  # one label per class
    >>> model = COINClassifier().fit(X, labels)
    >>> bool((model.transduction_ == y).mean() > 0.8)
    True
    """

    _head: ClassVar[Head] = "softmax"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCOIN._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "class_balance": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left"), None],
        "class_prior": [dict, None],
        "quota": [StrOptions({"soft", "exact"})],
        "calibration": [StrOptions({"temperature"}), None],
        "label_noise": ["boolean", StrOptions({"auto"})],
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
        class_weight: Any = None,
        class_balance: Any = "auto",
        class_prior: Any = None,
        quota: str = "soft",
        calibration: str | None = "temperature",
        label_noise: Any = False,
        folds: int = 5,
        random_state: Any = 0,
        engine: str = "auto",
        device: str = "cpu",
        verbose: int | bool = False,
    ) -> None:
        super().__init__(
            base=base,
            graph=graph,
            n_neighbors=n_neighbors,
            bandwidth_rank=bandwidth_rank,
            metric=metric,
            scaling=scaling,
            layers=layers,
            strength=strength,
            solver=solver,
            strict=strict,
            width=width,
            n_inits=n_inits,
            epochs=epochs,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            folds=folds,
            random_state=random_state,
            engine=engine,
            device=device,
            verbose=verbose,
        )
        self.class_weight = class_weight
        self.class_balance = class_balance
        self.class_prior = class_prior
        self.quota = quota
        self.calibration = calibration
        self.label_noise = label_noise

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, adjacency: Any = None) -> Self:
        """Fit on labelled and unlabelled points together.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features), or a PyTorch Geometric Data
            All points. Tables with text, categories, dates or missing values (pandas, polars, object arrays) are
            encoded by :class:`condiff.encoders.TableEncoder`, which is kept as ``encoder_`` and saved along. With
            ``graph="precomputed"`` and no ``adjacency``, the adjacency itself; or a ``Data``, whose
            features, edges and, without ``y``, labels within ``train_mask`` are taken. Single precision is kept, and
            a memory-mapped array is read in blocks.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Their classes; see above for how to leave one out. Or the chance of every class, say from the votes of
            several annotators: rows that sum to one, or are NaN throughout where nothing is known.
        sample_weight : array-like of shape (n_samples,), optional
            Weights in the loss. Two equal rows count as one of weight two, and a row of weight zero as absent.
        adjacency : array-like or sparse matrix of shape (n_samples, n_samples), or a networkx graph, optional
            Symmetric weights of the edges; the graph is then this one. The nodes of a networkx graph are named by the
            index of X, or are 0, 1, 2, ...; without features it may also take the place of X.
        """
        self._validate_params()
        X, y, adjacency = unpacked(X, y, adjacency, self.graph)
        nodes, weights = self._read(X, y, sample_weight, adjacency)
        targets = soft_targets(y, weights > 0) if are_soft(y) else class_targets(y, weights > 0)
        self.classes_ = targets.classes
        labelled = targets.codes != UNLABELLED
        rows = np.flatnonzero(labelled) if targets.rows is None else targets.rows
        shares = weights[rows] if targets.shares is None else weights[rows] * targets.shares
        items = class_items(nodes.of_row[rows], targets.codes[labelled], shares)
        items = class_weights(items, self.classes_, self.class_weight)
        prior = known_shares(self.class_prior, self.classes_)
        domain = self._domain
        answers, item = self._learn(nodes, items, prior)
        self.doubted_ = np.zeros(len(nodes.of_row), bool)
        if self.label_noise == "auto" and self.record_.is_scored and targets.shares is None:
            wrong = np.zeros(len(items.nodes), bool)
            wrong[item] = doubted(answers, items.targets[item], items.weights[item])
            if wrong.any():
                self._domain = domain  # the first fit may have joined points by what it learned
                self._learn(nodes, Items(items.nodes[~wrong], items.targets[~wrong], items.weights[~wrong]), prior)
                pairs = set(zip(items.nodes[wrong].tolist(), items.targets[wrong].tolist(), strict=True))
                given = zip(nodes.of_row[rows].tolist(), targets.codes[labelled].tolist(), strict=True)
                self.doubted_[rows] = [pair in pairs for pair in given]
        own, codes = likeliest(rows, targets.codes[labelled], targets.shares)
        believed = ~self.doubted_[own]
        self.record_ = replace(self.record_, label_nodes=nodes.of_row[own[believed]], label_targets=codes[believed])
        self.prices_ = None
        if prior is not None and self.quota == "exact":
            self._fill_quotas(prior)
        elif self.quota == "exact":
            raise InvalidInputError("quota='exact' needs the sizes of the classes: set class_prior")
        self.transduction_ = self.classes_[self._outputs_of_rows(nodes, X).argmax(axis=1)]
        return self

    def _learn(self, nodes: Nodes, items: Items, prior: Array | None) -> tuple[Array, NDArray[np.int64]]:
        """Fit, and calibrate on held-out labels; returns the answers at these, and which items they are."""
        held_out = held_out_folds(items, items.targets, self.folds, fewest=1)
        item = np.nonzero(held_out)[1]

        def log_losses(answers: Array, item: NDArray[np.int64]) -> Array:
            temperature = fit_temperature(answers, items.targets[item], items.weights[item])
            probabilities = apply_temperature(answers, temperature)
            return np.asarray(-np.log(probabilities[np.arange(len(item)), items.targets[item]]))

        with self._domain.threads():
            answers = self._fit(
                nodes,
                items,
                held_out,
                len(self.classes_),
                item_losses=log_losses,
                prior=prior,
            )
        self.temperature_, self.cv_score_ = 1.0, float("nan")
        scored = self.record_.is_scored
        self.shrinkage_ = 0.0 if scored or self.calibration is None else 1 / (1 + items.n_labelled)
        if scored:
            codes, shares = items.targets[item], items.weights[item]
            self.cv_score_ = float(np.average(answers.argmax(axis=1) == codes, weights=shares))
            if self._graph_is_given:
                _warn_at_chance(self.cv_score_, codes, shares)
            if self.calibration is not None:
                self.temperature_ = fit_temperature(answers, codes, shares)
        return answers, item

    def _fill_quotas(self, shares: Array) -> None:
        """Find the prices of the classes at which every one gets its quota of the nodes; labelled nodes count."""
        record, outputs = self.record_, self._at_nodes()
        free = np.ones(len(outputs), bool)
        if self._keeps_labels:
            free[record.nodes] = False
        taken = np.bincount(outputs[~free].argmax(axis=1), minlength=len(shares))
        sizes = quotas(shares, len(outputs))
        if (taken > sizes).any():
            code = int((taken - sizes).argmax())
            warnings.warn(
                f"the sizes of the classes give one of them {sizes[code]} of the {len(outputs)} distinct rows, but "
                f"{taken[code]} have its label: given labels stay, and the other classes get fewer rows than they "
                "should; give sizes that count all rows, labelled ones too",
                UserWarning,
                stacklevel=3,
            )
        wanted = np.maximum(sizes - taken, 0)
        if not wanted.sum():
            return
        scores = np.log(np.maximum(outputs[free], _TINY))
        sizes = quotas(wanted.astype(np.float64), int(free.sum()))
        codes, prices = assign(scores, sizes)
        if self.layers_:
            start = outputs.argmax(axis=1)
            start[free] = codes
            # A network that was trained through the diffusion takes its classes to be clusters.
            codes = settle(self.graph_, start, free, sizes, clusters=self.base_ is None)[free]
        # Where the quota or the neighbours decide against the priced outputs, the chosen class is put just above these.
        plain = np.log(np.maximum(outputs[free], 1e-300))
        rivals = plain + prices
        chosen = rivals[np.arange(len(codes)), codes]
        rivals[np.arange(len(codes)), codes] = -np.inf
        other = np.flatnonzero(chosen < rivals.max(axis=1) + _AHEAD)  # at the prices some classes are level
        plain[other, codes[other]] = rivals[other].max(axis=1) - prices[codes[other]] + 2 * _AHEAD
        output = record.output.copy()
        output[np.flatnonzero(free)[other]] = np.exp(plain[other])
        self.record_, self.prices_ = replace(record, output=output), prices

    def _outputs_of_rows(self, nodes: Nodes, X: Any) -> Array:
        return self._priced(self._at_nodes()[nodes.of_row]) if (nodes.of_row >= 0).all() else self._answer(X)

    def reliability(self, *, per_class: bool = False) -> list[Reliability]:
        """Whether the probabilities are what they say: held-out answers, in groups, with 95 % intervals.

        Groups are of about the same probability, or with ``per_class`` one for each class. The temperature was fitted
        on the same answers; the intervals say how little few of them tell.
        """
        check_held_out(self, proved=False)
        record = decided(self.record_)
        chances, codes = self.probabilities_of(record.answers), record.targets[record.held_out]
        if per_class:
            return reliability_per_class(chances, codes)
        return reliability(chances.max(axis=1), chances.argmax(axis=1) == codes)

    def label_issues(self) -> list[LabelIssue]:
        """Given labels that look wrong, the worst first.

        Each label is judged by a model that had not seen it and by what its neighbours are answered. At least ten
        labels in classes of two or more are needed; with fewer the list is empty.
        """
        return Inspection(self).label_issues()

    @property
    def homophily_(self) -> Homophily:
        """How often edges between labelled nodes join equals, and how often they would by chance."""
        record = self.record_
        return self._agreement(Items(record.nodes, record.targets, record.weights))

    def _agreement(self, items: Items) -> Homophily:
        graph = self._domain.graph
        labels = np.full(graph.n_nodes, UNLABELLED, np.int64)
        order = np.argsort(items.weights, kind="stable")  # of several classes of a node the heaviest is its label
        labels[items.nodes[order]] = items.targets[order]
        return homophily(graph.weights, labels, len(self.classes_))

    def _penalties(self, items: Items, weights: torch.Tensor) -> Sequence[ClassBalance | None]:
        """Outputs whose mean strays from the smoothed proportions of the labels that each network sees."""
        n_classes, n_labelled = len(self.classes_), items.n_labelled
        share = n_classes / n_labelled if self.class_balance == "auto" else self.class_balance
        if not share:
            return [None] * len(weights)
        known = known_shares(self.class_prior, self.classes_)
        if known is not None:
            return [ClassBalance(torch.as_tensor(known).to(weights), share)] * len(weights)
        membership = torch.nn.functional.one_hot(torch.as_tensor(items.targets), n_classes).to(weights)
        counts = n_labelled * (weights / weights.sum(-1, keepdim=True)) @ membership
        return [ClassBalance(row, share) for row in (counts + 1.0) / (n_labelled + n_classes)]


def _warn_at_chance(score: float, codes: NDArray[np.int64], shares: Array) -> None:
    """Warn where held-out labels of a given graph are answered no better than by the most frequent of them."""
    guess = float(np.bincount(codes, shares).max() / shares.sum())
    if len(codes) < _FEWEST_TO_JUDGE or score > guess + np.sqrt(guess * (1 - guess) / len(codes)):
        return
    warnings.warn(
        f"{100 * score:.0f} % of the held-out labels are answered right, no better than by always guessing the most "
        f"frequent class ({100 * guess:.0f} %): the graph and the columns tell too little of the classes. See that "
        "nodes, edges and labels belong together; where neighbours tend to differ, leave out the graph",
        ChanceWarning,
        stacklevel=4,
    )
