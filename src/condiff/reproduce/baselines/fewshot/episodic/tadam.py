"""TADAM: a scaled metric of features that are conditioned on the task (Oreshkin, Rodríguez and Lacoste 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    MetaTraining,
    PretrainedMethod,
    Pretraining,
    class_means,
    for_dataset,
)
from condiff.reproduce.baselines.fewshot.method import shots_of
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.pretraining.base_classes import PretrainedNetwork
from condiff.reproduce.pretraining.episodic import Episode, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

# The largest norm of the gradient of a tensor.
_LARGEST = 1.0
_SCHEDULE = MetaTraining(
    optimiser="sgd",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    drop_at=(1 / 2, 7 / 12, 2 / 3),
    decay=0.1,
    per_step=5,
    queries=2,
)
_NO_FIRST_STAGE = Pretraining(batches=0)


@dataclass(frozen=True)
class TADAM(PretrainedMethod):
    r"""Logits :math:`-\alpha \|f(x, \Gamma) - \mu_c\|_2` with features and prototypes that know the task.

    A first pass without conditions gives the mean :math:`\bar\mu` of the prototypes. From it a network, the TEN,
    predicts :math:`\Gamma`: after the normalisation in each block of f, channels are scaled and shifted by

    .. math:: \gamma = 1 + \gamma_0\, h(\bar\mu), \qquad \beta = \beta_0\, g(\bar\mu),

    where g and h are residual networks of three layers for each block, and the multipliers :math:`\gamma_0, \beta_0`,
    one of each a block, begin at 0 and have a penalty on their squares. Features are the means of the last maps.
    :math:`\alpha` is learnt. With the probability :math:`0.9 \cdot 0.9^{\lfloor 20 t / T \rfloor}` in episode t of T
    an auxiliary loss is added: that of classifying all base classes by unconditioned features.

    Settings are those of the article and the authors' code (ServiceNow/TADAM): SGD from 0.1, divided by 10 at a half,
    7/12 and 2/3 of the training, the gradient of every tensor clipped to the norm 1, and five, two or one episodes a
    step for 1, 5 or 10 shots. An episode has 12, 32 or 64 queries there; here it has 2, 6 or 13 of each class. They
    have a ResNet-12 with swish where here is a Conv-4 with ReLU; the TEN has swish here too. They choose a fixed
    :math:`\alpha` by validation, though the article calls it learnable; here it begins at their code's 1. Their
    auxiliary loss has a step of its own, on 64 images; here it is part of the episode's, on its support and 20 images
    of other base classes. Those go through the first pass together: a task that is normalised alone, which in their
    steps of several tasks it is not, would lose its mean. Support and queries go through the second pass together,
    theirs apart. Weights decay after the clipping, and photographs are augmented, which theirs are not.

    Parameters
    ----------
    training
        As above.
    pretraining
        None: the article finds that a first stage does not take the place of the auxiliary loss.
    scale
        First value of alpha.
    layers
        Of g and h.
    penalty
        Weight of the multipliers' squares, halved.
    chance, chance_decay, chance_drops
        The auxiliary loss's first probability, the factor by which it falls, and how many parts of the training have
        one of their own.
    """

    others: ClassVar[int] = 20

    training: MetaTraining = _SCHEDULE
    pretraining: Pretraining = _NO_FIRST_STAGE
    scale: float = 1.0
    layers: int = 3
    penalty: float = 0.01
    chance: float = 0.9
    chance_decay: float = 0.9
    chance_drops: int = 20

    def __post_init__(self) -> None:
        check_counts(layers=self.layers, chance_drops=self.chance_drops)
        for name in ("chance", "chance_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(f"{name} must be from 0 to 1, not {getattr(self, name)!r}")
        if not 0 < self.scale < float("inf"):
            raise InvalidInputError(f"scale must be positive and finite, not {self.scale!r}")
        if not 0 <= self.penalty < float("inf"):
            raise InvalidInputError(f"penalty must be finite and not negative, not {self.penalty!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        shots = shots_of(condition)
        per_step, queries = (5, 2) if shots < 5 else (2, 6) if shots < 10 else (1, 13)
        return cls(replace(for_dataset(_SCHEDULE, dataset), per_step=per_step, queries=queries))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> PretrainedNetwork:
        return ConditionedNetwork(image_shape, base_classes, self)


class ConditionedNetwork(PretrainedNetwork):
    """See :class:`TADAM`."""

    seen: Tensor

    def __init__(self, image_shape: ImageShape, base_classes: int, settings: TADAM) -> None:
        super().__init__(image_shape)
        self.settings = settings
        self.base = nn.Linear(64, base_classes)
        self.scale = nn.Parameter(torch.full((1,), settings.scale))
        self.conditions = nn.ModuleList(Conditioning(64, settings.layers) for _ in self.encoder.blocks)
        # Kept with the weights, so that a training that was stopped resumes with the right probability.
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    @property
    def chance(self) -> float:
        """The probability of the auxiliary loss in the next episode."""
        settings = self.settings
        passed = settings.chance_drops * int(self.seen) // settings.training.episodes
        return settings.chance * settings.chance_decay**passed

    def embed(self, *parts: Tensor) -> tuple[Tensor, ...]:
        rows = self.maps(torch.cat(parts)).mean(dim=(2, 3))
        return torch.split(rows, [len(part) for part in parts])

    def conditioned(self, task: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """As :meth:`embed`, for a task by the mean of its prototypes."""
        maps = torch.cat(parts).contiguous(memory_format=torch.channels_last)
        for block, condition in zip(self.encoder.blocks, self.conditions, strict=True):
            assert isinstance(block, nn.Sequential)
            convolve, normalise, activate, pool = block
            maps = pool(activate(condition(normalise(convolve(maps)), task)))
        return torch.split(maps.mean(dim=(2, 3)), [len(part) for part in parts])

    def base_loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.base(self.embed(images)[0]), labels)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        (plain,) = self.embed(support)
        return self.scores(plain, support, labels, query)

    def scores(self, plain: Tensor, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Scores of the queries, by the support's features without conditioning."""
        support, query = self.conditioned(class_means(plain, labels).mean(0), support, query)
        # Not by one product: that is inexact for near points, and its root has no slope where they are the same.
        distances = torch.cdist(query, class_means(support, labels), compute_mode="donot_use_mm_for_euclid_dist")
        return -self.scale * distances

    def loss(self, episode: Episode) -> Tensor:
        assert episode.others is not None and episode.other_classes is not None
        plain, others = self.embed(episode.support, episode.others)
        scores = self.scores(plain, episode.support, episode.labels, episode.query)
        found = functional.cross_entropy(scores, episode.truth) + self.settings.penalty * self.squares()
        if float(torch.rand(())) < self.chance:
            truth = torch.cat([episode.classes[episode.labels], episode.other_classes])
            found = found + functional.cross_entropy(self.base(torch.cat([plain, others])), truth)
        if self.training:
            self.seen += 1
        return found

    def squares(self) -> Tensor:
        """Half the sum of the multipliers' squares."""
        named = self.conditions.named_parameters()
        return torch.stack([value.square() for name, value in named if name.endswith("_multiplier")]).sum() / 2

    def parameter_groups(self) -> list[dict[str, Any]]:
        # Only filters and the TEN's matrices decay; the multipliers have a penalty of their own.
        kept = {id(self.base.weight)} | {id(value) for value in self.parameters() if value.ndim < 2}
        decaying = [value for value in self.parameters() if id(value) not in kept]
        return [
            {"params": decaying},
            {"params": [value for value in self.parameters() if id(value) in kept], "weight_decay": 0.0},
        ]

    def mend_gradients(self) -> None:
        for value in self.parameters():
            nn.utils.clip_grad_norm_(value, _LARGEST)


class Conditioning(nn.Module):
    """Scales and shifts of channels that a task asks for: the TEN of one block."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.scales, self.shifts = Residual(width, layers), Residual(width, layers)
        self.scale_multiplier, self.shift_multiplier = (nn.Parameter(torch.zeros(())) for _ in range(2))

    def forward(self, maps: Tensor, task: Tensor) -> Tensor:
        """Map (n, width, h, w) to the same shape, for a task of shape (width,)."""
        scale = 1 + self.scale_multiplier * self.scales(task)
        shift = self.shift_multiplier * self.shifts(task)
        found: Tensor = scale[:, None, None] * maps + shift[:, None, None]
        return found


class Residual(nn.Module):
    """Linear layers with swish between them; each but the first adds to what it is given."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        made = [nn.Linear(width, width) for _ in range(layers)]
        for layer in made:
            nn.init.normal_(layer.weight, std=math.sqrt(0.2 / width))
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(made)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., width) to the same shape."""
        first, *rest = self.layers
        found: Tensor = first(x)
        for layer in rest:
            given = functional.silu(found)
            found = given + layer(given)
        return found
