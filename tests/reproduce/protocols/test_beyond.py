"""The bench beyond the paper, on a made-up graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.readers.node import NodeDataset
from condiff.readers.npz_graph import save_npz_graph
from condiff.reproduce.baselines.node.method import Outcome
from condiff.reproduce.datasets import heterophilous
from condiff.reproduce.protocols import protocol
from condiff.reproduce.protocols.beyond import BeyondOptions, _roc_auc, share_split


@pytest.fixture
def graph(tmp_path: Path) -> str:
    """Two classes of 60 nodes, joined to six others each, mostly of their own class."""
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    same = labels[:, None] == labels
    upper = np.triu(generator.random((120, 120)) < np.where(same, 0.08, 0.02), 1)
    upper |= np.eye(120, k=1, dtype=bool)
    words = (generator.random((120, 20)) < 0.2 + 0.2 * np.eye(2)[labels] @ np.repeat(np.eye(2), 10, axis=1)) * 1.0
    save_npz_graph(
        NodeDataset("two", sp.csr_array(1.0 * (upper | upper.T)), sp.csr_array(words), labels), tmp_path / "two.npz"
    )
    return str(tmp_path / "two.npz")


def test_even_labels_are_the_papers_splits(graph: str) -> None:
    beyond, node = protocol("beyond"), protocol("node")
    jobs = beyond.jobs(BeyondOptions(targets=(graph,), method="COIN-mixture,MLP", splits=2, inits=1))
    [(case, splits)] = node.cases(node.options(targets=(graph,), splits=2))  # type: ignore[call-arg]
    assert {job.split.hash for job in jobs} == {split.hash for split in splits.values()}
    assert jobs[0].case.condition == case.condition
    runs = [job.run() for job in jobs]
    ours = [run.metrics["accuracy"] for run in runs if run.method == "COIN-mixture"]
    assert np.mean(ours) > np.mean([run.metrics["accuracy"] for run in runs if run.method == "MLP"])
    assert "| COIN-mixture against |" in beyond.texts(runs)["pairs.md"]
    assert beyond.texts(runs[:1]) == {}


def test_a_tenth_of_every_class(graph: str) -> None:
    labels = np.repeat([0, 1, 2], [60, 25, 1])
    split = share_split(labels, 0)
    assert np.bincount(labels[split.train]).tolist() == [6, 2, 1]
    everything = np.sort(np.concatenate([split.train, split.validation, split.test]))
    np.testing.assert_array_equal(everything, np.arange(86))
    assert split.hash == share_split(labels, 0).hash != share_split(labels, 1).hash
    [job] = protocol("beyond").jobs(BeyondOptions(targets=(graph,), labels="tenth", splits=1, inits=1))
    assert job.case.condition == {"labels": "tenth"} and len(job.split.train) == 12


def test_two_classes_are_judged_by_the_area_under_the_curve(graph: str) -> None:
    beyond = protocol("beyond")
    jobs = beyond.jobs(BeyondOptions(targets=(graph,), labels="tenth", method="MLP,COIN-adaptive", splits=1, inits=1))
    labels = np.repeat([0, 1], 60)
    for job in jobs:
        outcome, test = job.solve(), job.split.test
        scores, truth = outcome.scores[:, 1] - outcome.scores[:, 0], labels[test]
        # The chance that a node of the second class has a higher score than one of the first.
        higher = (scores[test][truth == 1][:, None] > scores[test][truth == 0]).float().mean()
        assert job.run().metrics["roc_auc"] == pytest.approx(float(higher), abs=1e-6)
    runs = [job.run() for job in jobs]
    assert "| ROC-AUC | won |" in beyond.texts(runs)["pairs.md"]
    rows = [row for row in beyond.summarise(runs) if row.metric in beyond.metrics]
    assert {beyond.section(row) for row in rows} == {"A tenth of the labels", "A tenth of the labels, ROC-AUC"}
    assert set(beyond.pictures(jobs, runs, rows)) == {"accuracy.png", "roc_auc.png"}


def test_an_endless_log_is_no_obstacle() -> None:
    scores = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0], [-0.1, -2.0]])
    assert _roc_auc(np.array([0, 1, 1]), Outcome(scores, 0, 0.0), np.arange(3)) == 1.0


def test_the_public_split_is_that_of_the_papers_protocol(data_root: Path) -> None:
    beyond, node = protocol("beyond"), protocol("node")
    [job] = beyond.jobs(BeyondOptions(targets=("cora",), labels="public", inits=1))
    [(case, splits)] = node.cases(node.options(targets=("cora",), split="public"))  # type: ignore[call-arg]
    assert (job.split.hash, job.case.condition) == (splits[0].hash, case.condition)
    assert job.case.fingerprint == case.fingerprint and beyond.problem(job.case, 0, job.split).n_nodes == 2708
    again = beyond.options_of([job.key.run({"accuracy": 80.0}, epochs=1, seconds=1.0, memory_mb=1.0)])
    assert again.labels == "public"
    with pytest.raises(InvalidInputError, match="no public split"):
        BeyondOptions(targets=("texas",), labels="public")


def test_only_some_graphs_have_published_splits(graph: str, data_root: Path) -> None:
    with pytest.raises(InvalidInputError, match="no published splits"):
        protocol("beyond").jobs(BeyondOptions(targets=(graph,), labels="published"))
    with pytest.raises(InvalidInputError, match="--labels"):
        BeyondOptions(targets=(graph,), labels="half")  # type: ignore[arg-type]
    texas = heterophilous.load("texas")
    assert (texas.name, texas.n_nodes, texas.n_edges, texas.n_classes) == ("texas", 183, 279, 5)
    splits = heterophilous.own_splits("texas")
    assert len(splits) == 10 and (len(splits[0].train), len(splits[0].validation)) == (87, 59)
    jobs = protocol("beyond").jobs(BeyondOptions(targets=("texas",), labels="published", splits=3, inits=1))
    assert len(jobs) == 3
    said = protocol("beyond").notes(BeyondOptions(targets=("texas",), labels="published", method="COIN-adaptive"))
    assert said == ["texas: 9% of 104 labelled edges join equals (27% by chance)"]
    assert protocol("beyond").notes(BeyondOptions(targets=("texas",), labels="published")) == []
