"""COIN's defaults on homophilous graphs that nobody tuned for, beside GCN and APPNP: 20 labels per class.

``COIN`` is what ``condiff reproduce node GRAPH`` runs, ``COINClassifier`` what Python and ``condiff fit`` do. Each has
the same labels: 20 per class to train and 30 to validate, or, for the classifier, all of them to learn from.

    python benchmarks/own_graphs.py [--splits 2] [--graphs shop,wiki] [--methods GCN,COIN] [--out results/own-graphs]

Graphs are drawn from a stochastic block model with heavy-tailed degrees: classes of uneven sizes, each of several
communities; nodes differ in how far their links keep to their class, and some have another class than their links and
features say. They are as dense as shops' graphs of what is bought together, as sparse as citations, with words or dense
features that tell much, little or nothing. Three more kinds are not drawn in blocks: places that are linked where they
are near, groups whose members are all linked, and a graph that grows by copying links. Others are of real things: news,
questions and handwritten digits, linked to their nearest. What ``condiff reproduce node
GRAPH`` does by itself was chosen on graphs like those of ``CHOSEN``, and on real ones at splits that no table has;
``UNSEEN`` was first run after that. Only by how much edges must be better than features to be read was raised, from two
standard errors to three, when another shop lost half a point by it. That all averagings are tried with all times and
mixed was settled on ``CHOSEN`` with two graphs of ``LATER``, when figures of the version before on the other graphs
were known; its last three, ``OTHERS``, ``LARGE`` and ``REAL`` came after. Every run is one line of runs.jsonl, and a
command that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

from condiff import COINClassifier
from condiff.files import write_text
from condiff.readers.node import NodeDataset, largest_component
from condiff.reproduce.baselines.node import REGISTRY
from condiff.reproduce.datasets import mnist
from condiff.reproduce.datasets.sources import locate
from condiff.reproduce.protocols.node import problem
from condiff.reproduce.provenance import provenance_line
from condiff.reproduce.splits import Split, random_splits

OURS = ("COIN", "COINClassifier")
METHODS = ("GCN", "APPNP", *OURS)
#: Classes, what is compared to find the nearest, and features.
Given: TypeAlias = tuple[NDArray[np.int64], sp.csr_array, sp.csr_array]
# The least nodes of a class: 20 to train, 30 to validate, and some to test.
_LEAST = 70


@dataclass(frozen=True)
class Drawn:
    """Settings of a graph that is drawn at random.

    ``homophily`` is the mean share of links that a node sends to its own class, ``within`` the share of those that stay
    in its community, ``tail`` the exponent of degrees; ``topic`` and ``community_topic`` are shares of words that tell
    the class and the community, ``noise`` the spread of dense features around theirs. ``links`` says how nodes are
    linked: in blocks; to the nearest of places that are scattered around their community's; in groups that are linked
    pairwise, such as the authors of a paper; or to earlier nodes and to what these are linked to. ``focus`` is small
    where a topic has few words of its own, and large where topics share most of theirs.
    """

    nodes: int = 1600
    classes: int = 8
    degree: float = 10
    homophily: float = 0.85
    tail: float = 2.5
    communities: int = 4
    within: float = 0.6
    skew: float = 0.8
    features: int = 800
    words: float = 0
    topic: float = 0.0
    community_topic: float = 0.0
    noise: float = 0.0
    links: Literal["blocks", "places", "groups", "growth"] = "blocks"
    focus: float = 0.05


CHOSEN = {
    "many classes": Drawn(4000, 30, 10, 0.80, 2.5, 2, 0.5, 0.4, 2000, 50, 0.20, 0.10),
    "dense purchases": Drawn(2400, 10, 60, 0.80, 2.1, 4, 0.5, 0.8, 760, 120, 0.05, 0.05),
    "shop": Drawn(1600, 10, 32, 0.87, 2.3, 6, 0.5, 0.9, 700, 90, 0.06, 0.06),
    "authors": Drawn(1800, 15, 9, 0.90, 2.6, 3, 0.6, 0.7, 2500, 60, 0.20, 0.10),
    "wiki": Drawn(1600, 10, 36, 0.75, 2.1, 4, 0.6, 0.8, 300, noise=2.0),
    "weak words": Drawn(1600, 7, 5, 0.89, 2.6, 5, words=20, topic=0.05, community_topic=0.05),
    "citations": Drawn(1600, 7, 4, 0.90, 2.7, 5, features=1400, words=18, topic=0.25, community_topic=0.15),
}
UNSEEN = {
    "another shop": Drawn(1800, 8, 36, 0.81, 2.2, 3, 0.7, 1.1, 500, 60, 0.10, 0.04),
    "other authors": Drawn(2000, 5, 14, 0.97, 2.5, 6, 0.6, 0.8, 3000, 40, 0.12, 0.10),
    "another wiki": Drawn(1800, 12, 24, 0.69, 2.3, 2, 0.5, 0.5, 200, noise=3.0),
    "sparse links": Drawn(1800, 6, 3.5, 0.79, 2.5, 4, features=1000, words=25, topic=0.12, community_topic=0.12),
    "weaker words": Drawn(1600, 9, 12, 0.94, 2.4, 8, 0.7, features=900, words=25, topic=0.02, community_topic=0.04),
    "strong words": Drawn(1600, 12, 7, 0.74, 2.8, 2, features=1500, words=50, topic=0.35, community_topic=0.10),
    "useless words": Drawn(1600, 6, 10, 0.85, features=60, words=5),
    "useless words and few links": Drawn(1600, 5, 4, 0.92, 2.8, 2, features=300, words=10),
}
# Other kinds, first run later still: few or dense features, very uneven classes, longer tails. Among them were a denser
# one and one of thirty classes, on which COIN was 0.8 and 0.5 below the better; these are now among CHOSEN, and the
# last three came after that.
LATER = {
    "few measurements": Drawn(1800, 6, 8, 0.85, 2.5, 3, features=8, noise=1.0),
    "measurements": Drawn(1800, 7, 6, 0.80, 2.6, 3, features=40, noise=1.5),
    "very uneven classes": Drawn(2400, 5, 8, 0.85, 2.4, 4, 0.6, 2.2, 1000, 40, 0.12, 0.08),
    "hubs": Drawn(2400, 6, 4, 0.85, 2.05, 4, features=700, words=20, topic=0.10, community_topic=0.08),
    "hubs and useless words": Drawn(2400, 6, 4, 0.85, 2.05, 4, features=200, words=8),
    "more classes": Drawn(3000, 20, 6, 0.85, 2.6, 3, 0.6, 0.4, 1200, 40, 0.15, 0.08),
    "dense catalogue": Drawn(1600, 8, 45, 0.77, 2.3, 5, 0.6, 0.6, 600, 70, 0.06, 0.03),
    "busy forum": Drawn(1600, 5, 30, 0.70, 2.2, 6, 0.4, 1.0, 120, noise=2.5),
}
# Not drawn in blocks; their settings were fixed before any method was run on them.
OTHERS = {
    "near places": Drawn(2000, 6, 8, 0.90, communities=5, features=50, noise=2.5, links="places"),
    "authors in groups": Drawn(2000, 8, 14, 0.85, 2.4, 4, 0.5, 0.8, 1500, 40, 0.12, 0.06, links="groups"),
    "growing by copies": Drawn(2200, 7, 6, 0.85, 2.5, 3, 0.6, 0.7, 1200, 25, 0.15, 0.08, links="growth"),
}
# As large as the graphs of shops and of authors that other work has, with topics that share their words.
LARGE = {
    "large shop": Drawn(7650, 8, 31, 0.83, 2.2, 5, 0.6, 0.8, 745, 90, 0.10, 0.06, focus=0.3),
    "large faculty": Drawn(12000, 15, 9, 0.81, 2.5, 4, 0.6, 0.9, 6800, 60, 0.25, 0.10, focus=0.3),
}


def _rows(name: str) -> list[list[str]]:
    with locate(name).open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def _news() -> Given:
    """Items of news, linked where their texts share words; the features are words of the titles."""
    rows = _rows("text/ag_news_test.csv")
    links = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit_transform([text for _, _, text in rows])
    features = CountVectorizer(binary=True, min_df=2).fit_transform([title for _, title, _ in rows])
    return np.array([int(code) - 1 for code, _, _ in rows]), sp.csr_array(links), sp.csr_array(features, dtype=float)


def _questions() -> Given:
    """Customers' questions of 25 kinds, linked where they share words, which are also the features."""
    rows = _rows("text/banking77_train.csv")[1:]
    codes = np.unique([kind for _, kind in rows], return_inverse=True)[1]
    kept = np.flatnonzero(np.argsort(np.argsort(-np.bincount(codes), kind="stable"))[codes] < 25)
    words = [rows[place][0] for place in kept]
    links = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)).fit_transform(words)
    features = CountVectorizer(binary=True, min_df=2).fit_transform(words)
    labels = np.unique(codes[kept], return_inverse=True)[1]
    return labels, sp.csr_array(links), sp.csr_array(features, dtype=float)


