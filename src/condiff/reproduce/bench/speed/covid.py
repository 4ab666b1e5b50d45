"""COVID-19 with 90 % of the entries hidden: ten initialisations of COIN on the ten training days."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from condiff.bases import Bottleneck
from condiff.diffusion import Diffusion
from condiff.graph import DenseLaplacian
from condiff.graph.batch import directed_laplacians
from condiff.model import COIN
from condiff.reproduce.bench.speed.workload import Workload
from condiff.reproduce.datasets import covid
from condiff.reproduce.datasets.panel import split_in_time
from condiff.training import COVID, Problem, fit

_INITS = 10


def workloads() -> list[Workload]:
    """One: 10 layers of strength 0.5, dropout 0.25 before each."""
    panel = covid.load().standardised()
    windows = panel.hidden(0.9, 0).windows(covid.LAGS)
    train = split_in_time(len(windows.days))[0]
    operator = directed_laplacians([panel.weights[day] for day in windows.days[train]])
    x = torch.from_numpy(windows.inputs[train]).float()
    target = torch.from_numpy(windows.targets[train]).float()
    return [
        Workload(
            "covid",
            f"a fit of COIN on {len(x)} days of {x.shape[1]} regions, day by day",
            COVID.epochs,
            partial(_one_by_one, x, operator, target),
            partial(_together, x, operator, target),
            engine_fits=_INITS,
        )
    ]


def _network(seed: int) -> COIN:
    torch.manual_seed(seed)
    return COIN(Bottleneck(covid.LAGS, 16, 1), Diffusion(10, 0.5, dropout=0.25), head="identity")


def _one_by_one(x: Tensor, operator: DenseLaplacian, target: Tensor, epochs: int) -> Tensor:
    model = _network(0)
    settings = replace(COVID, epochs=max(epochs, 1))
    fit(Problem(model, x, operator, target, settings=settings, seed=0), "reference")
    return _outputs(model, x, operator)


def _together(x: Tensor, operator: DenseLaplacian, target: Tensor, epochs: int) -> Tensor:
    models = [_network(seed) for seed in range(_INITS)]
    problem = Problem(models[0], x, operator, target, settings=replace(COVID, epochs=max(epochs, 1)))
    fit([problem.replace(model=model, seed=seed) for seed, model in enumerate(models)])
    return _outputs(models[0], x, operator)


@torch.no_grad()
def _outputs(model: COIN, x: Tensor, operator: DenseLaplacian) -> Tensor:
    model.eval()
    outputs: Tensor = model(x, operator)
    return outputs
