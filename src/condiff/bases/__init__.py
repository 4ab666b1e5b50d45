"""The base networks: residual networks, each an explicit Euler step of a convection equation."""

from typing import TYPE_CHECKING

from condiff.lazy import names_from

if TYPE_CHECKING:
    from condiff.bases.residual import ACTIVATIONS, Bottleneck, Residual, residual_network

__all__ = ["ACTIVATIONS", "Bottleneck", "Residual", "residual_network"]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "residual": ("ACTIVATIONS", "Bottleneck", "Residual", "residual_network"),
    },
)
