"""The base network for genes: each gene sums its own few inputs before anything is mixed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.errors import InvalidInputError


class GeneWise(nn.Module):
    r"""A layer of one weight per input, summed per gene, then a narrow residual block.

    .. math:: h_g = b_g + \sum_k w_{gk}\, x_{gk}, \qquad z = S h + s + W_2\, \mathrm{relu}(W_1 h + b_1) + b_2

    The base network of the prostate cancer task, where the inputs of a gene are its mutation, its deep deletion and
    its high amplification. Without the shortcut :math:`S h + s` it is the multilayer perceptron of the same task.

    Parameters
    ----------
    genes
        Number of genes.
    kinds
        Inputs of a gene; the input's width is ``genes * kinds``, and the inputs of a gene stand side by side.
    hidden_features, out_features
        Widths of the hidden layer and of the output.
    shortcut
        Whether the hidden layer is bypassed by a linear map.

    Notes
    -----
    The first layer's weights start normal with variance ``2 / (genes * kinds + 1)`` (Xavier's for a single row), its
    biases at zero, and the other layers as in torch.
    """

    def __init__(
        self,
        genes: int,
        kinds: int = 3,
        *,
        hidden_features: int = 3,
        out_features: int = 1,
        shortcut: bool = True,
    ) -> None:
        super().__init__()
        for name, value in (
            ("genes", genes),
            ("kinds", kinds),
            ("hidden_features", hidden_features),
            ("out_features", out_features),
        ):
            if not isinstance(value, int) or value < 1:
                raise InvalidInputError(f"{name} must be a positive whole number, not {value!r}")
        # The order of these lines is the order of the random draws: a seed gives the weights that it gave the authors.
        self.weight = nn.Parameter(torch.empty(genes, kinds))
        nn.init.xavier_normal_(self.weight.data.view(1, -1))
        self.bias = nn.Parameter(torch.zeros(genes))
        self.inner = nn.Linear(genes, hidden_features)
        self.outer = nn.Linear(hidden_features, out_features)
        self.shortcut = nn.Linear(genes, out_features) if shortcut else None

    def first_layer(self, x: Tensor) -> Tensor:
        """One number for each gene, of shape (..., genes): what the paper measures distances between patients by."""
        genes, kinds = self.weight.shape
        self.check_width(x.shape[-1])
        if x.layout == torch.strided:
            summed: Tensor = (x.unflatten(-1, (genes, kinds)) * self.weight).sum(dim=-1)
            return summed + self.bias
        entries = x.to_sparse_coo().coalesce()
        rows, columns = entries.indices()
        values = entries.values() * self.weight.flatten()[columns]
        flat: Tensor = values.new_zeros(x.shape[0] * genes).index_add(0, rows * genes + columns // kinds, values)
        return flat.view(-1, genes) + self.bias

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (..., genes * kinds), dense or a sparse matrix, to outputs before any sigmoid."""
        h = self.first_layer(x)
        out: Tensor = self.outer(torch.relu(self.inner(h)))
        return out if self.shortcut is None else out + self.shortcut(h)

    def check_width(self, columns: int) -> None:
        """Raise for inputs of another width than the network's."""
        genes, kinds = self.weight.shape
        if columns != genes * kinds:
            raise InvalidInputError(
                f"the input has {columns} columns, but the network has {genes} genes of {kinds} inputs each"
            )

    def extra_repr(self) -> str:
        genes, kinds = self.weight.shape
        return f"genes={genes}, kinds={kinds}"


def first_layer_distances(base: GeneWise, x: sp.csr_array) -> NDArray[np.float64]:
    """Euclidean distances between the first layer's outputs of all patients, (n, n), for the paper's graph.

    The bias cancels, so the outputs stay sparse, and their Gram matrix in double precision gives all distances at
    once, to about 1e-8 of the outputs' length where two patients coincide and far better elsewhere.

    Parameters
    ----------
    base
        A network that was fitted before.
    x
        Features of all patients, (n, genes * kinds).
    """
    base.check_width(x.shape[1])
    genes, kinds = base.weight.shape
    weight = base.weight.detach().double().cpu().numpy().ravel()
    inputs = np.arange(genes * kinds)
    outputs = x.astype(np.float64) @ sp.csr_array((weight, (inputs, inputs // kinds)), shape=(genes * kinds, genes))
    gram = (outputs @ outputs.T).toarray()
    squares = gram.diagonal()
    distances: NDArray[np.float64] = np.sqrt(np.maximum(squares[:, None] + squares - 2 * gram, 0.0))
    np.fill_diagonal(distances, 0.0)
    return distances
