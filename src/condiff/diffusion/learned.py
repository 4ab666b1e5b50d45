r"""Weights that are learned along with the rest, so bounded that no step-size limit can be passed.

A graph's own weights :math:`w_{ij}` certify a strength: up to :math:`1 / \max_i \sum_{j \ne i} w_{ij}` an explicit
layer keeps values in their range. What is learned here only ever takes a part of :math:`w_{ij}`, or an average, so the
certificate of the graph holds for whatever is learned, in every epoch, without a check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff.diffusion.euler import Euler
from condiff.diffusion.stability import max_diagonal
from condiff.errors import InvalidInputError
from condiff.graph import Graph, Laplacian, SparseLaplacian, laplacian

Form = Literal["symmetric", "stochastic", "signed"]


class LearnedWeights(nn.Module):
    r"""Attention over the edges of a graph, from features of their two ends.

    With the score :math:`s_{ij} = \langle Q x_i, K x_j \rangle / \sqrt{d} + b`, and :math:`Q = K` but for the second,

    - ``symmetric``: :math:`w'_{ij} = w_{ij} \, \mathrm{sigmoid}(s_{ij})`;
    - ``stochastic``: :math:`w'_{ij} = w_{ij} e^{s_{ij}} / \sum_k w_{ik} e^{s_{ik}}`, rows that sum to one;
    - ``signed``: :math:`w'_{ij} = w_{ij} \tanh(s_{ij})`, below zero where neighbours should differ.

    Parameters
    ----------
    in_features
        Width of the features; of ``u``, say, if the weights are to follow what is diffused.
    form
        One of the three.
    width
        Width d of queries and keys.

    Examples
    --------
    >>> import torch
    >>> from condiff import Graph
    >>> graph = Graph.of(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).normalised(self_loops="add")
    >>> operator = LearnedWeights(4)(torch.randn(3, 4), graph)
    >>> bool((operator.diagonal <= graph.laplacian().diagonal).all())
    True
    """

    def __init__(self, in_features: int, *, form: Form = "symmetric", width: int = 16) -> None:
        super().__init__()
        if form not in get_args(Form):
            raise InvalidInputError(f"form must be {', '.join(get_args(Form))}, not {form!r}")
        self.form, self.width = form, width
        self.query = nn.Linear(in_features, width, bias=False)
        self.key = nn.Linear(in_features, width, bias=False) if form == "stochastic" else self.query
        # Starts near the graph's own weights: a sigmoid of 2 is 0.88, a tanh 0.96.
        self.bias = nn.Parameter(torch.tensor(2.0))

    def limit(self, graph: Any) -> float:
        """The largest strength of an explicit layer that keeps values in range, whatever is learned."""
        largest = 1.0 if self.form == "stochastic" else max_diagonal(laplacian(graph, torch.float64))
        return 1.0 / largest if largest > 0 else 1.0

    def forward(self, x: Tensor, graph: Any) -> Laplacian:
        """The Laplacian of the learned weights, differentiable in ``x`` and in the parameters."""
        operator = laplacian(graph, x.dtype, x.device)
        if not isinstance(operator, SparseLaplacian):
            raise InvalidInputError("learned weights need a sparse graph: Graph.of(weights)")
        rows, columns = operator.pattern.rows, operator.pattern.columns
        scores = (self.query(x)[rows] * self.key(x)[columns]).sum(-1) / self.width**0.5 + self.bias
        given = operator.weights.detach()
        parts = operator.crow_indices, operator.col_indices
        if self.form == "stochastic":
            return SparseLaplacian(*parts, _softmax(scores, given, rows, operator.n_nodes), symmetric=False)
        if self.form == "symmetric":
            return SparseLaplacian(*parts, given * torch.sigmoid(scores), symmetric=operator.symmetric)
        # A loop has no neighbour to differ from.
        signs = torch.where(rows == columns, 1.0, torch.tanh(scores))
        return SignedLaplacian(SparseLaplacian(*parts, given * signs, symmetric=operator.symmetric))


class SignedLaplacian(Laplacian):
    r"""``(L u)_i = sum_j |w_ij| (u_i - sign(w_ij) u_j)``: neighbours with a negative weight push each other apart.

    It is an ordinary diffusion, whose weights have signs, and a reaction that damps :math:`u_i` by
    :math:`\sum_j (|w_{ij}| - w_{ij})`. For symmetric weights :math:`u^T L u = \frac12 \sum |w_{ij}| (u_i \mp u_j)^2`,
    so no mode grows in time; and explicit layers up to the strength :math:`1 / \max_i \sum_{j \ne i} |w_{ij}|` never
    enlarge the largest absolute value. They keep no probabilities: scores of any sign are what it diffuses.

    Parameters
    ----------
    signed
        The weights, as a Laplacian that ignores what their signs mean.
    """

    def __init__(self, signed: SparseLaplacian) -> None:
        self.signed, self.weights, self.symmetric = signed, signed.weights, signed.symmetric

    def __call__(self, u: Tensor) -> Tensor:
        reaction = self.diagonal - self.signed.diagonal
        return self.signed(u) + (reaction * u if u.ndim == 1 else reaction[:, None] * u)

    @property
    def transposed(self) -> SignedLaplacian:
        if not self.symmetric:
            raise InvalidInputError("a signed Laplacian has an adjoint only where its weights are symmetric")
        return self

    @property
    def n_nodes(self) -> int:
        return self.signed.n_nodes

    @property
    def diagonal(self) -> Tensor:
        return self.signed._with(self.signed.pattern, self.weights.abs()).diagonal

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> SignedLaplacian:
        moved = self.signed.to(device, dtype)
        return self if moved is self.signed else SignedLaplacian(moved)


class GraphMixture(nn.Module):
    r"""A learned average of several graphs: :math:`W = \sum_g \pi_g W_g`, the shares a softmax of parameters.

    Its largest diagonal is at most that of the worst graph, which bounds the strength whatever the mixture.

    Parameters
    ----------
    graphs
        On the same nodes; a citation graph and a graph of similar features, say.
    """

    values: Tensor

    def __init__(self, graphs: Sequence[Graph]) -> None:
        super().__init__()
        if not graphs or len({graph.n_nodes for graph in graphs}) > 1:
            raise InvalidInputError("a mixture needs graphs on the same nodes")
        weights = [sp.csr_array(graph.weights, dtype=np.float64) for graph in graphs]
        union = sp.csr_array(sum(abs(each) for each in weights))
        union.sort_indices()
        places = np.repeat(np.arange(union.shape[0]), np.diff(union.indptr)), union.indices
        self.register_buffer("values", torch.from_numpy(np.stack([np.asarray(each[places]) for each in weights])))
        self.parts = torch.from_numpy(union.indptr), torch.from_numpy(union.indices)
        self.logits = nn.Parameter(torch.zeros(len(graphs)))
        self.symmetric = all(laplacian(graph).symmetric for graph in graphs)
        self.limit = min(1.0 / max(max_diagonal(laplacian(graph, torch.float64)), 1e-12) for graph in graphs)

    @property
    def shares(self) -> Tensor:
        """How much of each graph is taken."""
        return torch.softmax(self.logits, dim=0)

    def forward(self) -> SparseLaplacian:
        """The Laplacian of the average, differentiable in the shares."""
        mixed = self.shares @ self.values.to(self.logits)
        rows, columns = (part.to(mixed.device) for part in self.parts)
        return SparseLaplacian(rows, columns, mixed, symmetric=self.symmetric)


class LearnedDiffusion(nn.Module):
    """Explicit layers over learned weights, each of the largest strength that the given graph certifies.

    Parameters
    ----------
    in_features, form, width
        As in :class:`LearnedWeights`.
    layers
        Number of layers.
    """

    def __init__(self, in_features: int, layers: int = 20, *, form: Form = "symmetric", width: int = 16) -> None:
        super().__init__()
        if not isinstance(layers, int) or layers < 0:
            raise InvalidInputError(f"layers must be a whole number, 0 or more, not {layers!r}")
        self.weights, self.layers = LearnedWeights(in_features, form=form, width=width), layers

    def forward(self, u: Tensor, x: Tensor, graph: Any) -> Tensor:
        """Diffuse ``u``, (n, c), over ``graph`` with weights that follow the features ``x``, (n, in_features)."""
        return Euler()(self.weights(x, graph), u, self.weights.limit(graph), self.layers)


class SignedHops(nn.Module):
    r"""Every channel diffused, left alone or sharpened: :math:`u_c \mapsto \sum_k \theta_{kc} W^k u_c`.

    The weights of the hops may be negative and are learned, scaled such that :math:`\sum_k |\theta_{kc}| = 1`. Then
    nothing grows that a single hop does not enlarge, whatever is learned: the Euclidean length of a channel where
    :math:`W = D^{-1/2}(A + I)D^{-1/2}`, the largest absolute value where a hop is a layer within the positivity limit.

    Parameters
    ----------
    channels
        Columns of u.
    hops
        The highest power of W.

    Examples
    --------
    >>> import torch
    >>> from condiff import Graph
    >>> weights = Graph.of(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).normalised(self_loops="add").weights
    >>> hop, u = torch.tensor(weights.toarray()), torch.randn(3, 4, dtype=torch.float64)
    >>> after = SignedHops(4).double()(u, lambda u: hop @ u)
    >>> bool((after.norm(dim=0) <= u.norm(dim=0)).all())
    True
    """

    def __init__(self, channels: int, hops: int = 2) -> None:
        super().__init__()
        for name, count in {"channels": channels, "hops": hops}.items():
            if not isinstance(count, int) or count < 1:
                raise InvalidInputError(f"{name} must be a whole number of at least 1, not {count!r}")
        self.weights = nn.Parameter(torch.empty(hops + 1, channels).uniform_(-1, 1))

    @property
    def shares(self) -> Tensor:
        """The weights of the hops, (hops + 1, channels); absolute values of a channel sum to one."""
        return self.weights / self.weights.abs().sum(0).clamp_min(torch.finfo(self.weights.dtype).tiny)

    def forward(self, u: Tensor, hop: Callable[[Tensor], Tensor]) -> Tensor:
        """The sum over hops of ``u``, (n, channels), each made of the one before it by ``hop``."""
        first, *others = self.shares
        found: Tensor = first * u
        for share in others:
            u = hop(u)
            found = found + share * u
        return found


def _softmax(scores: Tensor, weights: Tensor, rows: Tensor, n_nodes: int) -> Tensor:
    """``weights * exp(scores)`` over its sum within each row."""
    largest = scores.detach().new_full((n_nodes,), -torch.inf).scatter_reduce(0, rows, scores.detach(), "amax")
    raised = weights * torch.exp(scores - largest[rows])
    sums = raised.new_zeros(n_nodes).index_add(0, rows, raised)
    return raised / sums[rows].clamp_min(torch.finfo(raised.dtype).tiny)
