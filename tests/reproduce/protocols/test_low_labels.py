"""MNIST's protocol, on a small set of images that stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.reproduce.datasets import mnist
from condiff.reproduce.protocols import low_labels, protocol
from condiff.reproduce.protocols.low_labels import LowLabelsOptions


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    generator = np.random.default_rng(0)
    digits = np.arange(100) % 10
    points = (generator.normal(size=(100, 10)) + 8 * np.eye(10)[digits]).astype(np.float32)
    weights = sp.csr_array(np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 20) * (1 - np.eye(100)))
    monkeypatch.setattr(mnist, "images", lambda: (np.zeros((100, 784), np.uint8), digits))
    monkeypatch.setattr(mnist, "draws", lambda: {1: np.stack([np.arange(10), np.arange(10, 20)])})
    monkeypatch.setattr(mnist, "points", lambda features: points)
    monkeypatch.setattr(mnist, "field_graph", lambda features: weights)
    _forget()
    yield
    _forget()


def _forget() -> None:
    mnist.order.cache_clear()
    low_labels.in_order.cache_clear()


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
    # Told the sizes or not, what is compared draw by draw are the draws that both have.
    better = {"accuracy": runs[3].metrics["accuracy"] + 1}
    ours = [replace(run, method="COIN-sizes", metrics=better) for run in runs[3:]]
    assert "| 1 | - | - | - | - | +1.00 | 1 of 1 |" in found.texts([*runs, *ours])["pairs.md"]
    lines = low_labels.means_markdown([*runs, *ours], "autoencoder").splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [
        *("| Poisson", "| COIN-sizes, told the sizes", "| PoissonMBO, told the sizes")
    ]
    assert lines[0].endswith("| - | - | - | - | 2 |") and lines[1].endswith("| - | - | - | - | 1 |")
    assert low_labels.pairs_markdown(runs, "pixels") == ""


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("method", ["Laplace", "LabelSpreading", "Poisson", "Poisson-sizes", "PoissonMBO", "p-Laplace"])
def test_draws_that_are_solved_together_have_the_figures_that_each_has_by_itself(method: str) -> None:
    found = protocol("low-labels")
    jobs = found.jobs(LowLabelsOptions(method=f"{method},VolumeMBO", budget="1", draws=2))
    batches = found.batches(jobs)
    assert [[(job.name, job.seed) for job in batch] for batch in batches] == [
        *([(method, 0), (method, 1)], [("VolumeMBO", 0)], [("VolumeMBO", 1)])
    ]
    first, second = batches[0]
    alone = [job.solve() for job in (first, second)]
    together = found.solve_batch([first, second])
    assert all(np.array_equal(one.answers, other.answers) for one, other in zip(alone, together, strict=True))
    assert [run.metrics for run in first.run_batch([second])] == [first.run().metrics, second.run().metrics]


def test_options_that_are_wrong_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="--features"):
        LowLabelsOptions(features="words")
    with pytest.raises(InvalidInputError, match="--budget"):
        LowLabelsOptions(budget="1,6")
