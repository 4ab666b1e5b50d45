"""What is to be fitted: one network, its features and graph, and the labelled items that its loss reads.

Everything that a caller may give in more than one form is settled here, once, so that engines need not ask: boolean
masks and index arrays, arrays and tensors, dense and sparse features, known and unknown targets.
"""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian, Laplacian, SparseLaplacian, laplacian
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN, Head
from condiff.training.losses import Penalty, is_right, pointwise_loss
from condiff.training.settings import Training

#: Dense features of at least this many numbers are looked at for zeros, and count as sparse up to this share of others.
_WORTH_A_LOOK, _SPARSE = 1_000_000, 0.2


class Items(NamedTuple):
    """The labelled items that a loss reads, of one network or, with a first axis more, of several.

    Attributes
    ----------
    nodes
        (items,): where the output is read; a node may occur several times. In a batch of graphs, nodes are numbered
        through all of them.
    target
        Classes, (items,), or values, (items, outputs).
    weight
        Of the target's shape: how much each entry counts, zero where it is unknown; the sum is one.
    n_known
        Entries that count.
    """

    nodes: Tensor
    target: Tensor
    weight: Tensor
    n_known: int

    def loss(self, read: Tensor, head: Head) -> Tensor:
        """The loss of each network, given the diffused outputs at the items, (..., items, outputs)."""
        losses = self.weight * pointwise_loss(read, self.target, head)
        return losses.sum(-1 if head == "softmax" else (-2, -1))

    def validate(self, read: Tensor, head: Head) -> Tensor:
        """Summed over the known entries: their losses, and whether each is right, or minus its loss."""
        known = self.weight > 0
        losses = torch.where(known, pointwise_loss(read, self.target, head), 0.0).sum()
        if head == "identity":
            return torch.stack([losses, -losses])
        return torch.stack([losses, (known & is_right(read, self.target, head)).sum().to(losses)])


