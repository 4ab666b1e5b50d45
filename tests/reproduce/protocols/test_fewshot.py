"""The protocol: what a method may see, how it is judged, and what a run is known by."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.reproduce.class_features import made_up

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot import REGISTRY
from condiff.reproduce.datasets.features import ClassFeatures, save_features
from condiff.reproduce.episodes import Sizes, draw_episodes
from condiff.reproduce.protocol import Case, Job, jobs, splits_record
from condiff.reproduce.protocols import fewshot
from condiff.reproduce.runner import sweep
from condiff.reproduce.store import Store

FEATURES = made_up()
METHODS = REGISTRY.chosen("SimpleShot,TIM", "toy-1shot", ("TIM.steps=3",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_features(tmp_path / "toy.npz", FEATURES)
    return tmp_path / "toy.npz"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fewshot, "BLOCK", 4)


def work(path: Path, methods, episodes) -> list[Job]:
    condition = fewshot.condition_of(episodes.sizes, "resnet18")
    case = Case("toy", condition, FEATURES.fingerprint, str(path))
    return jobs(fewshot.FewShot(), case, methods, fewshot.blocks(episodes))


def test_what_a_method_may_see() -> None:
    episodes = draw_episodes(FEATURES, Sizes(4, 2, 5), 3)
    given = fewshot.problems(FEATURES, episodes)
    assert len(given) == 3
    for problem, support, query in zip(given, episodes.support, episodes.query, strict=True):
        assert torch.equal(problem.support, torch.from_numpy(FEATURES.features[support]))
        assert torch.equal(problem.query, torch.from_numpy(FEATURES.features[query]))
        assert problem.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    # Whatever the classes of the queries are, a method is given the same.
    labels = FEATURES.labels.copy()
    labels[episodes.query.ravel()] = 0
    again = fewshot.problems(replace(FEATURES, labels=labels), episodes)
    assert all(torch.equal(one.query, two.query) for one, two in zip(given, again, strict=True))
    assert all(torch.equal(one.labels, two.labels) for one, two in zip(given, again, strict=True))


def test_a_run_is_judged_task_by_task(path: Path) -> None:
    episodes = draw_episodes(FEATURES, Sizes(), 4)
    [job] = work(path, REGISTRY.chosen("ProtoNet", "toy-1shot"), episodes)
    accuracies = []
    for classes, support, query in zip(episodes.classes, episodes.support, episodes.query, strict=True):
        distances = np.linalg.norm(FEATURES.features[query][:, None] - FEATURES.features[support], axis=-1)
        accuracies.append(100 * (classes[distances.argmin(1)] == FEATURES.labels[query]).mean())
    run = job.run()
    assert run.metrics["accuracy"] == pytest.approx(np.mean(accuracies))
    assert run.metrics["accuracy_std"] == pytest.approx(np.std(accuracies, ddof=1))
    assert run.metrics["tasks"] == 4
    assert (run.dataset, run.method, run.split, run.init) == ("toy", "ProtoNet", 0, 0)
    assert run.condition == fewshot.condition_of(Sizes(), "resnet18")
    assert run.seconds > 0


def test_jobs_are_known_by_what_decides_their_outcome(path: Path, tmp_path: Path) -> None:
    episodes = draw_episodes(FEATURES, Sizes(), 10)
    made = work(path, METHODS, episodes)
    assert [(job.seed, len(job.split)) for job in made[::2]] == [(0, 4), (4, 4), (8, 2)]
    assert len({job.key.digest for job in made}) == 6
    again = work(path, METHODS, draw_episodes(FEATURES, Sizes(), 8))
    assert [job.key.digest for job in again] == [job.key.digest for job in made[:4]]  # more tasks go on from fewer
    other = work(path, METHODS, draw_episodes(FEATURES, Sizes(), 8, seed=1))
    assert not {job.key.digest for job in other} & {job.key.digest for job in made}
    assert len({seed for job in made[::2] for seed in fewshot.seeds(job)}) == 10
    assert fewshot.seeds(made[2]) == fewshot.seeds(made[3])  # methods start alike
    for job in made[:2]:
        copy = pickle.loads(pickle.dumps(job))
        assert copy.key == job.key
        assert copy.run().metrics == job.run().metrics


def test_a_sweep_goes_on_where_it_stopped(path: Path, tmp_path: Path) -> None:
    made = work(path, METHODS, draw_episodes(FEATURES, Sizes(), 8))
    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(1) as pool:
        for _ in sweep(made[:2], store, pool, {}):
            pass
        progress = list(sweep(made, store, pool, {}))
    assert progress[-1].held == 2
    assert len(progress) == 4


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        (Sizes(), ("toy", "resnet18", "5-way 1-shot")),
        (Sizes(20, 5, 15), ("toy", "resnet18", "20-way 5-shot")),
        (Sizes(5, 5, 10, concentration=2.0), ("toy", "resnet18", "5-way 5-shot", "10 queries per class", "unbalanced")),
        (Sizes(concentration=0.5), ("toy", "resnet18", "5-way 1-shot", "unbalanced (Dirichlet 0.5)")),
    ],
)
def test_headings_say_what_the_tasks_are(sizes: Sizes, parts: tuple[str, ...]) -> None:
    assert fewshot.FewShot().describe("toy", fewshot.condition_of(sizes, "resnet18")) == parts


def test_what_is_asked_for(path: Path, tmp_path: Path) -> None:
    exported = tmp_path / "tasks.json"
    changes = ("COIN.strength=0.4",)
    sizes = {"shot": 5, "ways": 4, "queries": 3, "tasks": 6, "unbalanced": True}
    options = fewshot.FewShotOptions(
        method="COIN,laplacianshot", changes=changes, features=path, export_splits=exported, **sizes
    )
    found = fewshot.FewShot().jobs(options)
    assert {(job.key.task, job.key.dataset) for job in found} == {("fewshot", "toy")}
    assert {job.key.condition for job in found} == {fewshot.condition_of(Sizes(4, 5, 3, 2.0), "resnet18")}
    settings = {job.key.method: job.key.settings for job in found}
    assert (settings["COIN"]["layers"], settings["COIN"]["strength"]) == (4, 0.4)
    assert settings["LaplacianShot"]["smoothing"] == 0.3
    assert [split["seed"] for split in splits_record(found)] == [0, 4]
    again = fewshot.FewShot().jobs(fewshot.FewShotOptions(changes=changes, features=path, import_splits=exported))
    assert [job.key.digest for job in again] == [job.key.digest for job in found if job.key.method == "COIN"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "few-shot tasks need features"),
        ({"backbone": "conv4"}, "give --dataset cub|omniglot|DIR as well"),
        ({"dataset": "cub", "features": Path("x.npz")}, "leave out --dataset and --backbone"),
        ({"features": Path("x"), "shot": 0}, "--shot must be at least 1, not 0"),
        ({"features": Path("x"), "import_splits": Path("y"), "shot": 5, "tasks": 3}, "leave out --shot, --tasks"),
        ({"episodic": True}, "--episodic trains on images"),
        ({"episodic": True, "dataset": "cub", "features": Path("x.npz")}, "and no --features"),
        ({"episodic": True, "dataset": "cub", "backbone": "resnet18"}, "--episodic is for conv4"),
        ({"features": Path("x.npz"), "episodes": 3}, "give --episodic as well"),
    ],
)
def test_what_makes_no_sense_is_said(options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        fewshot.FewShotOptions(**options)


def test_embedded_features_are_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def dataset_features(dataset: str, backbone: str, part: str, *, on_batch: object) -> ClassFeatures:
        asked.append((dataset, backbone, part))
        return FEATURES

    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path))
    monkeypatch.setattr("condiff.reproduce.embedding.dataset_features", dataset_features)
    found = fewshot.embedded("cub", "conv4")
    assert asked == [("cub", "conv4", "novel")]
    assert found.parent == tmp_path / "features"
    assert fewshot.load(str(found)).fingerprint == FEATURES.fingerprint
    assert fewshot.embedded("cub", "conv4") == found
