"""Methods beyond the paper's table, beside all that are in it; loaded on first use."""

from __future__ import annotations

from condiff.reproduce.baselines import node
from condiff.reproduce.baselines.node.method import NodeMethod
from condiff.reproduce.baselines.registry import Registry

#: Name of a method: the module of this package and the class in it. A new method is one file and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "COIN-mixture": ("mixture", "MixtureCOIN"),
    "COIN-resolvent": ("resolvent", "ResolventCOIN"),
    "COIN-shares": ("shares", "SharesCOIN"),
    "COIN-adaptive": ("adaptive", "AdaptiveCOIN"),
    "COIN-reaction": ("reaction", "ReactionCOIN"),
    "COIN-learned": ("learned", "LearnedCOIN"),
    "COIN-additions": ("additions", "AdditionsCOIN"),
    "COIN-equation": ("equation", "EquationCOIN"),
    "Equation": ("equation", "Equation"),
    "GRAND-random": ("grand_random", "GRANDRandom"),
    "GPRGNN": ("gprgnn", "GPRGNN"),
    "FAGCN": ("fagcn", "FAGCN"),
    "GCNII": ("gcnii", "GCNII"),
    "GREAD": ("gread", "GREAD"),
    "CDE": ("cde", "CDE"),
}

REGISTRY: Registry[NodeMethod] = Registry(
    "condiff.reproduce.baselines",
    {name: (f"node.{module}", kind) for name, (module, kind) in node.METHODS.items()}
    | {name: (f"beyond.{module}", kind) for name, (module, kind) in METHODS.items()},
)
