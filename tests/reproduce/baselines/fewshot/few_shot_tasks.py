"""Few-shot tasks that nobody took from images."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from condiff.reproduce.baselines.fewshot import method
from condiff.reproduce.baselines.fewshot.baseline import Baseline
from condiff.reproduce.baselines.fewshot.baseline_plus_plus import BaselinePlusPlus
from condiff.reproduce.baselines.fewshot.coin import COIN
from condiff.reproduce.baselines.fewshot.diff_resnet import DiffResNet
from condiff.reproduce.baselines.fewshot.label_propagation import LabelPropagation
from condiff.reproduce.baselines.fewshot.method import FewShotMethod
from condiff.reproduce.baselines.fewshot.problem import FewShotProblem
from condiff.reproduce.baselines.fewshot.tim import TIM


def task(
    seed: int = 0, *, ways: int = 3, shots: int = 2, queries: int = 5, features: int = 12, apart: float = 1.0
) -> tuple[FewShotProblem, Tensor]:
    """A task and the truth of its queries: not negative, classes ``apart`` by about so many deviations."""
    generator = torch.Generator().manual_seed(seed)
    centres = apart * torch.randn(ways, features, generator=generator)
    labels, truth = torch.arange(ways).repeat_interleave(shots), torch.arange(ways).repeat_interleave(queries)
    truth = truth[torch.randperm(len(truth), generator=generator)]

    def points(classes: Tensor) -> Tensor:
        return (1.0 + centres[classes] + 0.5 * torch.randn(len(classes), features, generator=generator)).relu()

    base_mean = torch.rand(features, generator=generator)
    return FewShotProblem(points(labels), labels, points(truth), base_mean), truth


def small(name: str, epochs: int | None = None) -> FewShotMethod:
    """The method, with neighbours that a small task has and as many epochs as are asked for."""
    made = method(name)()
    if isinstance(made, COIN | DiffResNet):
        made = replace(made, n_neighbors=5, bandwidth_rank=3)
        return made if epochs is None else replace(made, training=replace(made.training, epochs=epochs))
    if isinstance(made, LabelPropagation):
        return replace(made, n_neighbors=4)
    if epochs is not None and isinstance(made, Baseline | BaselinePlusPlus):
        return replace(made, descent=replace(made.descent, epochs=epochs))
    return replace(made, steps=epochs or 100) if isinstance(made, TIM) else made