class Problem:
    """One network to be fitted on one graph, or on a batch of graphs of the same nodes.

    Parameters
    ----------
    model
        The network; a fit changes it in place. A network on torch's device ``meta`` has no weights yet: they are drawn
        from ``seed`` when they are needed, as they would be under ``torch.manual_seed(seed)``, and
        :attr:`Fitted.model` is the network with them.
    x
        Features of all nodes, labelled or not: (n, features), a tensor, an array, a SciPy sparse matrix or a
        :class:`SparseMatrix`; dense ones that are mostly zeros are treated as sparse. With a batch of graphs, such as
        the days of a panel, (graphs, n, features).
    graph
        A :class:`Graph`, a Laplacian, or the matrix ``L`` as a tensor; for a batch, a Laplacian of shape (graphs, n, n)
        or one for all. None for a network without diffusion layers.
    target
        Classes (softmax), zeros and ones (sigmoid) or values (identity) of all nodes: (n,), or (n, outputs), or the
        same with (graphs, n). NaN is an unknown value. With ``nodes``, those of the items alone.
    train
        Which nodes to learn from: a mask or indices; by default all with a known target, which is one that is not NaN
        and, for classes, not negative. Each graph of a batch counts alike, and in it each known entry; graphs without
        any are left out.
    nodes
        In place of ``train``, where several items may be of one node: the node of each entry of ``target``.
    validation
        A mask or indices. With them and a ``patience`` in the settings, the fit stops early, and the weights of the
        best epoch are kept.
    sample_weight
        One weight for each item that is learned from.
    penalty
        Added to the loss: a function of the diffused output of all nodes, such as a :class:`ClassBalance`.
    settings
        Optimiser, schedule and stopping; the paper's for node tasks by default.
    seed
        Of whatever the fit draws at random: dropout between diffusion layers, and first weights. By default torch's
        generator decides.
    """

    def __init__(
        self,
        model: COIN,
        x: Any,
        graph: Any,
        target: Any,
        train: Any = None,
        *,
        nodes: Any = None,
        validation: Any = None,
        sample_weight: Any = None,
        penalty: Penalty | None = None,
        settings: Training | None = None,
        seed: int | None = None,
        _like: Problem | None = None,
    ) -> None:
        self.model, self.penalty, self.seed = model, penalty, seed
        self.settings = settings or Training()
        parameter = next(model.parameters())
        self.dtype = parameter.dtype
        settled = _like is not None and x is _like.x and self.dtype == _like.dtype
        self.x: Tensor | SparseMatrix = x if settled else _features(x, self.dtype)
        self.device = self.x.values.device if isinstance(self.x, SparseMatrix) else self.x.device
        if parameter.device.type not in ("meta", self.device.type):
            raise InvalidInputError(f"the network is on {parameter.device}, but its features are on {self.device}")
        same = _like is not None and model is _like.model and self.x.shape[-1] == _like.x.shape[-1]
        self.n_outputs: int = _like.n_outputs if same and _like else _outputs_of(model, self.x)
        target = _tensor(target, self.device)
        if self.is_batch and train is None and nodes is None:
            graph, target = self._leave_out_unknown(graph, target)
        self.operator = self._operator(graph)
        self.items = self._items(target, train, nodes, "training", sample_weight)
        held_out = None if validation is None else self._items(target, validation, None, "validation")
        #: The validation items, where they stop the fit.
        self.held_out = None if self.settings.patience is None else held_out
        self._given = {
            "target": target,
            "train": train,
            "nodes": nodes,
            "validation": validation,
            "sample_weight": sample_weight,
            "penalty": penalty,
            "settings": self.settings,
            "seed": seed,
        }

    def replace(self, **changes: Any) -> Problem:
        """The same problem but for some arguments; features and graph that stay are shared, and not checked again."""
        given = {"model": self.model, "x": self.x, "graph": self.operator, **self._given, **changes}
        return Problem(**given, _like=self)

    @property
    def head(self) -> Head:
        """What turns the base network's output into ``u``."""
        return self.model.head

    @property
    def is_batch(self) -> bool:
        """Whether there are several graphs of the same nodes."""
        return len(self.x.shape) == 3

    @property
    def n_nodes(self) -> int:
        """Nodes of a graph."""
        return int(self.x.shape[-2])

    @property
    def n_graphs(self) -> int:
        """Graphs of the batch; 1 where there is no batch."""
        return int(self.x.shape[0]) if self.is_batch else 1

    @property
    def dense_x(self) -> Tensor:
        """The features as a dense tensor."""
        return self.x.to_dense() if isinstance(self.x, SparseMatrix) else self.x

    @cached_property
    def mostly_zeros(self) -> bool:
        """Whether the features are sparse, or large and had better be."""
        if isinstance(self.x, SparseMatrix):
            return True
        worth_a_look = self.device.type == "cpu" and not self.is_batch and self.x.numel() >= _WORTH_A_LOOK
        return worth_a_look and int(self.x.count_nonzero()) <= _SPARSE * self.x.numel()

    @property
    def sparse_x(self) -> SparseMatrix:
        """The features as a sparse matrix."""
        return self.x if isinstance(self.x, SparseMatrix) else SparseMatrix.of(self.x.cpu().numpy(), self.dtype)

    @property
    def has_weights(self) -> bool:
        """Whether the network's first weights have been drawn."""
        return next(self.model.parameters()).device.type != "meta"

    def with_weights(self) -> Problem:
        """This problem, with the network's first weights drawn from the seed where they have not been."""
        if self.has_weights:
            return self
        return self.replace(model=_drawn(self.model, self.seed_or_drawn, self.device))

    @cached_property
    def seed_or_drawn(self) -> int:
        """The seed, or one from torch's generator."""
        return int(torch.randint(2**63 - 1, ())) if self.seed is None else self.seed

    # ---- what is settled on entry ---------------------------------------------------------------------------------

    def _leave_out_unknown(self, graph: Any, target: Tensor) -> tuple[Any, Tensor]:
        """Leave out the graphs of a batch without a known target: they have no error to take the mean of."""
        assert isinstance(self.x, Tensor)
        self._check_shape(target)
        used = self._known(target).flatten(1).any(1)
        if not bool(used.any()):
            raise InvalidInputError("no target is known, so there is nothing to learn from")
        if bool(used.all()):
            return graph, target
        if graph is not None:
            graph = laplacian(graph, self.dtype, self.device)
        if isinstance(graph, DenseLaplacian) and graph.weights.shape[:-2] == used.shape:
            graph = DenseLaplacian(graph.weights[used], symmetric=graph.symmetric)
        self.x = self.x[used]
        return graph, target[used]

    def _operator(self, graph: Any) -> Laplacian:
        if graph is None:
            if self.model.diffusion.layers:
                raise InvalidInputError("a network with diffusion layers needs a graph")
            edges = torch.empty(2, 0, dtype=torch.long, device=self.device)
            return SparseLaplacian.from_edges(edges, n_nodes=self.n_nodes, dtype=self.dtype)
        operator = laplacian(graph, self.dtype, self.device)
        batch = tuple(operator.weights.shape[:-2]) if isinstance(operator, DenseLaplacian) else ()
        if operator.n_nodes != self.n_nodes or batch not in ((), tuple(self.x.shape[:-2])):
            shape = (*batch, operator.n_nodes, operator.n_nodes)
            raise InvalidInputError(f"the graph has the shape {shape}, which is not that of x, {tuple(self.x.shape)}")
        return operator

    def _items(self, target: Tensor, chosen: Any, nodes: Any, role: str, sample_weight: Any = None) -> Items:
        if nodes is not None:
            places = _places(_tensor(nodes, self.device), self.x.shape[:-1], role)
            if len(places) != len(target):
                raise InvalidInputError(f"there are {len(places)} nodes but {len(target)} targets")
        else:
            self._check_shape(target)
            if chosen is None:
                chosen = self._known(target).reshape(*self.x.shape[:-1], -1).any(-1)
            places = _places(_tensor(chosen, self.device), self.x.shape[:-1], role)
            target = target.flatten(0, len(self.x.shape) - 2)[places]
        if not len(places):
            hint = "; pass validation=None to run all epochs" if role == "validation" else ""
            raise InvalidInputError(f"there is no {role} node{hint}")
        target, known = self._values(target, places, role)
        return Items(places, target, self._weights(known, places, sample_weight), int(known.sum()))

    def _check_shape(self, target: Tensor) -> None:
        expected = tuple(self.x.shape[:-1])
        if tuple(target.shape[: len(expected)]) != expected:
            raise InvalidInputError(
                f"x has the shape {tuple(self.x.shape)}, but the target {tuple(target.shape)}: give one for each node"
            )

    def _known(self, target: Tensor) -> Tensor:
        known = ~target.isnan()
        return known & (target >= 0) if self.head == "softmax" else known

    def _values(self, target: Tensor, places: Tensor, role: str) -> tuple[Tensor, Tensor]:
        """The items' targets in the form that the head needs, and which of their entries are known."""
        columns = 1 if self.head == "softmax" else self.n_outputs
        if target.numel() != len(target) * columns:
            raise InvalidInputError(
                f"a {self.head} network with {self.n_outputs} output(s) learns from {columns} value(s) for each node, "
                f"but the target has the shape {tuple(target.shape)}"
            )
        target = target.reshape(len(target), columns)
        known = self._known(target)
        if not bool(known.any(1).all()):
            place = int(places[~known.any(1)][0])
            raise InvalidInputError(f"the target of {role} node {place} is not known: leave that node out of {role}")
        if self.head == "softmax":
            if int(target.max()) >= self.n_outputs:
                raise InvalidInputError(f"classes must be from 0 to {self.n_outputs - 1}, not {int(target.max())}")
            return target[:, 0].long(), known[:, 0]
        if bool(target.isinf().any()):
            raise InvalidInputError("the target has infinite entries: mend them, or write NaN where it is not known")
        return target.to(self.dtype).nan_to_num(0.0), known

    def _weights(self, known: Tensor, places: Tensor, sample_weight: Any) -> Tensor:
        share = known.to(self.dtype)
        by_item = share if share.ndim == 1 else share.sum(1)
        if sample_weight is None:
            graph = places // self.n_nodes
            counts = by_item.new_zeros(self.n_graphs).index_add_(0, graph, by_item)
            return share / counts[graph].view(-1, *[1] * (share.ndim - 1)) / int((counts > 0).sum())
        weight = _tensor(sample_weight, self.device).to(self.dtype)
        if weight.shape != (len(places),):
            raise InvalidInputError(
                f"there are {len(places)} training nodes but the sample weights have the shape {tuple(weight.shape)}"
            )
        if not bool((weight >= 0).all()) or not 0 < float(weight.sum()) < float("inf"):
            raise InvalidInputError("sample weights must be finite and not negative, and at least one must be positive")
        weight = weight / weight.sum()
        return weight if share.ndim == 1 else (weight / by_item)[:, None] * share


