"""The field's graph, and what methods make of it once for all draws of the labels."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from condiff.diffusion.conjugate import Array, Product, operator_of
from condiff.graph import SparseLaplacian


class FieldGraph:
    """Weights, and what methods make of them for every draw of the labels.

    Parameters
    ----------
    weights
        With an empty diagonal; symmetric, unless a method has changed them.
    """

    def __init__(self, weights: sp.csr_array) -> None:
        self.weights = sp.csr_array(weights, dtype=np.float64)

    @cached_property
    def degree(self) -> Array:
        """Row sums, none of them zero."""
        return np.asarray(np.maximum(np.asarray(self.weights.sum(axis=1)).ravel(), 1e-12))

    @cached_property
    def scale(self) -> Array:
        """The inverse roots of the degrees."""
        return np.asarray(self.degree**-0.5)

    @cached_property
    def plain(self) -> Product:
        """Products with the weights."""
        return Product(self.weights)

    @cached_property
    def normalised(self) -> Product:
        """Products with the weights over the roots of both degrees."""
        diagonal = sp.diags_array(self.scale)
        return Product(sp.csr_array(diagonal @ self.weights @ diagonal))

    @cached_property
    def heat(self) -> SparseLaplacian:
        """The Laplacian in single precision."""
        return operator_of(self.weights, torch.float32)
