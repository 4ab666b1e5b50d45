"""Graphs that change with time: one Laplacian a day, as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from condiff.errors import InvalidInputError
from condiff.graph.graph import Graph
from condiff.graph.laplacian import DenseLaplacian


def directed_laplacians(
    weights: Sequence[Any], dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> DenseLaplacian:
    r"""The Laplacians of graphs of the same nodes, directed or not, of shape (graphs, n, n).

    .. math:: L = \mathrm{diag}(\hat W 1) - \hat W, \qquad \hat W = D^{-1/2} W D^{-1/2}, \qquad D = \mathrm{diag}(W 1)

    with the diagonal of W set to zero. Row sums of the directed weights stand on both sides, so that L is not symmetric
    where W is not. A node without an edge of its own keeps its value, and pulls on nobody.

    Parameters
    ----------
    weights
        One graph each, anything that :meth:`Graph.of` accepts; row i lists what node i averages over.
    dtype, device
        Of the result. It is dense, so that few graphs of up to some thousand nodes are what it is for.
    """
    if not len(weights):
        raise InvalidInputError("there is no graph to make a Laplacian of")
    graphs = [Graph.of(each).normalised(self_loops="remove") for each in weights]
    sizes = sorted({graph.n_nodes for graph in graphs})
    if len(sizes) > 1:
        raise InvalidInputError(f"the graphs must have the same nodes, not {' and '.join(map(str, sizes))} of them")
    dense = torch.stack([torch.as_tensor(graph.weights.toarray(), dtype=dtype) for graph in graphs])
    return DenseLaplacian(dense.to(device))
