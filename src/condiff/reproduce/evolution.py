"""How COIN's output evolves on a plane: u(x, 0), u(x, T-1) and u(x, T), and its flow over the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_circles, make_moons

from condiff.bases import Residual
from condiff.diffusion import Diffusion, diffusion_time
from condiff.diffusion.flow import Flow
from condiff.errors import InvalidInputError, did_you_mean
from condiff.estimators.domain import follow
from condiff.graph import Laplacian
from condiff.graph.weights import PointGraph
from condiff.model import COIN
from condiff.training import Problem, Training, fit

Floats = NDArray[np.float64]

PLANES = ("two moons", "two circles")
_POINTS, _LABELS_PER_CLASS = 400, 3
# A long fit teaches the network what the diffusion knows; an early stop shows the part of each.
_WIDTH, _EPOCHS = 64, 16
# Degrees of freedom that the diffusion leaves: little more than the two shapes.
_DIMENSION = 4.0


@dataclass(frozen=True, eq=False)
class Evolution:
    """A COIN that was fitted on points of the plane with a few labels.

    Attributes
    ----------
    name
        One of :data:`PLANES`.
    points, truth, shown
        Coordinates (n, 2), classes 0 and 1, and the indices of the labelled points.
    model, operator
        The network, and the Laplacian of the graph that it diffuses over.
    links
        Edges of the graph, (edges, 2), each once.
    """

    name: str
    points: Floats
    truth: NDArray[np.int64]
    shown: NDArray[np.int64]
    model: COIN
    operator: Laplacian
    links: NDArray[np.int64]
    _graph: PointGraph

    def stages(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """The probability of class 1 at any points, at the three times.

        The linear classifier on the plane itself; the residual network, which is the classifier after the convection;
        and the diffused output, which new points get by following their neighbours, as ``COINClassifier`` answers.
        """
        network = self.model.convection
        assert isinstance(network, Residual)
        x = torch.as_tensor(at)
        with torch.no_grad():
            linear = torch.softmax(network.readout(network.lift(x)), dim=1).numpy()
            at_nodes, convected = (self.model.base(points).numpy() for points in (torch.as_tensor(self.points), x))
        weights = self._graph.rows_of(self.points, at)
        strength = self.model.diffusion.strength_on(self.operator)
        flow = Flow(self._graph.graph, self.layers, float(strength))
        diffused = follow(flow, at_nodes, convected, weights)
        return linear[:, 1], convected[:, 1], diffused[:, 1]

    def flow(self, layers: Sequence[int]) -> Floats:
        """The probability of class 1 at the points after these numbers of diffusion layers, (len(layers), n)."""
        diffusion = self.model.diffusion
        with torch.no_grad():
            u0 = self.model.base(torch.as_tensor(self.points))
            outputs = [Diffusion(layer, diffusion.strength)(u0, self.operator)[:, 1] for layer in layers]
        return torch.stack(outputs).numpy()

    @property
    def layers(self) -> int:
        """Diffusion layers of the network."""
        return self.model.diffusion.layers


def evolve(name: str, seed: int = 1) -> Evolution:
    """Draw the points, show a few labels, and fit: the same seed gives the same network."""
    points, truth = _plane(name, seed)
    generator = np.random.default_rng(seed)
    shown = np.concatenate(
        [generator.choice(np.flatnonzero(truth == label), _LABELS_PER_CLASS, replace=False) for label in (0, 1)]
    )
    graph = PointGraph.build(points, 12, 6, tuning="pair")
    operator = graph.graph.laplacian(torch.float64)
    strength = 1.0 / float(operator.diagonal.max())
    layers = math.ceil(diffusion_time(operator, _DIMENSION) / strength)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = COIN(Residual(2, 2, width=_WIDTH), Diffusion(layers, strength)).double()
        settings = Training("adam", 0.03, epochs=_EPOCHS, patience=None)
        fit(Problem(model, points, operator, truth, shown, settings=settings))
    rows, columns = graph.graph.weights.nonzero()
    links = np.stack([rows, columns], axis=1)[rows < columns]
    return Evolution(name, points, truth, shown, model, operator, links, graph)


def _plane(name: str, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    if name == "two moons":
        points, truth = make_moons(_POINTS, noise=0.07, random_state=seed)
    elif name == "two circles":
        points, truth = make_circles(_POINTS, noise=0.05, factor=0.45, random_state=seed)
    else:
        raise InvalidInputError(f"unknown plane {name!r}{did_you_mean(name, PLANES)}: known are {', '.join(PLANES)}")
    centred = points - points.mean(axis=0)
    return centred / np.sqrt(centred.var(axis=0).mean()), truth
