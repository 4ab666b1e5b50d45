"""MAML: weights from which a few steps of descent on the support lead far (Finn, Abbeel and Levine 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod, MetaTraining, is_omniglot
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.pretraining.episodic import EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = MetaTraining(per_step=4)


@dataclass(frozen=True)
class MAML(EpisodicMethod):
    r""":math:`\theta_{k+1} = \theta_k - \eta \nabla L_{\text{support}}(\theta_k)`; the last weights classify queries.

    Training descends on the queries' loss by the first weights :math:`\theta_0`, through all steps. Settings are from
    the authors' code (cbfinn/maml): Adam with 1e-3, 5 steps in training and 10 in tests, four episodes per step of
    Adam, and the rate 0.01, as for miniImageNet; for Omniglot the rate 0.1 that goes with 5 steps there (20 ways; for 5
    ways it takes one step of 0.4). As in that code, normalisation always uses the statistics of the images at hand, so
    queries are classified together, and its scales and shifts do not take part in the steps. Unlike there, maps are
    pooled on Omniglot too, a width of 64 is used everywhere, and an episode of Omniglot has 5 queries per class.

    Parameters
    ----------
    training
        As above.
    inner_rate
        Eta.
    steps, test_steps
        Of descent, in training and in tests.
    first_order
        Leave out second derivatives: quicker, and nearly as good in the article.
    """

    training: MetaTraining = _SCHEDULE
    inner_rate: float = 0.01
    steps: int = 5
    test_steps: int = 10
    first_order: bool = False

    def __post_init__(self) -> None:
        check_counts(steps=self.steps, test_steps=self.test_steps)
        if not 0 < self.inner_rate < float("inf"):
            raise InvalidInputError(f"inner_rate must be positive and finite, not {self.inner_rate!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if is_omniglot(dataset):
            return cls(MetaTraining(per_step=4, queries=5, augment=False), inner_rate=0.1)
        return cls()

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return AdaptedNetwork(image_shape, ways, self)


class AdaptedNetwork(EpisodicNetwork):
    """See :class:`MAML`."""

    def __init__(self, image_shape: ImageShape, ways: int, settings: MAML) -> None:
        super().__init__(image_shape)
        self.settings = settings
        self.head = nn.Linear(self.encoder.out_features, ways)
        fixed: set[int] = set()
        for part in self.encoder.modules():
            if isinstance(part, nn.BatchNorm2d):  # no averages: the statistics of the images at hand
                part.track_running_stats = False
                part.running_mean = part.running_var = part.num_batches_tracked = None
                fixed |= {id(value) for value in part.parameters()}
        self.moving = [name for name, value in self.named_parameters() if id(value) not in fixed]

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        return self.scores(self.adapted(support, labels), query)

    def scores(self, weights: dict[str, Tensor], images: Tensor) -> Tensor:
        """Logits of images, (n, ways), with the weights that move replaced by these."""
        inner = {name.removeprefix("encoder."): value for name, value in weights.items() if name.startswith("encoder.")}
        rows = functional_call(self.encoder, inner, (images.contiguous(memory_format=torch.channels_last),))
        return functional.linear(rows, weights["head.weight"], weights["head.bias"])

    def adapted(self, support: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The weights after the steps; in training, as functions of those before."""
        own = dict(self.named_parameters())
        training = self.training and torch.is_grad_enabled()
        weights: dict[str, Tensor] = {name: own[name] for name in self.moving}
        with torch.enable_grad():  # tests descend on the support too
            for _ in range(self.settings.steps if self.training else self.settings.test_steps):
                if not training:  # nothing before this step is needed again
                    weights = {name: value.detach().requires_grad_() for name, value in weights.items()}
                loss = functional.cross_entropy(self.scores(weights, support), labels)
                slopes = torch.autograd.grad(
                    loss, list(weights.values()), create_graph=training and not self.settings.first_order
                )
                moved = zip(weights.items(), slopes, strict=True)
                weights = {name: value - self.settings.inner_rate * slope for (name, value), slope in moved}
        return weights
