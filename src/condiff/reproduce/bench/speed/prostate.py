"""Prostate cancer: the graph of a pretrained network's first layer, and a fit of COIN on it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condiff.bases.genewise import GeneWise, first_layer_distances
from condiff.diffusion import Diffusion
from condiff.graph import Graph
from condiff.graph.weights import distance_graph
from condiff.model import COIN
from condiff.reproduce.bench.speed.workload import Workload
from condiff.reproduce.datasets import prostate
from condiff.reproduce.datasets.gene_table import GeneTable
from condiff.training import PROSTATE, Problem, fit

_NEIGHBOURS, _BANDWIDTH_RANK, _LAYERS, _STRENGTH = 40, 20, 40, 0.2


def workloads() -> list[Workload]:
    """One: the first published split, with the network for the graph given."""
    table = prostate.load()
    pretrained = _network(table, 0)
    train = table.splits[0].train
    fit(Problem(pretrained, table.features, None, _target(table), train, settings=PROSTATE))
    assert isinstance(pretrained.convection, GeneWise)
    return [
        Workload(
            "prostate",
            f"graph and fit of COIN on {len(table.patients):,} patients x {table.features.shape[1]:,} dense features",
            PROSTATE.epochs,
            partial(_plainly, table, pretrained.convection),
            partial(_sparsely, table, pretrained.convection),
        )
    ]


def _sparsely(table: GeneTable, pretrained: GeneWise, epochs: int) -> Tensor:
    model, graph = _network(table, _LAYERS), _graph(first_layer_distances(pretrained, table.features), table)
    settings = replace(PROSTATE, epochs=epochs)
    fit(Problem(model, table.features, graph, _target(table), table.splits[0].train, settings=settings))
    return _outputs(model, table, graph)


def _plainly(table: GeneTable, pretrained: GeneWise, epochs: int) -> Tensor:
    inputs = torch.from_numpy(table.features.toarray()).float()
    with torch.no_grad():
        # In blocks of rows: all differences at once, as in the paper's code, would take more than 30 GB.
        hidden = pretrained.first_layer(inputs).double()
        distances = torch.cat([(rows[:, None] - hidden).norm(dim=-1) for rows in hidden.split(8)])
    model, graph = _network(table, _LAYERS), _graph(((distances + distances.mT) / 2).numpy(), table)
    settings = replace(PROSTATE, epochs=epochs)
    fit(Problem(model, inputs, graph, _target(table), table.splits[0].train, settings=settings), "reference")
    return _outputs(model, table, graph)


def _network(table: GeneTable, layers: int) -> COIN:
    torch.manual_seed(0)
    base = GeneWise(len(table.genes), len(table.kinds))
    return COIN(base, Diffusion(layers, _STRENGTH), head="sigmoid")


def _target(table: GeneTable) -> Tensor:
    return torch.from_numpy(table.labels).float()


def _graph(distances: NDArray[np.float64], table: GeneTable) -> Graph:
    split = table.splits[0]
    joined = np.concatenate([split.train, split.test])
    return distance_graph(distances, _NEIGHBOURS, _BANDWIDTH_RANK, among=joined)


@torch.no_grad()
def _outputs(model: COIN, table: GeneTable, graph: Graph) -> Tensor:
    outputs: Tensor = model(torch.from_numpy(table.features.toarray()).float(), graph)
    return outputs
