r"""What a sharded fit costs: bytes, messages, memory and time of one rank, as formulas with measured rates.

With n nodes, m stored weights (twice the undirected edges, and a loop for each), c columns, K layers and P ranks, a
rank holds n / P nodes and m / P weights. One layer reads :math:`(8 + 4 c) m / P` bytes (column index, weight and row of
u for each weight) and sends :math:`4 c s n / P` bytes to at most P - 1 ranks, where s is the *border share*: rows
that a rank sends, for each node that it holds. An epoch has K layers forwards and K backwards, and four times the work
of one forward pass of the base network: one to predict, one more for its activations, and two for the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from condiff.distributed.shards import Description
from condiff.errors import InvalidInputError

#: Matrices of own nodes times columns that are alive at once in a fit: u before and after, a product, own and border
#: rows together, and two gradients.
_MATRICES = 6


@dataclass(frozen=True)
class Workload:
    """A problem by its sizes.

    Attributes
    ----------
    n_nodes, n_edges
        Nodes and undirected edges.
    n_columns, n_features
        Classes, and width of the features.
    n_weights
        Weights of the base network.
    layers
        Diffusion layers.
    border_share
        Border rows that a rank sends for each node that it holds; 0 for one rank.
    """

    n_nodes: float
    n_edges: float
    n_columns: int
    n_features: int
    n_weights: float
    layers: int = 20
    border_share: float = 0.0

    @property
    def n_entries(self) -> float:
        """Stored weights: both directions, and a loop for each node."""
        return 2 * self.n_edges + self.n_nodes

    @classmethod
    def of(cls, shards: Description, n_weights: int, layers: int) -> Workload:
        """The sizes of shards that were cut; the border share is that of their average part."""
        sends = sum(part.sends for part in shards.parts)
        edges = (shards.n_entries - shards.n_nodes) / 2
        return cls(
            shards.n_nodes, edges, shards.n_classes, shards.n_features, n_weights, layers, sends / shards.n_nodes
        )


@dataclass(frozen=True)
class Rates:
    """What one rank achieves; seconds for a unit of each kind of work.

    Attributes
    ----------
    product_byte
        Seconds for a byte that the sparse product reads.
    flop
        Seconds for a floating point operation of the base network.
    message, network_byte
        Seconds for a message, and for a byte sent.
    process_bytes
        Memory of a rank that holds nothing: Python and torch.
    startup
        Seconds before the first epoch, whatever the size; no part of an epoch's cost.
    """

    product_byte: float
    flop: float
    message: float
    network_byte: float
    process_bytes: float
    startup: float = 0.0


@dataclass(frozen=True)
class Cost:
    """Of one rank; times of an epoch in seconds, sizes in bytes.

    Attributes
    ----------
    bytes_per_layer, messages_per_layer
        Sent in one layer.
    bytes_per_epoch
        Sent in an epoch, without the gradients of the base network.
    memory
        At most; the features are memory-mapped and count as ``mapped``.
    mapped
        Features on disk, which the system keeps in memory where there is room.
    product_seconds, base_seconds, exchange_seconds
        Of an epoch. Nothing overlaps, so an epoch takes their sum.
    """

    bytes_per_layer: float
    messages_per_layer: float
    bytes_per_epoch: float
    memory: float
    mapped: float
    product_seconds: float
    base_seconds: float
    exchange_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Of one epoch."""
        return self.product_seconds + self.base_seconds + self.exchange_seconds

    def to_dict(self) -> dict[str, float]:
        """Plain values, for JSON."""
        return asdict(self) | {"epoch_seconds": self.epoch_seconds}


