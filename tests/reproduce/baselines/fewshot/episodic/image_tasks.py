"""Few-shot tasks of images that nobody drew: every class is a pattern, its images have noise."""

from __future__ import annotations

from dataclasses import replace

import torch

from condiff.reproduce.baselines.fewshot.episodic import method
from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork

SHAPE = (1, 16, 16)
#: As many patterns as base classes.
BASE = 6


def episode(
    seed: int = 0, *, ways: int = 3, shots: int = 1, queries: int = 4, others: int = 0, noise: float = 0.2
) -> Episode:
    """Images of the first patterns in another order each time, and their truth."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(BASE, *SHAPE, generator=torch.Generator().manual_seed(99))
    classes = torch.randperm(BASE, generator=generator)[:ways]
    labels = torch.arange(ways).repeat_interleave(shots)
    truth = torch.arange(ways).repeat(queries)
    rest = torch.tensor([label for label in range(BASE) if label not in classes] * BASE)[:others]

    def images(which: torch.Tensor) -> torch.Tensor:
        return patterns[which] + noise * torch.randn(len(which), *SHAPE, generator=generator)

    found = Episode(images(classes[labels]), labels, images(classes[truth]), truth, classes)
    return replace(found, others=images(rest), other_classes=rest) if others else found


def network(name: str, *, ways: int = 3, shots: int = 1, seed: int = 0, **changes: object) -> EpisodicNetwork:
    """A method's network with weights of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return made(name, **changes).build(SHAPE, ways, shots, BASE)


def made(name: str, **changes: object) -> EpisodicMethod:
    """A method with some of its settings changed."""
    return replace(method(name)(), **changes)


def check_order_and_names(model: EpisodicNetwork, task: Episode) -> None:
    """Scores follow their queries, and their classes, into another order."""
    first = model(task.support, task.labels, task.query)
    order, names = torch.randperm(12, generator=torch.Generator().manual_seed(1)), torch.tensor([2, 0, 1])
    torch.testing.assert_close(model(task.support, task.labels, task.query[order]), first[order])
    torch.testing.assert_close(model(task.support, names[task.labels], task.query)[:, names], first)
