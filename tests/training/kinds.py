"""Every kind of problem that engines are tested on, small enough for plain autograd."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.bases import Bottleneck, Residual
from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.graph import DenseLaplacian, Graph, kernel_graph
from condiff.graph.batch import directed_laplacians, kernel_laplacians
from condiff.model import COIN, Head
from condiff.training import FEW_SHOT, PROSTATE, ClassBalance, Problem, Training

# More hidden units than a block of the compiled loops holds, and no multiple of it.
N, FEATURES, CLASSES = 90, 70, 3
ADAM = Training("adam", 0.02, weight_decay=1e-3, epochs=25, patience=None)
SGD = Training("sgd", 0.2, momentum=0.9, weight_decay=1e-3, epochs=25, milestones=(10, 20), patience=None)
EARLY = Training("adam", 0.05, weight_decay=0.0, epochs=200, patience=4)
NAN = float("nan")

Make = Callable[[torch.dtype], list[Problem]]


@cache
def labels() -> Tensor:
    return torch.arange(N) * CLASSES // N


@cache
def words() -> Tensor:
    """Features that mostly keep to their class, and are mostly zeros."""
    rng = np.random.default_rng(0)
    likely = 0.04 + 0.12 * (np.arange(FEATURES) % CLASSES == labels().numpy()[:, None])
    return torch.from_numpy((rng.random((N, FEATURES)) < likely) * 0.5)


@cache
def ring() -> Graph:
    near = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(N, N)) + sp.random_array((N, N), density=2 / N, rng=1)
    return Graph.of(sp.csr_array(near + near.T)).normalised(self_loops="add")


def chosen() -> Tensor:
    return torch.from_numpy(np.random.default_rng(3).permutation(N))


def noisy_labels() -> Tensor:
    """A third of them wrong: the validation loss soon rises."""
    wrong = torch.from_numpy(np.random.default_rng(4).random(N) < 0.35)
    return torch.where(wrong, (labels() + 1) % CLASSES, labels())


def network(seed: int, dtype: torch.dtype, outputs: int = CLASSES, **settings: Any) -> COIN:
    torch.manual_seed(seed)
    return COIN.build(FEATURES, outputs, **({"layers": 5, "strength": 0.2} | settings)).to(dtype)


def narrow(seed: int, dtype: torch.dtype, base: Any, head: Head = "softmax", **settings: Any) -> COIN:
    torch.manual_seed(seed)
    return COIN(base(), Diffusion(6, 0.3, **settings), head=head).to(dtype)


def few_features() -> Tensor:
    return torch.as_tensor(np.random.default_rng(1).normal(size=(N, 5)))


def node(form: str = "sparse", settings: Training = EARLY, **changes: Any) -> Make:
    def make(dtype: torch.dtype) -> list[Problem]:
        x = sp.csr_array(words().numpy()) if form == "sparse" else words()
        given = {"train": chosen()[:20], "settings": settings} | changes
        if settings.patience is not None:
            given = {"validation": chosen()[20:60]} | given
        return [Problem(network(2, dtype), x, ring(), noisy_labels(), **given)]

    return make


def words_through(hidden: int) -> Make:
    """Words, a narrow hidden layer and early stopping."""

    def make(dtype: torch.dtype) -> list[Problem]:
        model = network(2, dtype, hidden_features=hidden)
        return [each.replace(model=model) for each in node()(dtype)]

    return make


def masks(dtype: torch.dtype) -> list[Problem]:
    train, validation = (torch.isin(torch.arange(N), part) for part in (chosen()[:20], chosen()[20:60]))
    return node(train=train.numpy(), validation=validation)(dtype)


def folds(settings: Training = ADAM, **changes: Any) -> Make:
    """Networks that each leave out some labels, with a penalty; one node is labelled twice."""

    def make(dtype: torch.dtype) -> list[Problem]:
        nodes = torch.cat([chosen()[:12], chosen()[:1]])
        target = torch.cat([labels()[chosen()[:12]], labels()[chosen()[:1]] * 0 + 1])
        models = [narrow(seed, dtype, lambda: Residual(5, CLASSES, width=8)) for seed in range(3)]
        first = Problem(models[0], few_features(), ring(), target, nodes=nodes, settings=settings, **changes)
        weights = torch.rand(3, 13, generator=torch.Generator().manual_seed(3)) + 0.1
        weights[1, :4] = 0
        balance = ClassBalance(torch.tensor([0.5, 0.3, 0.2]), 0.7)
        return [
            first.replace(model=model, sample_weight=weight, penalty=balance)
            for model, weight in zip(models, weights, strict=True)
        ]

    return make


def other_labels(dtype: torch.dtype) -> list[Problem]:
    """Networks that learn from different nodes."""
    models = [narrow(seed, dtype, lambda: Residual(5, CLASSES, width=8)) for seed in range(2)]
    first = Problem(models[0], few_features(), ring(), labels(), chosen()[:9], settings=SGD)
    return [first, first.replace(model=models[1], train=chosen()[5:20])]


def headed(head: Head, base: Any, settings: Training = ADAM, **diffusion: Any) -> Make:
    def make(dtype: torch.dtype) -> list[Problem]:
        outputs = 1 if head == "sigmoid" else CLASSES
        target = {"softmax": labels(), "sigmoid": (labels() > 0).double(), "identity": few_features()[:, :3]}[head]
        model = narrow(1, dtype, lambda: base(5, outputs), head, **diffusion)
        return [Problem(model, few_features(), ring(), target, chosen()[:15], settings=settings)]

    return make


def tasks(drawn: bool) -> Make:
    """Few-shot tasks, with networks that exist or whose weights are drawn when they are needed."""

    def make(dtype: torch.dtype) -> list[Problem]:
        generator = torch.Generator().manual_seed(5)
        classes = torch.arange(30) % CLASSES
        x = torch.randn(4, CLASSES, 100, generator=generator)[:, classes] + torch.randn(4, 30, 100, generator=generator)
        x = torch.nn.functional.normalize(x, dim=-1).to(dtype)
        graphs = kernel_laplacians(x).weights
        build = {"layers": 6, "strength": 0.4}
        with torch.device("cpu" if drawn else "meta"):
            models = []
            for seed in (11, 12, 13, 14):
                torch.manual_seed(seed)
                models.append(COIN.build(100, CLASSES, **build).to(dtype))  # type: ignore[arg-type]
        return [
            Problem(
                models[i] if drawn else models[0],
                x[i],
                DenseLaplacian(graphs[i], symmetric=True),
                classes,
                range(6),
                settings=FEW_SHOT,
                seed=11 + i,
            )
            for i in range(4)
        ]

    return make


def genes(layers: int, settings: Training, head: Head = "sigmoid", **base: Any) -> Make:
    """Gene-wise networks on tables, which differ in weights, graphs and in how many patients they learn from."""

    def make(dtype: torch.dtype) -> list[Problem]:
        rng = np.random.default_rng(0)
        x = sp.csr_array(rng.random((40, 90)) < 0.06, dtype=np.float64)
        points = [np.random.default_rng(seed).normal(size=(40, 3)) for seed in range(3)]
        outputs = 1 if head == "sigmoid" else 3
        target = rng.normal(size=(40, 3)) if head == "identity" else rng.integers(0, 2, 40)
        problems = []
        for seed, cloud in enumerate(points):
            torch.manual_seed(seed)
            convection = GeneWise(30, 3, **({"out_features": outputs} | base))
            model = COIN(convection, Diffusion(layers, 0.1 + 0.02 * seed), head=head).to(dtype)
            graph = kernel_graph(cloud, 6, 3) if layers else None
            train = rng.permutation(40)[: 8 + seed]
            changes = {"model": model, "graph": graph, "train": train}
            problems.append(
                problems[0].replace(**changes)
                if problems
                else Problem(model, x, graph, target, train, settings=settings)
            )
        return problems

    return make


def panel(outputs: int = 1, dropout: float = 0.0, *, graphs: str = "own", settings: Training = ADAM) -> Make:
    """Inputs with many equal windows, a directed graph for each day, and targets of which most are not known."""

    def make(dtype: torch.dtype) -> list[Problem]:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(4, 9, 4)) * (rng.random((4, 9, 1)) < 0.5)
        weights = rng.random((4, 9, 9)) * (rng.random((4, 9, 9)) < 0.4)
        target = rng.normal(size=(4, 9, outputs))
        target[rng.random(target.shape) < 0.6] = NAN
        operator = directed_laplacians(list(weights), dtype)
        if graphs == "shared":
            operator = DenseLaplacian(operator.weights[0])
        base = {"hidden_features": 6, "activation": "elu", "head": "identity", "layers": 3, "strength": "auto"}
        models = []
        for seed in range(2):
            torch.manual_seed(seed)
            models.append(COIN.build(4, outputs, dropout=dropout, **base).to(dtype))  # type: ignore[arg-type]
        first = Problem(models[0], x, operator, target, settings=settings, seed=5)
        return [first, first.replace(model=models[1], seed=6)]

    return make


def directed(dtype: torch.dtype) -> list[Problem]:
    graph = Graph.of(np.triu(np.random.default_rng(0).random((N, N)), 1))
    return [Problem(network(0, dtype, strength=0.01), words(), graph, labels(), chosen()[:20], settings=ADAM)]


def own_penalty(dtype: torch.dtype) -> list[Problem]:
    return node("dense", ADAM, penalty=lambda u: u[20:, 0].mean())(dtype)


def kind(model: Callable[[torch.dtype], COIN], **changes: Any) -> Make:
    given = {"settings": ADAM} | changes
    return lambda dtype: [Problem(model(dtype), words(), ring(), labels(), chosen()[:20], **given)]


#: Every kind, and the engines that take it besides the reference.
KINDS: dict[str, tuple[Make, str]] = {
    "words, early stopping": (node(), "blocked streamed projected"),
    "words, masks": (masks, "blocked streamed projected"),
    "words, weights": (node(sample_weight=np.linspace(0.1, 2, 20)), "blocked streamed projected"),
    "words, all epochs": (node(settings=ADAM), "blocked streamed projected"),
    "words, momentum": (node(settings=SGD), "blocked streamed gram projected"),
    "dense, early stopping": (node("dense"), "blocked streamed projected"),
    "dense": (node("dense", ADAM), "blocked streamed written projected"),
    "folds with a penalty": (folds(), "streamed written projected"),
    "folds, rmsprop": (folds(Training("rmsprop", 0.01, epochs=25, patience=None)), "streamed written projected"),
    "different labels": (other_labels, "streamed written projected"),
    "sigmoid": (headed("sigmoid", Residual), "blocked streamed projected"),
    "identity": (headed("identity", Residual, SGD), "blocked streamed projected"),
    "another solver": (headed("softmax", Residual, solver="implicit"), "blocked streamed written projected"),
    "two blocks": (headed("softmax", lambda i, o: Residual(i, o, width=8, blocks=2)), "streamed"),
    "bottleneck": (headed("softmax", lambda i, o: Bottleneck(i, 4, o)), "streamed narrow"),
    "bottleneck, words": (words_through(8), "streamed narrow"),
    "tasks": (tasks(True), "blocked gram"),
    "tasks, weights to be drawn": (tasks(False), "blocked gram"),
    "genes": (genes(5, ADAM), "genewise"),
    "genes, momentum": (genes(5, SGD, hidden_features=4), "genewise"),
    "genes, identity": (genes(5, ADAM, "identity"), "genewise"),
    "genes, no shortcut": (genes(5, ADAM, shortcut=False), "genewise"),
    "genes, no diffusion": (genes(0, PROSTATE), "genewise"),
    "panel": (panel(), "panel"),
    "panel, dropout": (panel(dropout=0.25), "panel"),
    "panel, two outputs": (panel(2, 0.25, settings=SGD), "panel"),
    "panel, one graph": (panel(2, graphs="shared"), "panel"),
    "directed": (directed, ""),
    "dropout": (kind(lambda dtype: network(0, dtype, dropout=0.3), seed=4), ""),
    "learned strength": (kind(lambda dtype: network(0, dtype, learnable_strength=True)), ""),
    "a penalty of its own": (own_penalty, ""),
}
