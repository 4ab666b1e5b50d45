"""Few-shot tasks of the paper's shape: 5 classes, 15 queries each, one or five examples per class."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from condiff.diffusion import Diffusion
from condiff.graph import DenseLaplacian
from condiff.graph.batch import kernel_laplacians
from condiff.model import COIN
from condiff.reproduce.bench.speed.workload import Workload
from condiff.training import FEW_SHOT, Problem, fit

WAYS, _QUERIES, _STRENGTH = 5, 15, 0.5
_TASKS = 40
# Those of the paper's WRN, and of EfficientNet-Lite0.
_FEATURES, _WIDE = 640, 1280
# What the paper's code takes for a 1-shot task on an RTX 3090.
_GPU_SECONDS = {1: 0.18}


def workloads() -> list[Workload]:
    """1-shot with 10 layers and 5-shot with 4, as in the paper."""
    return [workload(shots, features) for features in (_FEATURES, _WIDE) for shots in (1, 5)]


def n_points(shots: int) -> int:
    """The points of a task, labelled or not."""
    return WAYS * (shots + _QUERIES)


def workload(shots: int, features: int = _FEATURES) -> Workload:
    """Tasks with this many examples per class, in features of this width."""
    # Times do not depend on the values: clusters of about the overlap that image features have.
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n_points(shots)) % WAYS
    centres = torch.randn(_TASKS, WAYS, features, generator=generator)
    x = 0.35 * centres[:, labels] + torch.randn(_TASKS, len(labels), features, generator=generator)
    x = torch.nn.functional.normalize(x, dim=-1)
    diffusion = Diffusion(10 if shots == 1 else 4, _STRENGTH)
    return Workload(
        f"fewshot {shots}-shot" + (f" {features}" if features != _FEATURES else ""),
        f"a task of {len(labels)} points with {features} features, graph and fit, one at a time",
        FEW_SHOT.epochs,
        partial(_one_by_one, x[:2], labels, shots * WAYS, diffusion),
        partial(_together, x, labels, shots * WAYS, diffusion),
        reference_fits=2,
        engine_fits=_TASKS,
        published_gpu_seconds=_GPU_SECONDS.get(shots) if features == _FEATURES else None,
    )


def _one_by_one(x: Tensor, labels: Tensor, n_labelled: int, diffusion: Diffusion, epochs: int) -> Tensor:
    outputs = []
    settings = replace(FEW_SHOT, epochs=max(epochs, 1))
    for seed, points in enumerate(x):
        torch.manual_seed(seed)
        model = COIN.build(x.shape[-1], WAYS, layers=diffusion.layers, strength=_STRENGTH)
        operator = DenseLaplacian(kernel_laplacians(points[None]).weights[0], symmetric=True)
        train = torch.arange(n_labelled)
        fit(Problem(model, points, operator, labels, train, settings=settings), "reference")
        with torch.no_grad():
            outputs.append(model(points, operator))
    return torch.stack(outputs)[0]


def _together(x: Tensor, labels: Tensor, n_labelled: int, diffusion: Diffusion, epochs: int) -> Tensor:
    with torch.device("meta"):
        model = COIN.build(x.shape[-1], WAYS, layers=diffusion.layers, strength=_STRENGTH)
    settings, train = replace(FEW_SHOT, epochs=max(epochs, 1)), torch.arange(n_labelled)
    operators = [DenseLaplacian(graph, symmetric=True) for graph in kernel_laplacians(x).weights]
    first = Problem(model, x[0], operators[0], labels, train, settings=settings)
    problems = [
        first.replace(x=points, graph=operator, seed=seed)
        for seed, (points, operator) in enumerate(zip(x, operators, strict=True))
    ]
    return torch.stack([fitted.diffused for fitted in fit(problems, "gram")])[0]
