"""Randomised smoothing of a COIN on a given graph: how far one node's features may move."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, laplacian
from condiff.model import COIN
from condiff.theory.certificates import Certificates
from condiff.theory.multiple_testing import Correction
from condiff.theory.smoothing import SmoothedClassifier
from condiff.theory.voting import Codes, evaluating

# Nodes whose own share of the diffusion is computed at once.
_AT_ONCE = 256


class SmoothedNodes(SmoothedClassifier):
    r"""A trained COIN as a function of one node's features; all other features and the edges stay as they are.

    The diffusion is linear, :math:`u_K = P u_0`, so that the output at node :math:`i` is
    :math:`P_{ii} \, u_0(x_i) + \sum_{j \ne i} P_{ij} \, u_0(x_j)`: noise on :math:`x_i` reaches the first term alone,
    and a vote costs one pass of the base network, however large the graph.

    Parameters
    ----------
    model
        The network, with a softmax head, or a sigmoid head of one output.
    x
        Features of all nodes, (n, features).
    graph
        A Laplacian, a :class:`condiff.Graph` or the matrix L as a tensor, as :meth:`condiff.COIN.forward` takes it.
    noise, options
        As in :class:`SmoothedClassifier`; points are named by their node.
    """

    def __init__(self, model: COIN, x: Any, graph: Any, noise: float, **options: Any) -> None:
        if not isinstance(model, COIN) or model.head == "identity":
            raise InvalidInputError("model must be a COIN with a softmax or sigmoid head")
        super().__init__(model, noise, **options)
        self.model = model
        parameter = next(model.parameters())
        self._dtype, self._device = parameter.dtype, parameter.device
        self.features = super()._read(x.to_dense().detach().cpu().numpy() if isinstance(x, torch.Tensor) else x)
        self._operator: Laplacian = laplacian(graph, self._dtype, self._device)
        if self._operator.n_nodes != len(self.features):
            raise InvalidInputError(
                f"the graph has {self._operator.n_nodes} nodes, but there are features of {len(self.features)}"
            )
        with torch.no_grad(), evaluating(model):
            self._u0 = model.base(torch.as_tensor(self.features, dtype=self._dtype, device=self._device))
            self._u = model.diffusion(self._u0, self._operator)
        if model.head == "sigmoid" and self._u.shape[1] != 1:
            raise InvalidInputError("with a sigmoid head, one output alone tells two classes apart")
        self._voter.classes = np.arange(max(2, self._u.shape[1]))

    def predict(self, nodes: Any = None, *, correction: Correction = "none") -> NDArray[Any]:
        """As :meth:`SmoothedClassifier.predict`, for these nodes, or for all."""
        return super().predict(nodes, correction=correction)

    def certify(self, nodes: Any = None, *, correction: Correction = "none") -> Certificates:
        """As :meth:`SmoothedClassifier.certify`, for these nodes, or for all."""
        return super().certify(nodes, correction=correction)

    def _read(self, X: Any) -> NDArray[np.float64]:
        n = len(self.features)
        nodes = np.arange(n) if X is None else np.atleast_1d(np.asarray(X))
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu" or not len(nodes) or nodes.min() < 0 or nodes.max() >= n:
            raise InvalidInputError(f"nodes must be whole numbers from 0 to {n - 1}, at least one")
        asked = torch.as_tensor(nodes.astype(np.int64), device=self._device)
        self._own = torch.cat([self._share_of_itself(some) for some in asked.split(_AT_ONCE)])[:, None]
        self._others = self._u[asked] - self._own * self._u0[asked]
        return np.asarray(self.features[nodes])

    def _share_of_itself(self, nodes: torch.Tensor) -> torch.Tensor:
        """The diagonal entries of P, by diffusing a unit from each node."""
        places = torch.arange(len(nodes), device=self._device)
        unit = torch.zeros(len(self.features), len(nodes), dtype=self._dtype, device=self._device)
        unit[nodes, places] = 1.0
        with torch.no_grad(), evaluating(self.model):
            spread: torch.Tensor = self.model.diffusion(unit, self._operator)
        return spread[nodes, places]

    def _vote(self, rows: NDArray[np.float64], owner: Codes) -> Codes:
        of = torch.as_tensor(owner, device=self._device)
        with torch.no_grad(), evaluating(self.model):
            u0 = self.model.base(torch.as_tensor(rows, dtype=self._dtype, device=self._device))
        u = self._others[of] + self._own[of] * u0
        scores = torch.cat([1 - u, u], dim=1) if u.shape[1] == 1 else u
        return np.asarray(scores.argmax(dim=1).cpu().numpy())
