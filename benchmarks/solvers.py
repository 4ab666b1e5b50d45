"""The solvers beside each other: seconds, products with the Laplacian, and the error against the exact semigroup.

    python benchmarks/solvers.py [--points 5000]

A kernel graph of random clusters, 10 columns, double precision, one thread, median of three after a warm-up.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from sklearn.datasets import make_blobs

from condiff.diffusion import SOLVERS, Exact, certify
from condiff.graph import Laplacian, kernel_graph


class Counting(Laplacian):
    """Passes everything on and counts the products."""

    def __init__(self, inner):
        self.inner, self.weights, self.symmetric, self.products = inner, inner.weights, inner.symmetric, 0

    def __call__(self, u):
        self.products += 1
        return self.inner(u)

    transposed = property(lambda self: self.inner.transposed)
    n_nodes = property(lambda self: self.inner.n_nodes)
    diagonal = property(lambda self: self.inner.diagonal)

    def to(self, device=None, dtype=None):
        return self


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=5000)
    n = parser.parse_args().points
    torch.set_num_threads(1)
    graph = kernel_graph(make_blobs(n, n_features=16, centers=10, random_state=0)[0], 12, 6)
    operator, limit = graph.laplacian(torch.float64), certify(graph).positivity_limit
    u = torch.softmax(torch.randn(n, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), 1)
    print("time   solver      layers   products   seconds   largest error   seconds of euler / these")
    for total in (4.0, 20.0, 100.0):
        truth, base = Exact()(operator, u, total, 1), None
        for name, kind in SOLVERS.items():
            layers = {"euler": int(total / limit) + 1, "implicit": 10}.get(name, 1)
            counted = Counting(operator)
            kind()(counted, u, total / layers, layers)
            seconds = []
            for _ in range(3):
                started = time.perf_counter()
                answer = kind()(operator, u, total / layers, layers)
                seconds.append(time.perf_counter() - started)
            spent = statistics.median(seconds)
            base = base or spent
            error = float((answer - truth).abs().max())
            cells = f"{total:4.0f}   {name:9s} {layers:8d} {counted.products:10d} {spent:9.4f}"
            print(f"{cells} {error:15.1e}   {base / spent:.2f}")


if __name__ == "__main__":
    main()
