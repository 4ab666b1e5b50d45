"""Citation graphs: one fit of COIN of the paper's length."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from condiff.graph import DenseLaplacian, Laplacian
from condiff.model import COIN
from condiff.reproduce.baselines.node.coin import COIN as Method
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.bench.speed.workload import Workload
from condiff.reproduce.protocols import node
from condiff.reproduce.published import published
from condiff.reproduce.splits import random_split
from condiff.training import Problem, fit

#: Nodes up to which the paper's code keeps the Laplacian dense.
_DENSE = 3000


def workloads() -> list[Workload]:
    """Cora, Citeseer and Pubmed."""
    return [workload(name) for name in ("cora", "citeseer", "pubmed")]


def workload(name: str) -> Workload:
    """That of one graph."""
    dataset = node.load(name)
    problem = node.problem(dataset, random_split(dataset.labels, 0))
    operator = problem.graph.normalised(self_loops="add").laplacian()
    plain: Laplacian = operator
    if problem.n_nodes <= _DENSE:
        plain = DenseLaplacian(torch.from_numpy(problem.graph.normalised(self_loops="add").weights.toarray()).float())
    to_converge, an_epoch = (published("node", name, "COIN", f"seconds_{kind}_rtx3090") for kind in _PUBLISHED)
    assert to_converge is not None and an_epoch is not None
    return Workload(
        f"node {name}",
        f"a fit of COIN on {name}, {'dense' if plain is not operator else 'sparse'} Laplacian, dense features",
        round(to_converge.value / an_epoch.value),
        partial(_fit, problem, plain, "reference"),
        partial(_fit, problem, operator, "auto"),
        reference_epochs=(2, 8),
        published_gpu_seconds=to_converge.value,
    )


_PUBLISHED = ("to_converge", "per_epoch")


def _fit(problem: NodeProblem, operator: Laplacian, engine: Literal["auto", "reference"], epochs: int) -> Tensor:
    method = Method.recommended(problem.dataset)
    torch.manual_seed(0)
    model = COIN.build(problem.n_features, problem.n_classes, layers=method.layers, strength=method.strength)
    # Never stopping early: both ways then do the same work.
    settings = replace(method.training, epochs=max(epochs, 1), patience=epochs + 1)
    x = problem.x if engine == "auto" else problem.x_dense
    task = Problem(model, x, operator, problem.labels, problem.train, validation=problem.validation, settings=settings)
    fit(task, engine)
    with torch.no_grad():
        return model.diffusion(model.base(problem.x_csr), operator)  # type: ignore[no-any-return]