def _tensor(values: Any, device: torch.device) -> Tensor:
    return torch.as_tensor(values, device=device)


def _places(chosen: Tensor, shape: torch.Size | tuple[int, ...], role: str) -> Tensor:
    """A mask or indices of nodes, as indices into all nodes in a row."""
    if chosen.dtype == torch.bool:
        if tuple(chosen.shape) != tuple(shape):
            raise InvalidInputError(f"the {role} mask has the shape {tuple(chosen.shape)} in place of {tuple(shape)}")
        return chosen.flatten().nonzero()[:, 0]
    if chosen.ndim != 1 or (chosen.numel() and chosen.is_floating_point()):
        raise InvalidInputError(
            f"{role} nodes are a mask or a list of indices, not {chosen.dtype} values of shape {tuple(chosen.shape)}"
        )
    n, places = math.prod(shape), chosen.long()
    if places.numel() and not -n <= int(places.min()) <= int(places.max()) < n:
        raise InvalidInputError(f"{role} nodes must be from 0 to {n - 1}, but range to {int(places.max())}")
    return torch.where(places < 0, places + n, places)


def _features(x: Any, dtype: torch.dtype) -> Tensor | SparseMatrix:
    """Features in the network's precision."""
    if isinstance(x, SparseMatrix) or sp.issparse(x):
        sparse = x if isinstance(x, SparseMatrix) else SparseMatrix.of(x, dtype)
        sparse = sparse if sparse.values.dtype == dtype else sparse.with_values(sparse.values.to(dtype))
        _check_finite(sparse.values)
        return sparse
    dense = torch.as_tensor(x)
    dense = (dense if dense.layout == torch.strided else dense.to_dense()).to(dtype)
    if dense.ndim not in (2, 3):
        raise InvalidInputError(f"x must be (nodes, features) or (graphs, nodes, features), not {tuple(dense.shape)}")
    _check_finite(dense)
    return dense


