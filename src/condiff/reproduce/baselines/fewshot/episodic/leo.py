"""LEO: steps of descent in a latent space from which linear classifiers are decoded (Rusu et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    MetaTraining,
    PretrainedMethod,
    class_means,
    for_dataset,
)
from condiff.reproduce.baselines.fewshot.method import shots_of
from condiff.reproduce.baselines.fewshot.transforms import normalised
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.pretraining.base_classes import PretrainedNetwork
from condiff.reproduce.pretraining.episodic import Episode, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

# The largest entry of a gradient, and then the largest norm of that of a tensor.
_LARGEST = 0.1
# The gradient of a linear map's weights, as a share of them, where that of the loss is not finite.
_SHRINKAGE = 1e-4
# The smallest deviation of a Gaussian.
_SMALLEST = 1e-10
_SCHEDULE = MetaTraining(learning_rate=2.739071e-4, per_step=12)
# The readme's table, by whether the data set is tieredImageNet and whether there is one shot: the learning rate, and
# then dropout, divergence, code_penalty, weight_penalty and orthogonality.
_FOUND = {
    (False, True): (2.739071e-4, 0.307651, 0.756143, 5.756821e-6, 3.623413e-10, 0.188103),
    (False, False): (4.102361e-4, 0.300299, 0.466387, 2.661608e-7, 8.540338e-9, 1.523998e-3),
    (True, True): (8.659053e-4, 0.475126, 2.034189e-3, 8.302962e-5, 4.148858e-10, 5.451078e-3),
    (True, False): (6.110314e-4, 0.415158, 1.622811, 2.672450e-5, 1.690399e-10, 2.481216e-2),
}


@dataclass(frozen=True)
class LEO(PretrainedMethod):
    r"""Logits :math:`w_c \cdot z` with :math:`z = f(x) / \|f(x)\|`; the weights are decoded from a latent code.

    .. math:: l_c \sim N\Big(\operatorname{mean}_{i \in c} \operatorname{mean}_j\, g_r(g_e z_i, g_e z_j)\Big),
              \qquad w_c \sim N(g_d\, l_c),

    i and j being labelled images. The encoder :math:`g_e` and the decoder :math:`g_d` are linear, the relation network
    :math:`g_r` has three layers, and N is a Gaussian whose mean and deviation they give; tests take the mean. Then
    :math:`l` descends on the loss of the support, the weights being decoded anew, and at last the weights themselves
    do; the rate of every coordinate is learnt, and training differentiates through all steps. Every labelled image has
    a code and weights of its own, by its class's law, and a class is predicted by the mean of its weights. To the
    queries' loss are added the divergence of the codes from the standard Gaussian, their mean square distance from
    where the steps led them, which is taken as fixed, the squares of the weights of the three maps, halved, and the
    mean square of the correlations between the decoder's rows. f is fixed once trained to classify the base classes; a
    trained backbone may take the place of that.

    Settings are those of the authors' code (deepmind/leo), whose readme has a table for miniImageNet, taken here for
    every other data set too, and for tieredImageNet: Adam, twelve episodes per step, gradients clipped to entries and
    then norms of 0.1. There f is a WRN-28-10 with 640 features, the means of its maps; here it is a Conv-4 with 64,
    means too, trained by Adam. Where images are augmented, they are in episodes as well, whereas the authors' features
    are those of central crops. Where the steps overflow and a gradient is not finite, a step shrinks the weights of the
    maps instead, as there. Rusu, Rao, Sygnowski, Vinyals, Pascanu, Osindero and Hadsell.

    Parameters
    ----------
    training, pretraining
        As above.
    latents
        Width of a code.
    steps, fine_steps
        Of descent by the codes, and then by the weights.
    inner_rate, fine_rate
        First values of their rates.
    dropout
        Of the features, whenever they are encoded or classified.
    divergence, code_penalty, weight_penalty, orthogonality
        Weights of what is added to the loss, in the order above.
    """

    training: MetaTraining = _SCHEDULE
    latents: int = 64
    steps: int = 5
    fine_steps: int = 5
    inner_rate: float = 1.0
    fine_rate: float = 1e-3
    dropout: float = 0.307651
    divergence: float = 0.756143
    code_penalty: float = 5.756821e-6
    weight_penalty: float = 3.623413e-10
    orthogonality: float = 0.188103

    def __post_init__(self) -> None:
        check_counts(latents=self.latents, steps=self.steps, fine_steps=self.fine_steps)
        check_probabilities(dropout=self.dropout)
        for name in ("inner_rate", "fine_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInputError(f"{name} must be positive and finite, not {getattr(self, name)!r}")
        for name in ("divergence", "code_penalty", "weight_penalty", "orthogonality"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InvalidInputError(f"{name} must be finite and not negative, not {getattr(self, name)!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        rate, dropout, divergence, code_penalty, weight_penalty, orthogonality = _FOUND[
            dataset.lower().startswith("tiered"), shots_of(condition) == 1
        ]
        return cls(
            replace(for_dataset(_SCHEDULE, dataset), learning_rate=rate),
            dropout=dropout,
            divergence=divergence,
            code_penalty=code_penalty,
            weight_penalty=weight_penalty,
            orthogonality=orthogonality,
        )

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> PretrainedNetwork:
        return LatentNetwork(image_shape, base_classes, self)


class Adapted(NamedTuple):
    """Weights of every labelled image after the steps, (points, features), and what its codes add to the loss."""

    weights: Tensor
    divergence: Tensor
    moved: Tensor


class LatentNetwork(PretrainedNetwork):
    """See :class:`LEO`."""

    def __init__(self, image_shape: ImageShape, base_classes: int, settings: LEO) -> None:
        super().__init__(image_shape)
        self.settings = settings
        width, latents = 64, settings.latents
        self.base = nn.Linear(width, base_classes)
        self.encode = nn.Linear(width, latents, bias=False)
        first, second, third = (nn.Linear(2 * latents, 2 * latents, bias=False) for _ in range(3))
        self.relate = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)
        self.decode = nn.Linear(latents, 2 * width, bias=False)
        for weight in self.linear:
            nn.init.xavier_uniform_(weight)
        self.rates = nn.Parameter(torch.full((latents,), settings.inner_rate))
        self.fine_rates = nn.Parameter(torch.full((width,), settings.fine_rate))

    @property
    def linear(self) -> list[Tensor]:
        """The weights of all linear maps."""
        return [self.encode.weight, *self.relate.parameters(), self.decode.weight]

    def embed(self, *parts: Tensor) -> tuple[Tensor, ...]:
        rows = self.maps(torch.cat(parts)).mean(dim=(2, 3))
        return torch.split(rows, [len(part) for part in parts])

    def fixed(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Features of length 1."""
        return tuple(normalised(rows) for rows in super().fixed(*parts))

    def base_loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.base(self.embed(images)[0]), labels)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = self.fixed(support, query)
        return self.logits(query, self.adapted(support, labels).weights, labels)

    def loss(self, episode: Episode) -> Tensor:
        support, query = self.fixed(episode.support, episode.query)
        weights, divergence, moved = self.adapted(support, episode.labels)
        found = functional.cross_entropy(self.logits(query, weights, episode.labels), episode.truth)
        return found + self.settings.divergence * divergence + self.settings.code_penalty * moved + self.penalty()

    def logits(self, rows: Tensor, weights: Tensor, labels: Tensor) -> Tensor:
        """Logits of features, (n, ways), by the weights of the labelled images."""
        return self.dropped(rows) @ class_means(weights, labels).mT

    def adapted(self, support: Tensor, labels: Tensor) -> Adapted:
        """Encode the labelled images and take all steps; in training, as functions of what is learnt."""

        def support_loss(weights: Tensor) -> Tensor:
            return functional.cross_entropy(self.logits(support, weights, labels), labels, reduction="sum")

        with torch.enable_grad():  # tests descend on the support too
            begun, divergence = self.drawn(self.codes(support, labels))
            latents, weights = begun, self.decoded(begun, labels)
            for _ in range(self.settings.steps):
                (slope,) = torch.autograd.grad(support_loss(weights), latents, create_graph=self.training)
                latents = latents - self.rates * slope
                weights = self.decoded(latents, labels)
            for _ in range(self.settings.fine_steps):
                (slope,) = torch.autograd.grad(support_loss(weights), weights, create_graph=self.training)
                weights = weights - self.fine_rates * slope
        if not self.training:
            weights = weights.detach()
        return Adapted(weights, divergence, functional.mse_loss(begun, latents.detach()))

    def codes(self, support: Tensor, labels: Tensor) -> Tensor:
        """The law of each labelled image's code, (points, 2 latents): that of its class."""
        encoded = self.encode(self.dropped(support))
        shape = (len(support), len(support), encoded.shape[1])
        pairs = torch.cat([encoded[:, None].expand(shape), encoded[None].expand(shape)], dim=-1)
        return class_means(self.relate(pairs).mean(1), labels)[labels]

    def decoded(self, latents: Tensor, labels: Tensor) -> Tensor:
        """Weights drawn for each code, (points, features)."""
        law = self.decode(latents)
        ways = int(labels.max()) + 1
        # A decoder whose output is zero gives weights as Glorot's law draws them.
        return self.drawn(law, math.sqrt(2 / (law.shape[-1] // 2 + ways)))[0]

    def drawn(self, law: Tensor, usual: float = 0.0) -> tuple[Tensor, Tensor]:
        r"""A draw and its divergence from the standard Gaussian, a mean over all entries; in tests, the mean and 0.

        Parameters
        ----------
        law
            (..., 2 width): the mean, and :math:`\log(1 + \sigma - \sigma_0)` of the deviation :math:`\sigma`.
        usual
            :math:`\sigma_0`.
        """
        mean, raw = law.chunk(2, dim=-1)
        if not self.training:
            return mean, mean.new_zeros(())
        spread = (raw.exp() - 1 + usual).clamp_min(_SMALLEST)
        noise = torch.randn_like(mean)
        sample = mean + spread * noise
        # Both laws' logarithms at the sample; by the noise, which is exact where the spread is tiny.
        return sample, ((sample.square() - noise.square()) / 2 - spread.log()).mean()

    def dropped(self, rows: Tensor) -> Tensor:
        """Features with some left out in training."""
        return functional.dropout(rows, self.settings.dropout, self.training)

    def penalty(self) -> Tensor:
        """The penalty on the linear maps."""
        squares = torch.stack([weight.square().sum() for weight in self.linear]).sum() / 2
        rows = normalised(self.decode.weight.mT)
        correlations = rows @ rows.mT - torch.eye(len(rows), dtype=rows.dtype)
        return self.settings.weight_penalty * squares + self.settings.orthogonality * correlations.square().mean()

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"params": [*self.linear, self.rates, self.fine_rates]}]

    def mend_gradients(self) -> None:
        learnt = (*self.linear, self.rates, self.fine_rates)
        if not all(value.grad.isfinite().all() for value in learnt if value.grad is not None):
            for value in learnt:  # the steps overflowed: shrink the maps, which leads back to where they do not
                value.grad = torch.zeros_like(value)
            for weight in self.linear:
                weight.grad = _SHRINKAGE * weight.detach()
        for value in learnt:  # each by itself
            nn.utils.clip_grad_value_(value, _LARGEST)
            nn.utils.clip_grad_norm_(value, _LARGEST)
