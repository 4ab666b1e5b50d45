"""The base networks: residual networks, each an explicit Euler step of a convection equation."""

from condiff.bases.residual import ACTIVATIONS, Bottleneck, Residual, residual_network

__all__ = ["ACTIVATIONS", "Bottleneck", "Residual", "residual_network"]
