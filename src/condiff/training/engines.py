"""Which engine fits a network: the exact fast ones where the problem allows it, the plain reference everywhere else.

All engines give the reference's numbers up to rounding; they differ in the work that they avoid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.bases import Residual
from condiff.bases.genewise import GeneWise
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, laplacian
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN
from condiff.training import reference
from condiff.training.bases import runs_in_loops
from condiff.training.blocked import fit_blocked
from condiff.training.compiled import is_available
from condiff.training.genewise import fit_genewise
from condiff.training.gram import fit_gram
from condiff.training.projected import LARGEST_PROJECTION, fit_projected, projected_rows, projection
from condiff.training.reference import History
from condiff.training.settings import Training
from condiff.training.streamed import fit_streamed, is_nodewise

Engine = Literal["reference", "projected", "streamed", "blocked", "gram", "genewise"]
#: Dense features of at least this many numbers are looked at for zeros, and count as sparse up to this share of others.
_WORTH_A_LOOK, _SPARSE = 1_000_000, 0.2
#: Points from which compiled loops over them win against one autograd step for all.
STREAMED_FROM = 16_384


@dataclass(frozen=True)
class Choice:
    """An engine, and why it is the one."""

    engine: Engine
    why: str

    def __str__(self) -> str:
        return f"engine {self.engine}: {self.why}"


@dataclass(frozen=True)
class Request:
    """What a fit asks for besides its network: sparse features, and which extras its loss has.

    Attributes
    ----------
    n_points
        Nodes of the graph.
    sparse
        Whether the features are a sparse matrix.
    symmetric
        Whether the graph is.
    validates
        Whether validation nodes stop the fit early.
    weighs
        Whether labels have weights of their own, or the loss a penalty.
    row_bytes
        What the rows of the diffusion that the loss reads would take.
    """

    n_points: int
    sparse: bool = False
    symmetric: bool = True
    validates: bool = False
    weighs: bool = False
    row_bytes: int = 0


def choose(model: COIN, request: Request, settings: Training) -> Choice:
    """The fastest engine that gives the reference's numbers."""
    base, diffusion = model.convection, model.diffusion
    if diffusion.dropout.p or diffusion.log_strength is not None:
        return Choice("reference", "dropout or a learned strength changes the diffusion from epoch to epoch")
    if not request.symmetric:
        return Choice("reference", "the graph is not symmetric")
    if isinstance(base, GeneWise) and not (request.validates or request.weighs):
        return Choice("genewise", "the first layer is linear: an epoch is a sparse product with a few columns")
    by_blocks = request.sparse and request.validates and not request.weighs and _is_square(base)
    if request.row_bytes > LARGEST_PROJECTION and is_nodewise(base) and not by_blocks:
        why = f"the diffusion's rows at the labels would take {request.row_bytes / 1e9:.1f} GB"
        return Choice("streamed", f"{why}; nodes go through the network in batches, and nothing is kept of layers")
    if request.n_points >= STREAMED_FROM and not request.sparse and runs_in_loops(base):
        return Choice("streamed", f"{request.n_points:,} points go through compiled loops faster than through autograd")
    if not isinstance(base, Residual) or len(base.blocks) != 1:
        return Choice("reference", "the base network is not a single residual block")
    if by_blocks:
        by = "compiled blocks" if is_available() and settings.optimiser == "adam" else "blocks of torch's operations"
        return Choice("blocked", f"features are sparse and the fit stops early; {by} of hidden units stay in cache")
    if request.validates:
        return Choice("reference", "early stopping on dense features")
    few = request.n_points < base.width
    if few and _is_square(base) and settings.optimiser == "sgd" and model.head == "softmax" and not request.weighs:
        return Choice("gram", "fewer points than features: gradient descent acts on X W^T alone")
    return Choice("projected", "the diffusion is fixed: only its rows at the labels are needed")


def _is_square(base: torch.nn.Module) -> bool:
    """Whether a base is one residual block with ReLU, as wide as its input."""
    return (
        isinstance(base, Residual)
        and len(base.blocks) == 1
        and base.width == base.blocks[0].in_features
        and isinstance(base.activation, torch.nn.ReLU)
    )


