"""Convection-diffusion networks for learning from few labels."""

__version__ = "0.1.0"