def _check_finite(values: Tensor) -> None:
    # The sum first, because it needs no memory; it may itself overflow.
    if not bool(values.sum().isfinite()) and not bool(values.isfinite().all()):
        raise InvalidInputError("x has NaN or infinite entries: fill what is missing, with 0 or a column's mean, say")


@torch.no_grad()
def _outputs_of(model: COIN, x: Tensor | SparseMatrix) -> int:
    """The number of the network's outputs, found by asking it about one node."""
    row = x[:1, :1] if isinstance(x, Tensor) and x.ndim == 3 else rows_of(x, slice(0, 1))
    training = model.training
    try:
        return int(model.eval().base(row.to(next(model.parameters()).device)).shape[-1])
    except RuntimeError as error:
        raise InvalidInputError(
            f"the network does not take {x.shape[-1]} features ({str(error).splitlines()[0]})"
        ) from error
    finally:
        model.train(training)


def rows_of(x: Tensor | SparseMatrix, here: slice | Tensor) -> Tensor:
    """Some rows of the features, dense."""
    if isinstance(x, Tensor):
        return x[here]
    parts = (x.values, x.pattern.col_indices, x.pattern.crow_indices)
    matrix = sp.csr_array(tuple(part.detach().numpy() for part in parts), shape=x.shape)
    return torch.from_numpy(np.asarray(matrix[here if isinstance(here, slice) else here.numpy()].toarray()))


def _drawn(model: COIN, seed: int, device: torch.device) -> COIN:
    """A copy of a network on ``meta``, with the weights that its layers draw one after another from a seed.

    They are drawn in torch's default precision, as if the network had been built in it and then converted.
    """
    dtype = next(model.parameters()).dtype
    network = copy.deepcopy(model).to(torch.get_default_dtype()).to_empty(device=device)
    layers = [module for module in network.modules() if next(module.parameters(recurse=False), None) is not None]
    if not all(hasattr(layer, "reset_parameters") for layer in layers):
        raise InvalidInputError("this network cannot draw its weights: build it on the processor, not on meta")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in layers:
            layer.reset_parameters()  # type: ignore[operator]
    return network.to(dtype)