def _handwriting() -> Given:
    """Digits, linked where their upper halves are alike; the features are the lower halves' pixels."""
    pixels, digits = mnist.images()
    chosen = np.random.default_rng(7).permutation(len(digits))[:2500]
    points = pixels[chosen] / 255
    return digits[chosen], sp.csr_array(points[:, :392]), sp.csr_array(points[:, 392:])


# Of real things: links and features are as they are, and what they say of the classes is nobody's setting.
REAL = {"news": _news, "questions": _questions, "handwriting": _handwriting}
# Nearest others that each is linked to.
_NEAREST = 6

GROUPS: dict[str, Mapping[str, Drawn | Callable[[], Given]]] = {
    "unseen": {**UNSEEN, **LATER, **OTHERS, **LARGE, **REAL},
    "chosen on": CHOSEN,
}
GRAPHS = {name: settings for group in GROUPS.values() for name, settings in group.items()}


def make(name: str) -> NodeDataset:
    """A graph by its name, its largest component."""
    settings = GRAPHS[name]
    if isinstance(settings, Drawn):
        return draw(name, settings, seed=7)
    labels, compared, features = settings()
    near = NearestNeighbors(n_neighbors=_NEAREST + 1, metric="cosine").fit(compared)
    links = sp.csr_array(near.kneighbors_graph() > 0, dtype=float)
    return largest_component(NodeDataset(name, sp.csr_array(links.maximum(links.T)), features, labels))


