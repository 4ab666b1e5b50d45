"""CC+rot: a cosine classifier whose features also recognise rotations (Gidaris et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    EpisodicMethod,
    MetaTraining,
    class_means,
    for_dataset,
    is_omniglot,
)
from condiff.reproduce.baselines.fewshot.transforms import normalised
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

#: Quarters of a turn.
TURNS = 4
# Filters of the rotation head's two blocks.
_WIDTHS = (128, 256)
_SCHEDULE = MetaTraining(
    optimiser="sgd",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    drop_at=(20 / 26, 23 / 26),
    decay=0.1,
    ways=32,
    shots=1,
    queries=1,
)


@dataclass(frozen=True)
class CCRot(EpisodicMethod):
    r"""Logits :math:`\tau \cos(f(x), w_c)`, where f is trained to classify base classes and rotations.

    .. math:: L = \operatorname{mean}_x H\big(\tau \cos(f(x), w), y\big)
              + \alpha \operatorname{mean}_{x, r} H\big(\sigma \cos(g(F(x^r)), v), r\big),

    H being the cross-entropy, :math:`x^r` the image turned by r quarters, 0 to 3, F the last maps and f the same in a
    row. g is two further blocks of convolutions and a mean over the map; w, v and both scales are learnt. A novel class
    has for its weights the mean of :math:`f(x) / \|f(x)\|` over its examples.

    There is one stage, and no task is played in it: an episode is a batch, classified among all base classes, of 32
    classes with two images each. The authors' batches are 64 images of random classes. Settings are those of their code
    for miniImageNet (valeoai/BF3S): SGD from 0.1, a tenth after 20 and a hundredth after 23 of 26 epochs of 1,000
    batches, :math:`\alpha` = 1, scales from 10, and turned images count as their class too. Its momentum is Nesterov's,
    which here it is not. Its encoder is a WRN-28-10 with the mean of its maps, and g four residual blocks; for the
    Conv-4 of the article it has no configuration, and the widths of g are chosen here.

    On Omniglot a turned character is a class of its own. That takes away both uses of rotations: turned images cannot
    count as the class of the upright one, which ``recommended`` turns off; and as every drawing is among the base
    images in all four positions, nothing in an image shows how it was turned. The second loss cannot fall
    below log 4 there, so that what is left is the cosine classifier, at four times the work.

    Parameters
    ----------
    training
        As above.
    alpha
        Weight of the second loss.
    scale
        First value of tau and sigma.
    all_rotations
        Classify images in all four rotations; otherwise upright ones alone.
    """

    training: MetaTraining = _SCHEDULE
    alpha: float = 1.0
    scale: float = 10.0
    all_rotations: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise InvalidInputError(f"alpha must be finite and not negative, not {self.alpha!r}")
        if not 0 < self.scale < math.inf:
            raise InvalidInputError(f"scale must be positive and finite, not {self.scale!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(for_dataset(_SCHEDULE, dataset), all_rotations=not is_omniglot(dataset))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return RotationNetwork(image_shape, base_classes, self)


class RotationNetwork(EpisodicNetwork):
    """See :class:`CCRot`."""

    def __init__(self, image_shape: ImageShape, base_classes: int, settings: CCRot) -> None:
        super().__init__(image_shape)
        self.alpha, self.all_rotations = settings.alpha, settings.all_rotations
        self.base = CosineClassifier(self.encoder.out_features, base_classes, settings.scale)
        self.rotation = nn.Sequential(
            *(_block(*pair) for pair in pairwise((64, *_WIDTHS))),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            CosineClassifier(_WIDTHS[-1], TURNS, settings.scale),
        )

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = self.embed(support, query)
        scores: Tensor = self.base(query, class_means(normalised(support), labels))
        return scores

    def loss(self, episode: Episode) -> Tensor:
        images = torch.cat([episode.support, episode.query])
        classes = episode.classes[torch.cat([episode.labels, episode.truth])]
        maps = self.maps(turned(images))
        turns_used = TURNS if self.all_rotations else 1
        rows = maps[: turns_used * len(images)].flatten(1)
        first = functional.cross_entropy(self.base(rows), classes.repeat(turns_used))
        turns = torch.arange(TURNS).repeat_interleave(len(images))
        return first + self.alpha * functional.cross_entropy(self.rotation(maps), turns)


class CosineClassifier(nn.Module):
    r"""Logits :math:`\tau \cos(x, w_c)` with learnt weights and scale."""

    def __init__(self, width: int, classes: int, scale: float) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(classes, width) * math.sqrt(2 / width))
        self.scale = nn.Parameter(torch.full((1,), scale))

    def forward(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """(n, classes) of features (n, width), by other weights where they are given."""
        return self.scale * normalised(rows) @ normalised(self.weights if weights is None else weights).mT


def turned(images: Tensor) -> Tensor:
    """The upright images, then all turned by one quarter, by two and by three: (4 * n, channels, side, side)."""
    return torch.cat([torch.rot90(images, turn, dims=(2, 3)) for turn in range(TURNS)])


def _block(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(in_channels, out_channels, 3, padding=1), nn.BatchNorm2d(out_channels), nn.ReLU())
