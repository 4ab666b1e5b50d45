"""Exact nearest neighbours: seconds and peak memory beside scikit-learn's brute force, in one run.

    python benchmarks/neighbours.py [--sizes 5000,20000,50000]

Each is measured in a process of its own, one thread, 64 features in double precision, 12 neighbours.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch


def measure(job):
    name, n = job
    torch.set_num_threads(1)
    points = np.random.default_rng(0).normal(size=(n, 64))
    if name == "condiff":
        from condiff.graph import nearest

        def search(x):
            return nearest(x, 12, search="exact")
    else:
        from sklearn.neighbors import NearestNeighbors

        def search(x):
            return NearestNeighbors(n_neighbors=12, algorithm="brute").fit(x).kneighbors(x)

    search(points[:500])  # imports and warm-up
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    search(points)
    return time.perf_counter() - started, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="5000,20000,50000")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    print("points   condiff s   MB   scikit-learn s   MB   ratio of seconds")
    for n in sizes:
        found = []
        for name in ("condiff", "scikit-learn"):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found.append(pool.submit(measure, (name, n)).result())
        (ours, our_memory), (theirs, their_memory) = found
        print(f"{n:6d}   {ours:9.2f} {our_memory:4.0f}   {theirs:14.2f} {their_memory:4.0f}   {theirs / ours:.2f}")


if __name__ == "__main__":
    main()