def fit(
    model: COIN,
    x: Any,
    graph: Any,
    target: Tensor,
    train: Tensor,
    *,
    validation: Tensor | None = None,
    sample_weight: Tensor | None = None,
    settings: Training | None = None,
    engine: Engine | Literal["auto"] = "auto",
    on_epoch: Callable[[int, float], None] | None = None,
    verbose: bool = False,
) -> History:
    """Fit a COIN on the nodes ``train`` of a graph, in place, by the fastest engine that gives the exact numbers.

    Parameters
    ----------
    model, graph, target, train, validation, sample_weight, settings, on_epoch
        As in :func:`condiff.training.reference.fit`, the plain version of this.
    x
        Features of all nodes: a dense tensor, a SciPy sparse matrix or a :class:`SparseMatrix`. Dense ones that are
        mostly zeros are treated as sparse.
    engine
        ``auto``, or the name of one; ``reference`` fits everything, the others say what they cannot do.
    verbose
        Print which engine runs, and why.
    """
    settings = settings or Training()
    kind = next(model.parameters()).dtype
    operator = laplacian(graph, kind, None if not isinstance(x, Tensor) else x.device)
    x = _features(x, kind)
    validates = validation is not None and settings.patience is not None
    n_read = len(target[train]) + (len(target[validation]) if validation is not None else 0)
    request = Request(
        operator.n_nodes,
        isinstance(x, SparseMatrix),
        operator.symmetric,
        validates,
        sample_weight is not None,
        row_bytes=n_read * operator.n_nodes * torch.finfo(operator.dtype).bits // 8,
    )
    choice = choose(model, request, settings) if engine == "auto" else Choice(_known(engine), "as asked")
    if verbose:
        print(f"[condiff] {choice}")
    if choice.engine == "reference":
        return reference.fit(
            model,
            _dense(x),
            operator,
            target,
            train,
            validation=validation,
            sample_weight=sample_weight,
            settings=settings,
            on_epoch=on_epoch,
        )
    reference.check_nodes(target, train, validation, sample_weight)
    if choice.engine == "streamed":
        weight = torch.ones(len(target[train])) if sample_weight is None else sample_weight
        every = torch.arange(operator.n_nodes, device=operator.device)
        return fit_streamed(
            [model],
            x,
            operator,
            every[train],
            target[train],
            weight.to(operator.weights)[None],
            validation=None if validation is None else (every[validation], target[validation]),
            settings=settings,
            on_epoch=on_epoch,
        )[0][0]
    if choice.engine == "blocked":
        if validation is None or sample_weight is not None:
            raise InvalidInputError("the blocked engine needs validation nodes, and takes no sample weights")
        return fit_blocked(model, _sparse(x), operator, target, train, validation, settings=settings, on_epoch=on_epoch)
    if validates:
        raise InvalidInputError(f"the engine {choice.engine} has no early stopping; set patience=None")
    return _fit_all_epochs(
        choice.engine, model, x, operator, target, train, sample_weight, settings=settings, on_epoch=on_epoch
    )


def _fit_all_epochs(
    engine: Engine,
    model: COIN,
    x: Tensor | SparseMatrix,
    operator: Laplacian,
    target: Tensor,
    train: Tensor,
    sample_weight: Tensor | None,
    *,
    settings: Training,
    on_epoch: Callable[[int, float], None] | None,
) -> History:
    """The engines that run all epochs, on the rows of the diffusion at the training nodes."""
    if engine == "projected":
        weight = torch.ones(len(train), dtype=operator.dtype) if sample_weight is None else sample_weight
        project = projection(model.diffusion, operator, train)
        arguments: dict[str, Any] = {"settings": settings, "on_epoch": on_epoch}
        return fit_projected([model], _dense(x), project, target[train], weight.to(operator.dtype)[None], **arguments)[
            0
        ]
    if sample_weight is not None:
        raise InvalidInputError(f"the engine {engine} takes no sample weights")
    if engine == "genewise":
        inputs = _sparse(x)
        csr = sp.csr_array(
            tuple(each.numpy() for each in (inputs.values, inputs.pattern.col_indices, inputs.pattern.crow_indices)),
            shape=inputs.shape,
        )
        return fit_genewise([model], csr, operator, target, train, settings=settings, on_epoch=on_epoch)[0]
    rows = projected_rows(model.diffusion, operator, train)
    history = fit_gram(model, _dense(x), rows, target[train], settings=settings)
    for epoch, loss in enumerate(history.losses if on_epoch else []):
        on_epoch(epoch, loss)  # type: ignore[misc]  # told afterwards: all epochs are one compiled call
    return history


def _known(engine: str) -> Engine:
    for known in get_args(Engine):
        if engine == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInputError(f"unknown engine {engine!r}; the engines are auto, {', '.join(get_args(Engine))}")


def _features(x: Any, dtype: torch.dtype) -> Tensor | SparseMatrix:
    if isinstance(x, SparseMatrix):
        return x
    if sp.issparse(x):
        return SparseMatrix.of(x, dtype)
    dense = torch.as_tensor(x)
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    on_cpu = dense.device.type == "cpu" and dense.ndim == 2
    if on_cpu and dense.numel() >= _WORTH_A_LOOK and int(dense.count_nonzero()) <= _SPARSE * dense.numel():
        return SparseMatrix.of(dense.numpy(), dtype)
    return dense


def _dense(x: Tensor | SparseMatrix) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) else x


def _sparse(x: Tensor | SparseMatrix) -> SparseMatrix:
    return x if isinstance(x, SparseMatrix) else SparseMatrix.of(x.cpu().numpy(), x.dtype)
