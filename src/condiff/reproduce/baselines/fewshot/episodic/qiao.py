"""Weights of classes predicted from their activations (Qiao, Liu, Shen and Yuille 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    MetaTraining,
    PretrainedMethod,
    class_means,
    for_dataset,
    one_hot,
)
from condiff.reproduce.baselines.fewshot.transforms import normalised
from condiff.reproduce.pretraining.base_classes import PretrainedNetwork
from condiff.reproduce.pretraining.episodic import Episode, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = MetaTraining(
    optimiser="sgd", learning_rate=1e-3, momentum=0.9, weight_decay=5e-4, ways=80, shots=1, queries=1
)


@dataclass(frozen=True)
class Qiao(PretrainedMethod):
    r"""Logits :math:`\phi(s_c)^\top f(x)`: one mapping from activations to weights, the same for every class.

    .. math:: \phi(s) = \nu\big(A_2 \operatorname{relu}(A_1 \nu(s) + b_1) + b_2\big), \qquad \nu(v) = v / \|v\|,

    with :math:`A_1 = A_2 = I` and no shifts at first. First f is trained to classify the base classes, with a linear
    layer that is then dropped. Then, with f fixed, :math:`\phi` is trained on base classes: each is represented by a
    statistic :math:`s_c` that is drawn anew, the mean of f over the class or else f of one of its images, so that
    :math:`\phi` serves for both. For a novel task :math:`s_c` is the mean over the examples.

    Settings are those of the authors' code for miniImageNet (joe-siyuan-qiao/FewShot-CVPR), whose smaller encoder is
    the one here: a Conv-4 that ends with the mean of its maps and not with a maximum. A trained backbone, which ends
    with that maximum, is therefore only begun from. They take 12,500 steps of SGD with 1e-3, each with one statistic
    and one query of every base class: 80 classes, with those of validation among them. Here those validate, and a step
    has 80 base classes, or all where there are fewer. Their mean of a class is over all its images; here it is over the
    examples that episodes have shown of it so far, which tends to theirs. Unlike in their code, the first stage is by
    Adam, and where images are augmented they are so in both stages.

    Parameters
    ----------
    training, pretraining
        As above.
    mean_share
        Probability that a class is represented by its mean in training.
    """

    replaceable: ClassVar[bool] = False

    training: MetaTraining = _SCHEDULE
    mean_share: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.mean_share <= 1:
            raise InvalidInputError(f"mean_share must be from 0 to 1, not {self.mean_share!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(for_dataset(_SCHEDULE, dataset))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> PretrainedNetwork:
        return PredictedWeights(image_shape, base_classes, self.mean_share)


class PredictedWeights(PretrainedNetwork):
    """See :class:`Qiao`.

    Attributes
    ----------
    sums, counts
        Over the examples of each base class that episodes have shown: their features, (classes, 64), and how many.
    """

    sums: Tensor
    counts: Tensor

    def __init__(self, image_shape: ImageShape, base_classes: int, mean_share: float) -> None:
        super().__init__(image_shape)
        self.mean_share = mean_share
        last = list(self.encoder.blocks)[-1]
        assert isinstance(last, nn.Sequential)
        last[3] = nn.Identity()
        self.base = nn.Linear(64, base_classes)
        first, second = nn.Linear(64, 64), nn.Linear(64, 64)
        for part in (first, second):
            nn.init.eye_(part.weight)
            nn.init.zeros_(part.bias)
        self.mapping = nn.Sequential(first, nn.ReLU(), second)
        self.register_buffer("sums", torch.zeros(base_classes, 64))
        self.register_buffer("counts", torch.zeros(base_classes))

    def embed(self, *parts: Tensor) -> tuple[Tensor, ...]:
        rows = self.maps(torch.cat(parts)).mean(dim=(2, 3))
        return torch.split(rows, [len(part) for part in parts])

    def predicted(self, statistics: Tensor) -> Tensor:
        """Weights of classes by their statistics, (classes, 64)."""
        return normalised(self.mapping(normalised(statistics)))

    def base_loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.base(self.embed(images)[0]), labels)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = self.embed(support, query)
        return query @ self.predicted(class_means(support, labels)).mT

    def loss(self, episode: Episode) -> Tensor:
        support, query = self.fixed(episode.support, episode.query)
        with torch.no_grad():
            shown = episode.classes[episode.labels]
            self.sums.index_add_(0, shown, support)
            self.counts.index_add_(0, shown, torch.ones(len(shown)))
            statistics = self.drawn_statistics(support, episode)
        return functional.cross_entropy(query @ self.predicted(statistics).mT, episode.truth)

    def drawn_statistics(self, support: Tensor, episode: Episode) -> Tensor:
        """For each class of an episode its mean or one of its examples, (ways, 64)."""
        means = self.sums[episode.classes] / self.counts[episode.classes, None]
        # Of the examples of a class, the one with the highest number; those of other classes have none.
        examples = support[(one_hot(episode.labels).mT * (1 + torch.rand(len(support)))).argmax(-1)]
        return torch.where(torch.rand(len(means), 1) < self.mean_share, means, examples)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"params": list(self.mapping.parameters())}]
