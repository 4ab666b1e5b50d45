"""MNIST's protocol, on a small set of images that stands for it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.reproduce.datasets import mnist
from condiff.reproduce.protocols import protocol
from condiff.reproduce.protocols.low_labels import LowLabelsOptions


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    digits = np.arange(100) % 10
    points = (generator.normal(size=(100, 10)) + 8 * np.eye(10)[digits]).astype(np.float32)
    weights = sp.csr_array(np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 20) * (1 - np.eye(100)))
    monkeypatch.setattr(mnist, "images", lambda: (np.zeros((100, 784), np.uint8), digits))
    monkeypatch.setattr(mnist, "draws", lambda: {1: np.stack([np.arange(10), np.arange(10, 20)])})
    monkeypatch.setattr(mnist, "points", lambda features: points)
    monkeypatch.setattr(mnist, "field_graph", lambda features: weights)


@pytest.mark.usefixtures("small")
def test_draws_are_those_of_the_field() -> None:
    found = protocol("low-labels")
    jobs = found.jobs(LowLabelsOptions(method="Poisson,PoissonMBO", budget="1", draws=2))
    assert [(job.seed, job.name) for job in jobs] == [
        *((0, "Poisson"), (0, "PoissonMBO"), (1, "Poisson"), (1, "PoissonMBO"))
    ]
    assert jobs[0].split.train.tolist() == list(range(10)) and len(jobs[0].split.test) == 90
    runs = [job.run() for job in jobs]
    assert all(run.metrics["accuracy"] > 90 for run in runs)
    rows = {row.method: row for row in found.summarise(runs) if row.metric == "accuracy"}
    assert rows["Poisson"].published == 90.2 and rows["PoissonMBO"].splits == 2
    assert list(found.pictures(jobs, runs, list(rows.values()))) == ["accuracy-autoencoder.png"]


def test_options_that_are_wrong_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="--features"):
        LowLabelsOptions(features="words")
    with pytest.raises(InvalidInputError, match="--budget"):
        LowLabelsOptions(budget="1,6")
