"""The protocol: what a method may see, how it is judged, and what a run is known by."""

from __future__ import annotations

import pickle
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
from condiff.reproduce.plans import FewShotWish, Wish, plan
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
    [job] = fewshot.jobs(path, REGISTRY.chosen("ProtoNet", "toy-1shot"), episodes)
    accuracies = []
    for classes, support, query in zip(episodes.classes, episodes.support, episodes.query, strict=True):
        distances = np.linalg.norm(FEATURES.features[query][:, None] - FEATURES.features[support], axis=-1)
        accuracies.append(100 * (classes[distances.argmin(1)] == FEATURES.labels[query]).mean())
    run = job.run()
    assert run.metrics["accuracy"] == pytest.approx(np.mean(accuracies))
    assert run.metrics["accuracy_std"] == pytest.approx(np.std(accuracies, ddof=1))
    assert run.metrics["tasks"] == 4
    assert (run.dataset, run.method, run.split, run.init) == ("toy-resnet18-1shot", "ProtoNet", 0, 0)
    assert run.seconds > 0


def test_jobs_are_known_by_what_decides_their_outcome(path: Path, tmp_path: Path) -> None:
    episodes = draw_episodes(FEATURES, Sizes(), 10)
    jobs = fewshot.jobs(path, METHODS, episodes)
    assert [(job.first, len(job.episodes)) for job in jobs[::2]] == [(0, 4), (4, 4), (8, 2)]
    assert len({job.key.digest for job in jobs}) == 6
    again = fewshot.jobs(path, METHODS, draw_episodes(FEATURES, Sizes(), 8))
    assert [job.key.digest for job in again] == [job.key.digest for job in jobs[:4]]  # more tasks go on from fewer
    other = fewshot.jobs(path, METHODS, draw_episodes(FEATURES, Sizes(), 8, seed=1))
    assert not {job.key.digest for job in other} & {job.key.digest for job in jobs}
    assert len({seed for job in jobs[::2] for seed in job.seeds()}) == 10
    assert jobs[2].seeds() == jobs[3].seeds()  # methods start alike
    for job in jobs[:2]:
        copy = pickle.loads(pickle.dumps(job))
        assert copy.key == job.key
        assert copy.run().metrics == job.run().metrics


def test_a_sweep_goes_on_where_it_stopped(path: Path, tmp_path: Path) -> None:
    jobs = fewshot.jobs(path, METHODS, draw_episodes(FEATURES, Sizes(), 8))
    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(1) as pool:
        for _ in sweep(jobs[:2], store, pool, {}):
            pass
        progress = list(sweep(jobs, store, pool, {}))
    assert progress[-1].held == 2
    assert len(progress) == 4


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        (Sizes(), "toy-resnet18-1shot"),
        (Sizes(20, 5, 15), "toy-resnet18-20way-5shot"),
        (Sizes(5, 5, 10, concentration=2.0), "toy-resnet18-5shot-10queries-unbalanced"),
        (Sizes(concentration=0.5), "toy-resnet18-1shot-dirichlet0.5"),
    ],
)
def test_names_tell_what_differs_from_the_paper(sizes: Sizes, name: str) -> None:
    assert fewshot.dataset_name(FEATURES, sizes) == name


def test_a_plan(path: Path, tmp_path: Path) -> None:
    exported = tmp_path / "tasks.json"
    asked = FewShotWish(path, shot=5, ways=4, queries=3, tasks=6, unbalanced=True)
    found = plan(
        Wish(("fewshot",), "COIN,laplacianshot", ("COIN.strength=0.4",), fewshot=asked, export_splits=exported)
    )
    assert (found.task, found.metrics) == ("fewshot", ("accuracy",))
    assert [job.key.dataset for job in found.jobs] == ["toy-resnet18-4way-5shot-3queries-unbalanced"] * 4
    settings = {job.key.method: job.key.settings for job in found.jobs}
    assert (settings["COIN"]["layers"], settings["COIN"]["strength"]) == (4, 0.4)
    assert settings["LaplacianShot"]["smoothing"] == 0.3
    assert [split["seed"] for split in found.splits] == [0, 4]
    again = plan(Wish(("fewshot",), "COIN", ("COIN.strength=0.4",), fewshot=FewShotWish(path), import_splits=exported))
    assert [job.key.digest for job in again.jobs] == [job.key.digest for job in found.jobs if job.key.method == "COIN"]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish(("fewshot",)), "few-shot tasks need features"),
        (Wish(("fewshot",), splits=3), "--splits means nothing for fewshot"),
        (Wish(("cora",), fewshot=FewShotWish(tasks=3)), "--tasks means nothing for a graph"),
        (Wish(("covid",), fewshot=FewShotWish(unbalanced=True)), "--unbalanced means nothing for covid"),
        (Wish(("prostate",), fewshot=FewShotWish(shot=1)), "--shot means nothing for prostate"),
        (Wish(("fewshot", "cora")), "fewshot is a benchmark of its own"),
    ],
)
def test_what_means_nothing_is_refused(wish: Wish, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plan(wish)


def test_imported_tasks_have_their_sizes(path: Path) -> None:
    asked = FewShotWish(path, shot=5, tasks=3)
    with pytest.raises(InvalidInputError, match="fixes the tasks: leave out --shot, --tasks"):
        plan(Wish(("fewshot",), fewshot=asked, import_splits=Path("x.json")))


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