def draw(name: str, settings: Drawn, seed: int) -> NodeDataset:
    """A graph with these settings, its largest component."""
    chance, n, c = np.random.default_rng(seed), settings.nodes, settings.classes
    shares = np.arange(1, c + 1) ** -settings.skew
    labels = chance.choice(c, n, p=shares / shares.sum())
    for label in range(c):
        lacking = _LEAST - int((labels == label).sum())
        if lacking > 0:
            largest = np.flatnonzero(labels == np.bincount(labels).argmax())
            labels[chance.choice(largest, lacking, replace=False)] = label
    community = labels * settings.communities + chance.integers(0, settings.communities, n)
    sources, targets = _LINKS[settings.links](settings, labels, community, chance)
    links = sp.csr_array((np.ones(len(sources)), (sources, targets)), shape=(n, n))
    links = sp.csr_array(((links + links.T) > 0).astype(np.float64))
    links.setdiag(0)
    links.eliminate_zeros()
    features = (
        _words(settings, labels, community, chance) if settings.words else _dense(settings, labels, community, chance)
    )
    # Some nodes are not what their links and features say.
    other = chance.random(n) < 0.06
    labels[other] = chance.choice(c, int(other.sum()), p=shares / shares.sum())
    return largest_component(NodeDataset(name, links, features, labels.astype(np.int64)))


def _pull(settings: Drawn, chance: np.random.Generator) -> NDArray[np.float64]:
    """How strongly each node draws links, with a heavy tail."""
    return np.minimum((1 - chance.random(settings.nodes)) ** (-1 / (settings.tail - 1)), np.sqrt(settings.nodes))


