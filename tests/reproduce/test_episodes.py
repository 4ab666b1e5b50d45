from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reproduce.class_features import made_up

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.episodes import Episodes, Sizes, draw_episodes, read_episodes, unbalanced_counts, write_episodes

FEATURES = made_up()
UNBALANCED = Sizes(4, 2, 5, concentration=2.0)


def sound(episodes: Episodes, labels: np.ndarray) -> None:
    sizes = episodes.sizes
    for classes, support, query in zip(episodes.classes, episodes.support, episodes.query, strict=True):
        assert len(set(classes)) == sizes.ways
        np.testing.assert_array_equal(labels[support], np.repeat(classes, sizes.shots))
        assert len({*support, *query}) == sizes.ways * (sizes.shots + sizes.queries)  # none twice
        assert set(labels[query]) <= set(classes)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 8), st.integers(1, 10), st.integers(1, 20), st.integers(0, 2**31))
def test_a_balanced_task(ways: int, shots: int, queries: int, seed: int) -> None:
    episodes = draw_episodes(FEATURES, Sizes(ways, shots, queries), 2, seed=seed)
    sound(episodes, FEATURES.labels)
    truth = episodes.query_labels(FEATURES.labels)
    for classes, query, told in zip(episodes.classes, episodes.query, truth, strict=True):
        np.testing.assert_array_equal(classes[told], FEATURES.labels[query])
        np.testing.assert_array_equal(np.bincount(told, minlength=ways), queries)


def test_unbalanced_tasks_have_as_many_queries_in_all() -> None:
    episodes = draw_episodes(FEATURES, UNBALANCED, 50)
    sound(episodes, FEATURES.labels)
    counts = [np.bincount(told, minlength=4) for told in episodes.query_labels(FEATURES.labels)]
    assert {count.sum() for count in counts} == {20}
    assert max(count.max() for count in counts) > 10
    assert min(count.min() for count in counts) <= 1


def test_the_law_of_unbalanced_queries() -> None:
    sizes, generator = Sizes(5, 1, 15, concentration=2.0), np.random.default_rng(0)
    shares = np.array([unbalanced_counts(generator, sizes) for _ in range(20_000)]) / 75
    # A Dirichlet share has the mean 1/5, and the variance m (1 - m) / (1 + 10); rounding adds about 1/12 of a query's.
    np.testing.assert_allclose(shares.mean(0), 0.2, atol=0.004)
    np.testing.assert_allclose(shares.var(0), 0.16 / 11 + 1 / 12 / 75**2, rtol=0.03)
    covariance = np.cov(shares.T)
    np.testing.assert_allclose(covariance[~np.eye(5, dtype=bool)], -0.04 / 11, rtol=0.12)


def test_rounding_keeps_the_sum_and_is_to_a_neighbouring_number() -> None:
    class Fixed:
        def dirichlet(self, _: Any) -> np.ndarray:
            return np.array([0.255, 0.305, 0.44])

    found = unbalanced_counts(Fixed(), Sizes(3, 1, 3, concentration=2.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, [2, 3, 4])  # from 2.295, 2.745 and 3.96


def test_a_task_depends_on_features_sizes_seed_and_number_alone() -> None:
    sizes = Sizes(5, 1, 15)
    few, many = draw_episodes(FEATURES, sizes, 3), draw_episodes(FEATURES, sizes, 5)
    assert few.hash == many.block(0, 3).hash
    assert len(many.block(3, 5)) == 2
    hashes = {
        few.hash,
        draw_episodes(FEATURES, sizes, 3, seed=1).hash,
        draw_episodes(FEATURES, Sizes(5, 2, 15), 3).hash,
        draw_episodes(made_up(apart=2.0), sizes, 3).hash,
    }
    assert len(hashes) == 4
    renumbered = replace(FEATURES, name="other")  # the fingerprint is what counts
    assert draw_episodes(renumbered, sizes, 3).hash == few.hash


def test_every_class_and_image_has_its_turn() -> None:
    episodes = draw_episodes(FEATURES, Sizes(5, 1, 15), 400)
    classes = np.bincount(episodes.classes.ravel(), minlength=8)
    assert classes.min() > 0.8 * classes.mean()
    assert len(np.unique(episodes.query)) == len(FEATURES.labels)
    assert len(np.unique(episodes.support)) > 0.95 * len(FEATURES.labels)
    # Nor does a class prefer a place.
    assert len({tuple(order) for order in episodes.classes}) > 300


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (Sizes(9, 1, 15), "has 8 classes, too few for 9 ways"),
        (Sizes(5, 16, 15), "has 30 images, but a task takes at least 31"),
        (Sizes(5, 30, 1, concentration=2.0), "takes at least 31"),
        (Sizes(5, 29, 40, concentration=2.0), "too small for 200 unbalanced queries: ask for fewer queries"),
    ],
)
def test_too_small_classes_are_reported(sizes: Sizes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        draw_episodes(FEATURES, sizes, 1)


@pytest.mark.parametrize(
    "wrong", [{"ways": 1}, {"shots": 0}, {"queries": 0}, {"ways": 5.0}, {"concentration": 0.0}, {"shots": True}]
)
def test_sizes_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="must be"):
        Sizes(**wrong)