def cost(work: Workload, ranks: int, rates: Rates, *, block_rows: int = 16_384) -> Cost:
    """The cost of a fit in single precision, for parts of equal size."""
    if ranks < 1:
        raise InvalidInputError(f"ranks must be at least 1, not {ranks}")
    share = work.border_share if ranks > 1 else 0.0
    nodes, entries, columns = work.n_nodes / ranks, work.n_entries / ranks, work.n_columns
    sent = 4.0 * columns * share * nodes
    messages = float(ranks - 1)
    passes = 2 * work.layers
    matrices = 4.0 * columns * nodes * (_MATRICES + share)
    per_node = 4 + 4 + 8 + 8 + 1 + 8 * share  # row starts, degree, number, label, role; lists of rows to send
    block = 4.0 * block_rows * 4 * work.n_features
    gradients = 4 * 4.0 * work.n_weights  # weights, gradient and two moments of Adam
    return Cost(
        bytes_per_layer=sent,
        messages_per_layer=messages,
        bytes_per_epoch=passes * sent,
        memory=rates.process_bytes + 8 * entries + per_node * nodes + matrices + block + gradients,
        mapped=4.0 * work.n_features * nodes,
        product_seconds=rates.product_byte * passes * product_bytes(entries, columns),
        base_seconds=rates.flop * 4 * 2 * work.n_weights * nodes,
        exchange_seconds=passes * (rates.message * messages + rates.network_byte * sent),
    )


def product_bytes(entries: float, columns: int) -> float:
    """Bytes that a sparse product reads: index, weight and a row of u for each weight, none of them from a cache."""
    return (8 + 4 * columns) * entries


def random_border_share(degree: float, ranks: int) -> float:
    """The border share where nodes are dealt out at random: the most that any graph of this degree can cost.

    A part needs a node of another one if any of its neighbours is in the part, which none is with the probability
    ``(1 - 1/P)^degree``; so ``P - 1`` parts each need ``1 - (1 - 1/P)^degree`` of a part's nodes.
    """
    return (ranks - 1) * (1.0 - float((1.0 - 1.0 / ranks) ** degree))


@dataclass(frozen=True)
class Measurement:
    """One rank of one fit, as ``fit --json`` reports it.

    Attributes
    ----------
    nodes, entries, columns, n_weights, layers, epochs
        What the rank held and how often it worked on it.
    messages, payload
        Sent by it in exchanges.
    compute_seconds, exchange_seconds
        Time outside of and in exchanges.
    peak_memory, shard_bytes
        At most, and the size of its files.
    """

    nodes: float
    entries: float
    columns: int
    n_weights: int
    layers: int
    epochs: int
    messages: float
    payload: float
    compute_seconds: float
    exchange_seconds: float
    peak_memory: float
    shard_bytes: float

    @classmethod
    def of(cls, report: Mapping[str, Any], shards: Description, n_weights: int, layers: int) -> list[Measurement]:
        """Those of all ranks in a report."""
        return [
            cls(
                nodes=part.nodes,
                entries=part.entries,
                columns=shards.n_classes,
                n_weights=n_weights,
                layers=layers,
                epochs=report["epochs"],
                messages=used["messages"],
                payload=used["payload"],
                compute_seconds=report["seconds"] - used["seconds"],
                exchange_seconds=used["seconds"],
                peak_memory=used["peak_memory"],
                shard_bytes=used["shard_bytes"],
            )
            for part, used in zip(shards.parts, report["ranks"], strict=True)
        ]


def fit_rates(measured: Sequence[Measurement]) -> Rates:
    """Rates that explain measurements best: least squares of relative errors, none negative.

    Measure several sizes and numbers of layers, or the work of products and of the base network cannot be separated.
    """
    if not measured:
        raise InvalidInputError("rates need at least one measurement")
    # A pass before the first epoch and one for the answer come on top of the epochs' own.
    products = [product_bytes(m.entries, m.columns) * m.layers * (2 * m.epochs + 2) for m in measured]
    flops = [2.0 * m.n_weights * m.nodes * (4 * m.epochs + 2) for m in measured]
    once = [1.0] * len(measured)
    product_byte, flop, startup = _solve([products, flops, once], [m.compute_seconds for m in measured])
    message = network_byte = 0.0
    if sending := [m for m in measured if m.messages > 0]:
        kinds = [[m.messages for m in sending], [m.payload for m in sending]]
        message, network_byte = _solve(kinds, [m.exchange_seconds for m in sending])
    process = min(m.peak_memory - m.shard_bytes for m in measured)
    return Rates(product_byte, flop, message, network_byte, process, startup)


def _solve(kinds: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    matrix = np.array(kinds, dtype=float).T / np.array(seconds)[:, None]
    scale = matrix.max(axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(matrix / scale, np.ones(len(seconds)))
    rates: list[float] = (found / scale).tolist()
    return rates