def _blocks(
    settings: Drawn, labels: NDArray[np.int64], community: NDArray[np.int64], chance: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n, c, pull = len(labels), settings.classes, _pull(settings, chance)

    def partners(members: NDArray[np.int64], number: int) -> NDArray[np.int64]:
        return chance.choice(members, number, p=pull[members] / pull[members].sum())

    sources = chance.choice(n, int(0.575 * n * settings.degree), p=pull / pull.sum())
    targets = np.empty_like(sources)
    # Nodes differ in how far they keep to their class: the few labels of some are misleading whatever a method does.
    keeps = chance.beta(1.2 * settings.homophily, 1.2 * (1 - settings.homophily), n)
    stays = chance.random(len(sources)) < keeps[sources]
    inside = stays & (chance.random(len(sources)) < settings.within)
    liking = chance.random((c, c)) ** 2 * (1 - np.eye(c))
    liking = (liking + liking.T) * np.bincount(labels, minlength=c)
    goal = labels[sources].copy()
    for label in range(c):
        leaving = np.flatnonzero(~stays & (goal == label) & (labels[sources] == label))
        goal[leaving] = chance.choice(c, len(leaving), p=liking[label] / liking[label].sum())
    for label in range(c):
        here = np.flatnonzero(~inside & (goal == label))
        targets[here] = partners(np.flatnonzero(labels == label), len(here))
    for each in np.unique(community):
        here = np.flatnonzero(inside & (community[sources] == each))
        targets[here] = partners(np.flatnonzero(community == each), len(here))
    return sources, targets


def _places(
    settings: Drawn, labels: NDArray[np.int64], community: NDArray[np.int64], chance: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n, each = len(labels), round(settings.degree / 2)
    centres = chance.random((settings.classes * settings.communities, 2))
    place = centres[community] + 0.05 * chance.normal(size=(n, 2))
    near = cKDTree(place).query(place, k=each + 1)[1][:, 1:].ravel()
    anywhere = chance.random(n * each) > settings.homophily
    near[anywhere] = chance.integers(0, n, int(anywhere.sum()))
    return np.repeat(np.arange(n), each), near


def _groups(
    settings: Drawn, labels: NDArray[np.int64], community: NDArray[np.int64], chance: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pull, pairs, count = _pull(settings, chance), [], 0
    while count < 0.5 * len(labels) * settings.degree:
        first, kind = chance.choice(len(labels), p=pull / pull.sum()), chance.random()
        members = np.arange(len(labels))
        if kind < settings.homophily:
            own = community if kind < settings.homophily * settings.within else labels
            members = np.flatnonzero(own == own[first])
        others = chance.choice(members, 1 + chance.poisson(2), p=pull[members] / pull[members].sum())
        group = np.unique(np.append(others, first))
        pairs.append(group[np.stack(np.triu_indices(len(group), 1))])
        count += pairs[-1].shape[1]
    sources, targets = np.concatenate(pairs, axis=1)
    return sources, targets


def _growth(
    settings: Drawn, labels: NDArray[np.int64], community: NDArray[np.int64], chance: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    cited: list[list[int]] = [[] for _ in labels]
    for node in range(1, len(labels)):
        for _ in range(max(1, chance.poisson(settings.degree / 2))):
            known = [far for near in cited[node] for far in cited[near]]
            if known and chance.random() < 0.5:
                cited[node].append(int(chance.choice(known)))
                continue
            members = np.arange(node)
            if chance.random() < settings.homophily:
                own = community if chance.random() < settings.within else labels
                same = np.flatnonzero(own[:node] == own[node])
                members = same if same.size else members
            cited[node].append(int(chance.choice(members)))
    sources = np.repeat(np.arange(len(labels)), [len(each) for each in cited])
    return sources, np.array([target for each in cited for target in each])


_LINKS = {"blocks": _blocks, "places": _places, "groups": _groups, "growth": _growth}


def _words(
    settings: Drawn, labels: NDArray[np.int64], community: NDArray[np.int64], chance: np.random.Generator
) -> sp.csr_array:
    n, p = len(labels), settings.features
    common = chance.dirichlet(np.full(p, 0.3))
    of_class = chance.dirichlet(np.full(p, settings.focus), settings.classes)
    of_community = chance.dirichlet(np.full(p, settings.focus), settings.classes * settings.communities)
    lengths = np.maximum(3, chance.poisson(settings.words * chance.gamma(4, 0.25, n)))
    rest = 1 - settings.topic - settings.community_topic
    found = sp.lil_array((n, p))
    for node in range(n):
        mixture = rest * common + settings.topic * of_class[labels[node]]
        mixture = mixture + settings.community_topic * of_community[community[node]]
        found[node, np.unique(chance.choice(p, lengths[node], p=mixture / mixture.sum()))] = 1.0
    return sp.csr_array(found)


def _dense(
    settings: Drawn, labels: NDArray[np.int64], community: NDArray[np.int64], chance: np.random.Generator
) -> sp.csr_array:
    size = 64
    centres = chance.normal(size=(settings.classes, size))[labels]
    centres += 0.7 * chance.normal(size=(settings.classes * settings.communities, size))[community]
    hidden = centres + settings.noise * chance.normal(size=(len(labels), size))
    return sp.csr_array(np.tanh(hidden @ chance.normal(size=(size, settings.features)) / np.sqrt(size)))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--splits", type=int, default=2)
    asked.add_argument("--graphs", default=",".join(GRAPHS))
    asked.add_argument("--methods", default=",".join(METHODS))
    asked.add_argument("--out", type=Path, default=Path("results/own-graphs"))
    options = asked.parse_args()
    torch.set_num_threads(1)
    file = options.out / "runs.jsonl"
    runs = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    known = {(run["graph"], run["split"], run["method"]) for run in runs}
    for name in options.graphs.split(","):
        dataset = make(name)
        for seed, split in random_splits(dataset.labels, options.splits).items():
            given = problem(dataset, split)
            for method in options.methods.split(","):
                if (name, seed, method) in known:
                    continue
                started = time.process_time()
                if method == "COINClassifier":
                    answers, chosen = _classified(dataset, split)
                else:
                    outcome = REGISTRY.get(method).recommended(name).solve(given, seed)
                    answers, chosen = outcome.scores.argmax(-1).numpy(), dict(outcome.chosen)
                seconds = time.process_time() - started
                right = answers == dataset.labels
                measured = {"accuracy": 100 * float(right[split.test].mean()), "seconds": round(seconds, 2)}
                runs.append({"graph": name, "split": seed, "method": method, **measured, "chosen": chosen})
                write_text(file, "".join(f"{json.dumps(run)}\n" for run in runs))
    text = f"{_table(runs)}\n\n{provenance_line('python benchmarks/own_graphs.py')}\n"
    write_text(options.out / "README.md", text)
    print(text)


def _classified(dataset: NodeDataset, split: Split) -> tuple[NDArray[np.int64], dict[str, float]]:
    """What the estimator answers with every default, and the diffusion that it chose."""
    labels = np.full(len(dataset.labels), -1)
    known = np.concatenate([split.train, split.validation])
    labels[known] = dataset.labels[known]
    model = COINClassifier(graph="precomputed").fit(dataset.features, labels, adjacency=dataset.adjacency)
    return model.transduction_, {"layers": model.layers_, "strength": model.strength_}


def _table(runs: list[dict[str, object]]) -> str:
    """Mean accuracies, and how far ours are from the better of the two others; processor seconds per run."""
    groups: dict[tuple[object, object], list[dict[str, object]]] = defaultdict(list)
    for run in runs:
        groups[run["graph"], run["method"]].append(run)

    def mean(graph: str, method: str, what: str) -> float:
        return float(np.mean([float(str(run[what])) for run in groups[graph, method]]))

    lines = [
        f"| graph | splits | {' | '.join(METHODS)} | less the better | seconds |",
        "| --- " + "| ---: " * (len(METHODS) + 3) + "|",
    ]
    for heading, settings in GROUPS.items():
        for graph in settings:
            if any(not groups[graph, method] for method in METHODS):
                continue
            means = [mean(graph, method, "accuracy") for method in METHODS]
            seconds = " / ".join(f"{mean(graph, method, 'seconds'):.1f}" for method in METHODS)
            ahead = ", ".join(f"{each - max(means[: -len(OURS)]):+.1f}" for each in means[-len(OURS) :])
            cells = [*(f"{each:.1f}" for each in means), ahead, seconds]
            lines.append(f"| {graph} ({heading}) | {len(groups[graph, 'COIN'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
