"""A trained residual network as arrays, which answers without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

Array = NDArray[np.float64]
# What the arrays are called in the network that is trained, and in saved models.
_NAMES = {
    "weight": "blocks.0.weight",
    "bias": "blocks.0.bias",
    "read_weight": "readout.weight",
    "read_bias": "readout.bias",
}


@dataclass(frozen=True, eq=False)
class Network:
    r""":class:`condiff.bases.Residual` of one block, in double precision: :math:`W_2 (x + \phi(W_1 x + b_1)) + b_2`.

    Attributes
    ----------
    weight, bias
        Of the block, (units, inputs) and (units,).
    read_weight, read_bias
        Of the read-out, (outputs, units) and (outputs,).
    classifies
        Whether a softmax follows.
    """

    weight: Array
    bias: Array
    read_weight: Array
    read_bias: Array
    classifies: bool

    @classmethod
    def of(cls, network: nn.Module, *, classifies: bool) -> Network:
        """The arrays of a network that was trained."""
        tensors = network.state_dict()
        return cls.from_dict({name: tensors[name].cpu().double().numpy() for name in _NAMES.values()}, classifies)

    def outputs(self, inputs: Array) -> Array:
        """(rows, outputs): probabilities of classes, or values."""
        hidden = np.maximum(inputs @ self.weight.T + self.bias, 0.0)
        hidden[:, : inputs.shape[1]] += inputs  # the shortcut is padded with zeros
        z = hidden @ self.read_weight.T + self.read_bias
        if not self.classifies:
            return np.asarray(z)
        powers = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def module(self) -> nn.Module:
        """The same as a module of torch."""
        import torch

        from condiff.bases.residual import Residual

        (n_outputs, width), n_inputs = self.read_weight.shape, self.weight.shape[1]
        network = Residual(n_inputs, n_outputs, width=width).double()
        network.load_state_dict({name: torch.as_tensor(value) for name, value in self.to_dict().items()})
        return network

    def to_dict(self) -> dict[str, Array]:
        """Arrays, to be saved."""
        return {name: getattr(self, own) for own, name in _NAMES.items()}

    @classmethod
    def from_dict(cls, arrays: Mapping[str, Any], classifies: bool) -> Network:
        """The inverse of :meth:`to_dict`."""
        return cls(**{own: arrays[name] for own, name in _NAMES.items()}, classifies=classifies)
