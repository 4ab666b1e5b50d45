"""Fully labelled data, a part held out: COINClassifier's defaults beside logistic regression and nearest neighbours.

    python benchmarks/supervised.py [--splits 3]

70 % of each data set is fitted with all its labels, 30 % is answered as new points.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from condiff import COINClassifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3)
    splits = parser.parse_args().splits
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("data            COIN   logistic   nearest   seconds a COIN fit")
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        rows, seconds = [], []
        for split in range(splits):
            known, new, labels, truth = train_test_split(X, y, test_size=0.3, random_state=split, stratify=y)
            started = time.perf_counter()
            model = COINClassifier(base="residual").fit(known, labels)
            seconds.append(time.perf_counter() - started)
            peers = (LogisticRegression(max_iter=2000), KNeighborsClassifier())
            fitted = [make_pipeline(StandardScaler(), peer).fit(known, labels) for peer in peers]
            rows.append([(answerer.predict(new) == truth).mean() for answerer in (model, *fitted)])
        coin, logistic, nearest = 100 * np.mean(rows, axis=0)
        print(f"{name:14s} {coin:5.1f} {logistic:10.1f} {nearest:9.1f} {np.mean(seconds):20.1f}")


if __name__ == "__main__":
    main()
