"""Methods for few-shot tasks on fixed features, by the names of the paper's table; loaded on first use."""

from __future__ import annotations

from condiff.reproduce.baselines.fewshot.method import FewShotMethod
from condiff.reproduce.baselines.registry import Registry

#: Name of a method: the module of this package and the class in it. A new method is one file and one line here.
METHODS: dict[str, tuple[str, str]] = {
    "Baseline": ("baseline", "Baseline"),
    "Baseline++": ("baseline_plus_plus", "BaselinePlusPlus"),
    "MatchingNet": ("matchingnet", "MatchingNet"),
    "ProtoNet": ("protonet", "ProtoNet"),
    "Transductive": ("transductive", "Transductive"),
    "LabelPropagation": ("label_propagation", "LabelPropagation"),
    "BD-CSPN": ("bd_cspn", "BDCSPN"),
    "PT+NCM": ("pt_ncm", "PTNCM"),
    "PT-MAP": ("pt_map", "PTMAP"),
    "TIM": ("tim", "TIM"),
    "SimpleShot": ("simpleshot", "SimpleShot"),
    "LaplacianShot": ("laplacianshot", "LaplacianShot"),
    "EPNet": ("epnet", "EPNet"),
    "Diff-ResNet": ("diff_resnet", "DiffResNet"),
    "COIN": ("coin", "COIN"),
}


REGISTRY: Registry[FewShotMethod] = Registry(__name__, METHODS)
method, method_named = REGISTRY.get, REGISTRY.named
