"""How far one machine goes: a million points, a graph of the size of ogbn-products, and other methods beside it."""

from condiff.reproduce.bench.scale.points import Points, make_points
from condiff.reproduce.bench.scale.sweep import SIZES, exponents, run_sweep

__all__ = ["SIZES", "Points", "exponents", "make_points", "run_sweep"]