@pytest.mark.parametrize("sizes", [Sizes(4, 2, 5), UNBALANCED])
def test_tasks_come_back_from_a_file(sizes: Sizes, tmp_path: Path) -> None:
    episodes = draw_episodes(FEATURES, sizes, 7)
    write_episodes(tmp_path / "tasks.json", episodes, FEATURES)
    found = read_episodes(tmp_path / "tasks.json", FEATURES)
    assert (found.hash, found.sizes) == (episodes.hash, sizes)
    np.testing.assert_array_equal(found.query, episodes.query)


def _moved(content: dict[str, Any]) -> None:
    content["query"][0][0] = content["support"][0][0]


def _foreign_class(content: dict[str, Any]) -> None:
    outside = next(label for label in range(8) if label not in content["classes"][0])
    content["query"][0][0] = int(np.flatnonzero(FEATURES.labels == outside)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(format="other"), "has no tasks of this version"),
        (
            lambda content: content.update(features="0" * 16),
            "fingerprint 0000000000000000, not of 'toy-resnet18-novel'",
        ),
        (lambda content: content["sizes"].update(ways=1), "sizes of its tasks are invalid"),
        (lambda content: content.pop("sizes"), "sizes of its tasks are invalid"),
        (lambda content: content["query"][1].pop(), "query must have 20 whole numbers in 0 .. 239"),
        (lambda content: content["support"][1].__setitem__(0, 240), "support must have 8 whole numbers"),
        (lambda content: content["classes"][0].__setitem__(0, True), "classes must have 4 whole numbers"),
        (lambda content: content["classes"].pop(), "must have the same number of tasks"),
        (lambda content: content["classes"][0].__setitem__(0, content["classes"][0][1]), "task 0 has a class twice"),
        (lambda content: content["support"][0].reverse(), "the support must have 2 of each class"),
        (_moved, "task 0 has an image twice"),
        (_foreign_class, "task 0 has a query of none of its classes"),
        (lambda content: content["query"][1].reverse(), "was changed: its hash is"),
    ],
)
def test_changed_files_are_refused(change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    write_episodes(path, draw_episodes(FEATURES, Sizes(4, 2, 5), 3), FEATURES)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidFileError, match=message):
        read_episodes(path, FEATURES)


def test_a_file_that_calls_itself_balanced_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    episodes = draw_episodes(FEATURES, UNBALANCED, 3)
    write_episodes(path, replace(episodes, sizes=replace(UNBALANCED, concentration=None)), FEATURES)
    with pytest.raises(InvalidFileError, match="is called balanced"):
        read_episodes(path, FEATURES)


def test_no_file_and_no_json(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    for name in ("absent.json", "broken.json"):
        with pytest.raises(InvalidFileError, match="export them again"):
            read_episodes(tmp_path / name, FEATURES)
