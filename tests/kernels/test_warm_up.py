"""After a warm-up nothing is left to compile while a clock runs: loops are called with the types that they announce."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

# In a process of its own, where nothing but these calls has compiled anything.
_CALLS = """
from importlib import import_module
import numpy as np, scipy.sparse as sp, torch
from sklearn.datasets import load_digits
from tests.reproduce.baselines.fewshot.few_shot_tasks import small, task
from condiff import COINClassifier, kernels
from condiff.bases.forest import Forest
from condiff.graph import Graph
from condiff.graph.leaves import LeafGraph
from condiff.graph import steps
from condiff.kernels import compilation, conjugate
from condiff.reproduce.baselines.lowlabels.plaplace import Stiffness
from condiff.reproduce.baselines.node.coin import COIN
from condiff.reproduce.baselines.node.diff_resnet import DiffResNet
from condiff.reproduce.baselines.node.gcde import GCDE
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.engines import streamed

n = 40
ring = Graph.of(sp.diags_array([1.0] * 4, offsets=[1, -1, n - 1, 1 - n], shape=(n, n)).tocsr())
words = sp.csr_array(np.eye(n, 9))
parts = torch.arange(n).split(10)
problem = NodeProblem("ring", ring, words, torch.arange(n) % 2, 2, parts[0], parts[1])
kernels.warm_up = lambda *_: None
for method in (COIN(), DiffResNet(), GCDE()):
    method.solve(problem, 0)
for method in ("coin", "diff-resnet", "tim"):
    small(method, 2).solve(task()[0], 0)
steps.euler_layers(ring.laplacian(), torch.rand(n, 3), 0.1, 2)
steps.COMPILED_FROM, steps._PRODUCT_FROM = 0, 0
steps.chebyshev_series(ring.laplacian(), torch.rand(n, 3), torch.rand(4), 2.0)
steps.COMPILED_FROM, steps._PRODUCT_FROM = 5_000, 20_000
rows = [np.ones((4, 16), np.float32) for _ in range(7)]
conjugate.add_dots(*rows[:3])
conjugate.go_along(*rows[:6])
conjugate.go_along_scaled(*rows)
conjugate.turn(*rows[:3])
conjugate.turn_scaled(*rows[:4])
Stiffness(ring.weights, np.ones((n, 16), np.float32), 3.0)(np.ones((n, 16), np.float32), np.arange(1))
x, y = load_digits(return_X_y=True)
streamed.STREAMED_FROM = 0
COINClassifier(epochs=2, device="cpu").fit(x[:300], np.where(np.arange(300) < 100, y[:300], -1))

forest = Forest.grow(x[:30], np.eye(10)[y[:30]], np.ones(30), n_trees=3, n_tried=4, fewest=1, seed=0)
LeafGraph.build(forest.leaves(x[:30]), 4)

modules = [import_module(f"condiff.kernels.{name}") for name in kernels.LOOPS]
entries = [entry for module in modules for entry in compilation.entries(module)]
called = [entry.signatures for entry in entries]
for entry in entries:
    entry._reset_overloads()
for module in modules:
    compilation.compile_entries(module, "float32")
for entry, types in zip(entries, called):
    assert types == entry.signatures, f"{entry} was called with {types}, not {entry.signatures}"
"""


def test_loops_are_called_with_the_types_that_they_announce():
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", _CALLS], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
