"""Rows of classes that have no label: how well scores find them, over tables that no default was chosen on.

    python benchmarks/out_of_scope.py [--draws 5] [--labels 5] [--rows 500] [--out results/out-of-scope/scores.csv]

A quarter of the classes, drawn at random, gets no label; the others get a few each. Scores are those of
``COINClassifier.out_of_scope``, one less its largest probability, the energy of a logistic regression on the same
labels (Liu et al., 2020), and the distance to the nearest label (Sun et al., 2022). AUROC, and the share of rows in
scope that are taken for others where 95 % of the others are found.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from condiff import COINClassifier
from condiff.files import write_text
from condiff.reproduce.datasets.ordinary_tables import distinct_tables, may_choose, seed_of
from condiff.reproduce.protocols.tables import load

SCORES = ("out of scope", "largest probability", "energy", "distance to a label")


def tables() -> list[str]:
    """Tables with four classes or more that no default was chosen on."""
    return [name for name in distinct_tables("classes") if not may_choose(name) and load(name).n_classes >= 4]


def measure(name: str, draw: int, labels: int, rows: int) -> dict[str, tuple[float, float]]:
    """AUROC and false positives of every score on one draw of classes and labels."""
    table, generator = load(name), np.random.default_rng(seed_of(name, "scope", draw))
    some = generator.permutation(len(table.target))[:rows]
    x, y = table.x[some], table.target[some]
    classes = [code for code in range(table.n_classes) if (y == code).sum() > labels]
    unknown = generator.permutation(classes)[: max(1, len(classes) // 4)]
    known = np.concatenate(
        [generator.permutation(np.flatnonzero(y == code))[:labels] for code in classes if code not in unknown]
    )
    given = np.full(len(y), -1)
    given[known] = y[known]
    test = np.setdiff1d(np.flatnonzero(np.isin(y, classes)), known)
    model = COINClassifier().fit(x, given)
    linear = LogisticRegression(max_iter=500).fit(x[known], y[known])
    decision = linear.decision_function(x)
    logits = np.column_stack([-decision, decision]) / 2 if decision.ndim == 1 else decision
    found = {
        "out of scope": model.out_of_scope(x),
        "largest probability": 1 - model.predict_proba(x).max(axis=1),
        "energy": -logsumexp(logits, axis=1),
        "distance to a label": NearestNeighbors(n_neighbors=1).fit(x[known]).kneighbors(x)[0][:, 0],
    }
    outside = np.isin(y[test], unknown)
    return {score: judged(outside, values[test]) for score, values in found.items()}


def judged(outside: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """AUROC, and false positives where 95 % are found, both in percent."""
    limit = np.quantile(scores[outside], 0.05)
    return 100 * float(roc_auc_score(outside, scores)), 100 * float((scores[~outside] >= limit).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labels", type=int, default=5, help="per class")
    parser.add_argument("--rows", type=int, default=500, help="of a table, at most")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    lines, means = ["table,draw,score,auroc,false_positives"], {score: [] for score in SCORES}
    for name in tables():
        found = [measure(name, draw, wanted.labels, wanted.rows) for draw in range(wanted.draws)]
        for score in SCORES:
            means[score].append(np.mean([each[score] for each in found], axis=0))
            lines += [
                f"{name},{draw},{score},{each[score][0]:.2f},{each[score][1]:.2f}" for draw, each in enumerate(found)
            ]
        print(name, {score: means[score][-1].round(1).tolist() for score in SCORES}, flush=True)
    n_tables = len(means[SCORES[0]])
    print(
        f"\n{n_tables} tables, {wanted.draws} draws each; behind ± the standard error of what is gained over the tables"
    )
    print("| score | AUROC | false positives at 95 % | AUROC below the first |\n| --- | --- | --- | --- |")
    for score in SCORES:
        auroc, false = np.mean(means[score], axis=0)
        behind = np.array(means[SCORES[0]])[:, 0] - np.array(means[score])[:, 0]
        error = behind.std(ddof=1) / np.sqrt(n_tables)
        print(f"| {score} | {auroc:.1f} | {false:.1f} | {behind.mean():.1f} ± {error:.1f} |")
    if wanted.out is not None:
        wanted.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(wanted.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
