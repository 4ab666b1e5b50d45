"""One measurement in a process of its own, so that its memory is its own and it can be stopped when it takes too long.

Run as ``python -m condiff.reproduce.bench.scale.job '{"method": "COIN", "points": 62500, "threads": 2}'``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from condiff import kernels
from condiff.errors import MissingDependencyError
from condiff.files import atomic_path
from condiff.graph import Graph
from condiff.reproduce.bench.scale.methods import METHODS, shared_graph
from condiff.reproduce.bench.scale.points import Points, make_points
from condiff.reproduce.bench.scale.products import EDGES, NODES, diffuse_products


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job; its result has ``status`` ok, memory or missing."""
    torch.set_num_threads(int(job["threads"]))
    if "memory_gb" in job:
        limit = int(job["memory_gb"] * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    kernels.warm_up(("bases", "diffusion"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _measured(job)
    except MissingDependencyError as error:
        return job | {"status": "missing", "reason": str(error)}
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        return job | {"status": "memory", "reason": str(error).splitlines()[0] if str(error) else "no memory left"}
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return job | found | {"status": "ok", "memory_mb": peak}


def _measured(job: dict[str, Any]) -> dict[str, Any]:
    if job["method"] == "products":
        return diffuse_products(job.get("nodes", NODES), job.get("edges", EDGES))
    points = make_points(int(job["points"]))
    method, takes_graph = METHODS[job["method"]]
    if not takes_graph:
        return method(points) | {"best_accuracy": points.best_accuracy}
    graph, seconds = _graph(points, Path(job["folder"]))
    found = method(points, graph)
    return found | {
        "seconds": found["seconds"] + seconds,
        "seconds_graph": seconds,
        "best_accuracy": points.best_accuracy,
    }


def _graph(points: Points, folder: Path) -> tuple[Graph, float]:
    """The shared graph of this many points, made by the first job that needs it, and the seconds that it took."""
    path = folder / f"graph-{len(points.x)}.npz"
    if not path.exists():
        started = time.perf_counter()
        weights = shared_graph(points).weights
        seconds = time.perf_counter() - started
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, data=weights.data, indices=weights.indices, indptr=weights.indptr, seconds=seconds)
    with np.load(path, allow_pickle=False) as parts:
        n = len(points.x)
        weights = sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(n, n))
        return Graph(weights), float(parts["seconds"])


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
