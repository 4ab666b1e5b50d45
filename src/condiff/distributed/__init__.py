"""One graph over several processes or machines: shards on disk, border rows exchanged, the single-process result."""

from condiff.distributed.edges import EdgeFile, Edges, GraphEdges
from condiff.distributed.group import RankLostError, Ranks, Traffic, joined
from condiff.distributed.laplacian import Exchange, ShardedLaplacian
from condiff.distributed.model import Network, ShardedCOIN
from condiff.distributed.partition import Partition, blocks, partition
from condiff.distributed.shards import Description, Shard
from condiff.distributed.train import Fit, Fitted, fit, gather_output, predict, save_output
from condiff.distributed.writing import Labels, write_shards

__all__ = [
    "Description",
    "EdgeFile",
    "Edges",
    "Exchange",
    "Fit",
    "Fitted",
    "GraphEdges",
    "Labels",
    "Network",
    "Partition",
    "RankLostError",
    "Ranks",
    "Shard",
    "ShardedCOIN",
    "ShardedLaplacian",
    "Traffic",
    "blocks",
    "fit",
    "gather_output",
    "joined",
    "partition",
    "predict",
    "save_output",
    "write_shards",
]
