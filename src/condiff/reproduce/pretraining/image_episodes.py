"""Episodes and batches as images: which ones is drawn by number, and so is what augmentation does to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from condiff.bases.backbones import unit_range
from condiff.readers.images import ImageSet
from condiff.reproduce.episodes import Episodes, Sizes, draw_episodes
from condiff.reproduce.pretraining.augmentation import Augmentation
from condiff.reproduce.pretraining.episodic import Episode
from condiff.reproduce.pretraining.epochs import epoch_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Pixels:
    """The images of a set as a network reads them.

    Attributes
    ----------
    images
        The set.
    normalise
        From the unit range to what the network reads.
    augmentation
        Applied to them; None for central crops.
    """

    images: ImageSet
    normalise: Callable[[Tensor], Tensor]
    augmentation: Augmentation | None = None

    def __call__(self, chosen: NDArray[np.int64], generator: torch.Generator | None = None) -> Tensor:
        """Some of them, (n, channels, side, side)."""
        if self.augmentation is None or generator is None:
            return self.normalise(unit_range(torch.from_numpy(self.images.crops(chosen))))
        stored = unit_range(torch.from_numpy(np.array(self.images.images[chosen])))
        return self.normalise(self.augmentation(stored, generator))

    def facts(self) -> dict[str, Any]:
        """JSON values that determine the pixels."""
        augmented = None if self.augmentation is None else asdict(self.augmentation)
        return {"images": self.images.fingerprint, "crop": self.images.frame.crop, "augmentation": augmented}


@dataclass(frozen=True, eq=False)
class ImageEpisodes:
    """Episodes by number, each with its truth.

    Attributes
    ----------
    pixels
        Where the images come from.
    sizes
        The shape of an episode.
    others
        Images of further classes in each.
    seed
        Of the draws.
    """

    pixels: Pixels
    sizes: Sizes
    others: int = 0
    seed: int = 0

    def draw(self, first: int, last: int) -> Iterator[Episode]:
        """The episodes from the number ``first`` up to the one before ``last``."""
        images = self.pixels.images
        drawn = draw_episodes(images, self.sizes, last - first, seed=self.seed, first=first)
        return as_images(self.pixels, drawn, first=first, others=self.others, seed=self.seed)

    def facts(self) -> dict[str, Any]:
        """JSON values that determine the episodes."""
        return {**self.pixels.facts(), "sizes": asdict(self.sizes), "others": self.others}


def as_images(pixels: Pixels, drawn: Episodes, *, first: int = 0, others: int = 0, seed: int = 0) -> Iterator[Episode]:
    """Tasks with their images, one at a time; ``first`` is the number of the first one."""
    images = pixels.images
    labels, truth = torch.from_numpy(drawn.support_labels), torch.from_numpy(drawn.query_labels(images.labels))
    for place, (classes, support, query) in enumerate(zip(drawn.classes, drawn.support, drawn.query, strict=True)):
        generator = epoch_generator(seed, first + place)
        further = _others(images.labels, classes, others, generator)
        found = pixels(np.concatenate([support, query, further]), generator)
        labelled, queried, rest = found.split([len(support), len(query), len(further)])
        numbers = torch.from_numpy(classes)
        if others:
            yield Episode(
                labelled, labels, queried, truth[place], numbers, rest, torch.from_numpy(images.labels[further])
            )
        else:
            yield Episode(labelled, labels, queried, truth[place], numbers)


def base_batch(pixels: Pixels, size: int, number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images of all classes, drawn without replacement, and their classes."""
    generator = epoch_generator(seed, number)
    count = len(pixels.images)
    chosen = torch.randperm(count, generator=generator)[: min(size, count)].numpy()
    return pixels(chosen, generator), torch.from_numpy(pixels.images.labels[chosen])


def _others(
    labels: NDArray[np.int64], classes: NDArray[np.int64], count: int, generator: torch.Generator
) -> NDArray[np.int64]:
    if not count:
        return np.empty(0, dtype=np.int64)
    allowed = np.flatnonzero(~np.isin(labels, classes))
    chosen: NDArray[np.int64] = allowed[torch.randint(len(allowed), (count,), generator=generator).numpy()]
    return chosen
