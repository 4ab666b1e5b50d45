"""Methods trained on episodes, by the names of the paper's table; loaded on first use."""

from __future__ import annotations

from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod
from condiff.reproduce.baselines.registry import Registry

#: Name of a method: the module of this package and the class in it. A new method is one file and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "MAML": ("maml", "MAML"),
    "RelationNet": ("relationnet", "RelationNet"),
    "MatchingNet": ("matchingnet", "MatchingNet"),
    "ProtoNet": ("protonet", "ProtoNet"),
    "Gidaris": ("gidaris", "Gidaris"),
    "SNAIL": ("snail", "SNAIL"),
    "TADAM": ("tadam", "TADAM"),
    "MetaoptNet": ("metaoptnet", "MetaOptNet"),
    "TPN": ("tpn", "TPN"),
    "CAN+T": ("can", "CAN"),
    "Qiao": ("qiao", "Qiao"),
    "LEO": ("leo", "LEO"),
    "CC+rot": ("cc_rot", "CCRot"),
    "FEAT": ("feat", "FEAT"),
}


REGISTRY: Registry[EpisodicMethod] = Registry(__name__, METHODS)
method, method_named = REGISTRY.get, REGISTRY.named
