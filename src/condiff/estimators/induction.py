"""Answers for points outside the graph: they follow the flow of their neighbours and do not disturb it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff.diffusion import Diffusion
from condiff.graph import Laplacian

Array = NDArray[np.float64]


def follow(diffusion: Diffusion, operator: Laplacian, at_nodes: Array, at_new: Array, weights: Any) -> Array:
    """Diffuse the base output of new points along with that of the nodes.

    Each layer moves a new point towards the weighted mean of its neighbours, as it would if it were a node: for
    explicit layers by the step ``strength * sum of weights`` from the neighbours' values before the layer; for the
    other solvers by the exact relaxation towards the mean of their values before and after it.

    Parameters
    ----------
    diffusion, operator
        The diffusion of the nodes.
    at_nodes, at_new
        Base outputs, (nodes, outputs) and (new points, outputs).
    weights
        Normalised weights of new points towards the nodes, (new points, nodes).
    """
    strength = float(diffusion.strength_on(operator))
    pull = np.asarray(weights.sum(axis=1)).ravel()
    mean = sp.csr_array(sp.diags_array(np.divide(1.0, pull, out=np.zeros_like(pull), where=pull > 0)) @ weights)
    explicit = diffusion.solver.limited
    # Past a full step the point would overshoot its neighbours.
    move = np.minimum(strength * pull, 1.0) if explicit else -np.expm1(-strength * pull)
    current = torch.as_tensor(at_nodes)
    new = at_new
    with torch.no_grad():
        for _ in range(diffusion.layers):
            following = diffusion.solver(operator, current, strength, 1)
            around = current.numpy() if explicit else (current.numpy() + following.numpy()) / 2
            new = new + move[:, None] * (mean @ around - new)
            current = following
    return new
